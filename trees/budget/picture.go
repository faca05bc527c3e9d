package budget

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Names gives features and labels names. If a function is nil or returns
// nothing, the number is the name, that of a feature after an x.
type Names struct {
	Feature, Label func(uint32) string
}

func (n Names) feature(i uint32) string { return nameOf(n.Feature, "x", i) }
func (n Names) label(i uint32) string   { return nameOf(n.Label, "", i) }

// nameOf is a name on one line, or else the number behind a letter.
func nameOf(name func(uint32) string, letter string, i uint32) string {
	if name != nil {
		s := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, name(i))
		if s != "" {
			return s
		}
	}
	return letter + strconv.Itoa(int(i))
}

// labels are the names of several labels.
func (n Names) labels(list []uint32) []string {
	all := make([]string, len(list))
	for i, l := range list {
		all[i] = n.label(l)
	}
	return all
}

// PictureOptions say how much of a model a Picture shows. Names are called for
// what is shown only.
type PictureOptions struct {
	Names Names
	// Features is how many features of a node are named, those of largest
	// weight; 0 means 5.
	Features int
	// Depth is how many decisions deep the trees are shown; 0 means all.
	Depth int
	// Nodes is how many decisions are shown, those that most training rows
	// reach; 0 means all.
	Nodes int
	// Trees are the trees shown, by number; nil means all. Numbers of no tree
	// are passed over.
	Trees []int
}

// PictureNode is a decision or an end of a Picture.
type PictureNode struct {
	// Above is the place in Picture.Nodes of the decision that leads here, -1
	// for a root; Yes reports whether that decision is positive on the path,
	// and Depth how many decisions there are above.
	Above, Depth int
	Yes          bool
	// Ref is the node of the model, or ^leaf for a leaf.
	Ref int32
	// Heading names the tree at the root of one of several.
	Heading string
	// Asks is the question of a decision, Terms its sum: the heaviest features
	// with their weights, how many more there are, the offset. Always are the
	// labels that all its rows have (AT).
	Asks   string
	Terms  []string
	Always []string
	// Answer is what a leaf says: label names, or one class.
	Answer []string
	// Hidden is how many decisions are not shown from here on, where the
	// picture ends before the tree.
	Hidden int
	// Note is the numbers of the node or leaf.
	Note string
}

// Leaf reports whether the node is a leaf.
func (n *PictureNode) Leaf() bool { return n.Ref < 0 }

// Picture is what people see of a model, with names, as text, as a graph and
// drawn. It shares nothing with the model.
type Picture struct {
	Kind Kind
	// Nodes lists a node before what is below it, and that of its positive side
	// first.
	Nodes []PictureNode
	// Hidden is how many decisions the picture leaves out.
	Hidden int
}

// Picture makes the picture of a model. O(nodes of the trees shown + size of
// what is shown).
func (m *Model) Picture(o PictureOptions) *Picture {
	if o.Features <= 0 {
		o.Features = 5
	}
	trees := o.Trees
	if trees == nil {
		for t := range m.Roots {
			trees = append(trees, t)
		}
	}
	trees = slices.DeleteFunc(slices.Clone(trees), func(t int) bool { return t < 0 || t >= len(m.Roots) })
	p := &Picture{Kind: m.Kind}
	below := m.decisionsBelow()
	open := m.shown(trees, o)
	for _, t := range trees {
		p.addTree(m, t, o, open, below)
	}
	return p
}

// decisionsBelow is, of each node, the number of decisions in its part of the
// tree, its own among them.
func (m *Model) decisionsBelow() []int {
	below := make([]int, m.Nodes())
	for i := m.Nodes() - 1; i >= 0; i-- { // children stand behind their parents
		below[i] = 1
		for _, r := range [2]int32{m.Left[i], m.Right[i]} {
			if r >= 0 {
				below[i] += below[r]
			}
		}
	}
	return below
}

// shown says of each node whether the picture has its decision: those that most
// rows reach, ties by number, down to the asked depth. A node has no more rows than
// its parent and a larger number, so the parents of nodes that are shown are, too.
func (m *Model) shown(trees []int, o PictureOptions) []bool {
	var found []int
	depth := map[int]int{}
	reach := func(ref int32, d int) {
		if ref >= 0 && (o.Depth <= 0 || d < o.Depth) {
			depth[int(ref)] = d
			found = append(found, int(ref))
		}
	}
	for _, t := range trees {
		reach(m.Roots[t], 0)
	}
	for at := 0; at < len(found); at++ {
		node := found[at]
		reach(m.Left[node], depth[node]+1)
		reach(m.Right[node], depth[node]+1)
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.NodeRows[b], m.NodeRows[a]), cmp.Compare(a, b))
	})
	if o.Nodes > 0 {
		found = found[:min(o.Nodes, len(found))]
	}
	open := make([]bool, m.Nodes())
	for _, node := range found {
		open[node] = true
	}
	return open
}

