package budget

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PictureOptions say how much of a model WriteText, WriteDOT and
// WriteSVG show.
type PictureOptions struct {
	Names Names
	// Features is how many features of a node are named, those of largest
	// weight; 0 means 5.
	Features int
	// Depth is how many decisions deep the trees are shown; 0 means all.
	Depth int
}

// WriteText writes the trees as indented text: of each node its question, its
// heaviest weighted features and how many training rows reached it. O(size of
// the model). Errors: those of w.
func (m *Model) WriteText(w io.Writer, o PictureOptions) error {
	out := bufio.NewWriter(w)
	for t := range m.Roots {
		if len(m.Roots) > 1 {
			fmt.Fprintf(out, "class %s against the rest\n", name(o.Names.Labels, uint32(t)))
		}
		m.visit(t, o.Depth, func(v visited) {
			fmt.Fprintf(out, "%s%s", strings.Repeat("  ", v.depth), v.side())
			switch {
			case v.ref < 0:
				fmt.Fprintln(out, m.leafText(int(^v.ref), o))
			case v.cut:
				fmt.Fprintf(out, "… %d rows\n", m.NodeRows[v.ref])
			default:
				fmt.Fprintf(out, "%s: %s (%s)\n", m.question(int(v.ref), o), strings.Join(m.terms(int(v.ref), o), " "), m.nodeNote(int(v.ref)))
				if ones := m.Ones(int(v.ref)); len(ones) > 0 {
					fmt.Fprintf(out, "%s  always %s\n", strings.Repeat("  ", v.depth), nameAll(o.Names.Labels, ones))
				}
			}
		})
	}
	return out.Flush()
}

// WriteDOT writes the trees as a graph for Graphviz, like the paper's figure 7:
// solid edges lead where a decision is positive, dashed ones where it is not.
// O(size of the model). Errors: those of w.
func (m *Model) WriteDOT(w io.Writer, o PictureOptions) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "digraph tree {")
	fmt.Fprintln(out, "  node [fontname=\"sans-serif\", fontsize=10, shape=box];")
	for t := range m.Roots {
		if len(m.Roots) > 1 {
			fmt.Fprintf(out, "  t%d [shape=plaintext, label=%s];\n", t, quoteDOT("class "+name(o.Names.Labels, uint32(t))))
		}
		m.visit(t, o.Depth, func(v visited) {
			switch {
			case v.ref < 0:
				fmt.Fprintf(out, "  %s [style=rounded, label=%s];\n", dotID(v.ref), quoteDOT(m.leafText(int(^v.ref), o)))
			case v.cut:
				fmt.Fprintf(out, "  %s [shape=plaintext, label=\"… %d rows\"];\n", dotID(v.ref), m.NodeRows[v.ref])
			default:
				lines := append([]string{m.question(int(v.ref), o)}, m.terms(int(v.ref), o)...)
				fmt.Fprintf(out, "  %s [label=%s];\n", dotID(v.ref), quoteDOT(strings.Join(append(lines, m.nodeNote(int(v.ref))), "\n")))
			}
			switch {
			case v.depth > 0:
				style := "solid"
				if !v.left {
					style = "dashed"
				}
				fmt.Fprintf(out, "  n%d -> %s [style=%s];\n", v.parent, dotID(v.ref), style)
			case len(m.Roots) > 1:
				fmt.Fprintf(out, "  t%d -> %s;\n", t, dotID(v.ref))
			}
		})
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// visited is a node or leaf met on a walk over a tree.
type visited struct {
	ref    int32
	parent int
	depth  int
	left   bool
	cut    bool // a node at the depth where the picture ends
}

// side says which answer leads here.
func (v visited) side() string {
	switch {
	case v.depth == 0:
		return ""
	case v.left:
		return "yes: "
	}
	return "no:  "
}

// visit calls f for the nodes and leaves of a tree, a node before its left and
// then its right part, down to the given depth.
func (m *Model) visit(tree, depth int, f func(visited)) {
	stack := []visited{{ref: m.Roots[tree]}}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		v.cut = v.ref >= 0 && depth > 0 && v.depth >= depth
		f(v)
		if v.ref >= 0 && !v.cut {
			at := int(v.ref)
			stack = append(stack, visited{m.Right[at], at, v.depth + 1, false, false}, visited{m.Left[at], at, v.depth + 1, true, false})
		}
	}
}

// question is what a node asks.
func (m *Model) question(node int, o PictureOptions) string {
	if m.Kind == AT {
		return name(o.Names.Labels, m.NodeLabel[node]) + "?"
	}
	return "node " + strconv.Itoa(node)
}

// nodeNote is the numbers of a node.
func (m *Model) nodeNote(node int) string {
	note := fmt.Sprintf("%d rows", m.NodeRows[node])
	switch m.Kind {
	case SBT:
		note += fmt.Sprintf(", %d errors", m.NodeErrors[node])
	case AT:
		note += fmt.Sprintf(", %d labels open", m.NodeWorking[node])
	}
	return note
}

// terms is a decision as a sum: its heaviest features, how many more there
// are, and the offset against the threshold.
func (m *Model) terms(node int, o PictureOptions) []string {
	limit := o.Features
	if limit == 0 {
		limit = 5
	}
	var all []scored
	for e := m.NodePtr[node]; e < m.NodePtr[node+1]; e++ {
		all = append(all, scored{m.Features[m.NodeFeature[e]], m.meanWeight(int(e))})
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(math.Abs(b.value), math.Abs(a.value)), cmp.Compare(a.feature, b.feature))
	})
	var lines []string
	for _, t := range all[:min(limit, len(all))] {
		lines = append(lines, fmt.Sprintf("%+.3g·%s", t.value, name(o.Names.Features, t.feature)))
	}
	if more := len(all) - limit; more > 0 {
		lines = append(lines, fmt.Sprintf("+ %d more", more))
	}
	return append(lines, fmt.Sprintf("%+.3g > 0", m.meanOffset(node)-float64(m.Threshold)))
}

// leafText is the answer of a leaf.
func (m *Model) leafText(leaf int, o PictureOptions) string {
	if m.Kind != SBT {
		return fmt.Sprintf("{%s} (%d rows)", nameAll(o.Names.Labels, m.Set(leaf)), m.LeafRows[leaf])
	}
	answer := "negative"
	if m.LeafClass[leaf] > 0 {
		answer = "positive"
	}
	if len(m.Roots) == 1 {
		class := uint32(0)
		if m.LeafClass[leaf] > 0 {
			class = 1
		}
		if int(class) < len(o.Names.Labels) {
			answer = o.Names.Labels[class]
		}
	}
	return fmt.Sprintf("%s (%d of %d rows positive)", answer, m.LeafPositive[leaf], m.LeafRows[leaf])
}

func name(names []string, i uint32) string {
	if int(i) < len(names) {
		return names[i]
	}
	return strconv.Itoa(int(i))
}

func nameAll(names []string, list []uint32) string {
	all := make([]string, len(list))
	for i, l := range list {
		all[i] = name(names, l)
	}
	return strings.Join(all, ", ")
}

// dotID is the graph's name of a node or leaf.
func dotID(ref int32) string {
	if ref < 0 {
		return "l" + strconv.Itoa(int(^ref))
	}
	return "n" + strconv.Itoa(int(ref))
}

// quoteDOT writes a string as Graphviz reads it; line ends stay centred lines.
func quoteDOT(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", " ").Replace(s) + `"`
}