// addTree adds the nodes of a tree.
func (p *Picture) addTree(m *Model, tree int, o PictureOptions, open []bool, below []int) {
	type step struct {
		ref          int32
		above, depth int
		yes          bool
	}
	stack := []step{{ref: m.Roots[tree], above: -1}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := PictureNode{Above: s.above, Depth: s.depth, Yes: s.yes, Ref: s.ref}
		if s.depth == 0 && len(m.Roots) > 1 {
			n.Heading = o.Names.label(uint32(tree)) + " against the rest"
		}
		switch {
		case s.ref < 0:
			n.Answer, n.Note = m.answer(int(^s.ref), tree, o.Names), m.leafNote(int(^s.ref))
		case !open[s.ref]:
			n.Hidden, n.Note = below[s.ref], rowsNote(m.NodeRows[s.ref])
			p.Hidden += n.Hidden
		default:
			at, here := int(s.ref), len(p.Nodes)
			n.Asks, n.Terms, n.Note = m.question(at, o.Names), m.terms(at, o), m.nodeNote(at)
			n.Always = o.Names.labels(m.Ones(at))
			right, left := step{m.Right[at], here, s.depth + 1, false}, step{m.Left[at], here, s.depth + 1, true}
			stack = append(stack, right, left)
		}
		p.Nodes = append(p.Nodes, n)
	}
}

// question is what a node asks.
func (m *Model) question(node int, names Names) string {
	if m.Kind == AT {
		return names.label(m.NodeLabel[node]) + "?"
	}
	return "node " + strconv.Itoa(node)
}

// counted is a number of things in words.
func counted(n uint32, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func rowsNote(n uint32) string { return counted(n, "row") }

// nodeNote is the numbers of a node.
func (m *Model) nodeNote(node int) string {
	note := rowsNote(m.NodeRows[node])
	switch m.Kind {
	case SBT:
		note += ", " + counted(m.NodeErrors[node], "error")
	case AT:
		note += ", " + counted(m.NodeWorking[node], "label") + " open"
	}
	return note
}

// terms is a decision as a sum: its heaviest features, how many more there
// are, and the offset against the threshold.
func (m *Model) terms(node int, o PictureOptions) []string {
	type term struct {
		feature uint32
		weight  float64
	}
	var all []term
	for e := m.NodePtr[node]; e < m.NodePtr[node+1]; e++ {
		all = append(all, term{m.Features[m.NodeFeature[e]], m.meanWeight(int(e))})
	}
	slices.SortFunc(all, func(a, b term) int {
		return cmp.Or(cmp.Compare(math.Abs(b.weight), math.Abs(a.weight)), cmp.Compare(a.feature, b.feature))
	})
	var lines []string
	for _, t := range all[:min(o.Features, len(all))] {
		lines = append(lines, fmt.Sprintf("%+.3g·%s", t.weight, o.Names.feature(t.feature)))
	}
	if more := len(all) - o.Features; more > 0 {
		lines = append(lines, fmt.Sprintf("+ %d more", more))
	}
	return append(lines, fmt.Sprintf("%+.3g > 0", m.meanOffset(node)-float64(m.Threshold)))
}

// answer is what a leaf says.
func (m *Model) answer(leaf, tree int, names Names) []string {
	if m.Kind != SBT {
		return names.labels(m.Set(leaf))
	}
	yes := m.LeafClass[leaf] > 0
	switch {
	case len(m.Roots) == 1 && yes:
		return []string{names.label(1)}
	case len(m.Roots) == 1:
		return []string{names.label(0)}
	case yes:
		return []string{names.label(uint32(tree))}
	}
	return []string{"not " + names.label(uint32(tree))}
}

// leafNote is the numbers of a leaf: of SBT, how many of its rows have the
// class that it answers.
func (m *Model) leafNote(leaf int) string {
	if m.Kind != SBT {
		return rowsNote(m.LeafRows[leaf])
	}
	right := m.LeafPositive[leaf]
	if m.LeafClass[leaf] < 0 {
		right = m.LeafRows[leaf] - right
	}
	return fmt.Sprintf("%d of %s", right, rowsNote(m.LeafRows[leaf]))
}
