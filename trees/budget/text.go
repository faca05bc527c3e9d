package budget

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteText writes the trees as indented text: of each node its question, its
// sum and its numbers. O(size of the picture). Errors: those of w.
func (p *Picture) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Heading != "" {
			fmt.Fprintln(out, n.Heading)
		}
		indent := strings.Repeat("  ", n.Depth)
		fmt.Fprint(out, indent)
		switch {
		case n.Above < 0:
		case n.Yes:
			fmt.Fprint(out, "yes: ")
		default:
			fmt.Fprint(out, "no:  ")
		}
		switch {
		case n.Leaf():
			fmt.Fprintf(out, "%s (%s)\n", p.answer(n), n.Note)
		case n.Hidden > 0:
			fmt.Fprintf(out, "%s (%s)\n", n.hidden(), n.Note)
		default:
			fmt.Fprintf(out, "%s %s (%s)\n", n.Asks, strings.Join(n.Terms, " "), n.Note)
			if len(n.Always) > 0 {
				fmt.Fprintf(out, "%s  always: %s\n", indent, strings.Join(n.Always, ", "))
			}
		}
	}
	return out.Flush()
}

// answer is a leaf's answer: sets are in braces, so that the empty one is seen.
func (p *Picture) answer(n *PictureNode) string {
	if p.Kind == SBT {
		return n.Answer[0]
	}
	return "{" + strings.Join(n.Answer, ", ") + "}"
}

// hidden describes what is not shown.
func (n *PictureNode) hidden() string {
	return "… " + counted(uint32(n.Hidden), "more decision")
}

// WriteDOT writes the trees as a graph for Graphviz, like the paper's figure 7:
// solid edges lead where a decision is positive, dashed ones where it is not.
// O(size of the picture). Errors: those of w.
func (p *Picture) WriteDOT(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "digraph tree {")
	fmt.Fprintln(out, "  node [fontname=\"sans-serif\", fontsize=10, shape=box];")
	fmt.Fprintln(out, "  edge [fontname=\"sans-serif\", fontsize=9];")
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Heading != "" {
			fmt.Fprintf(out, "  t%d [shape=plaintext, label=%s];\n", i, quoteDOT(n.Heading))
			fmt.Fprintf(out, "  t%d -> %s;\n", i, dotID(n.Ref))
		}
		style := ""
		switch {
		case n.Leaf():
			style = "style=rounded, "
		case n.Hidden > 0:
			style = "shape=plaintext, "
		}
		fmt.Fprintf(out, "  %s [%slabel=%s];\n", dotID(n.Ref), style, quoteDOT(strings.Join(p.lines(n), "\n")))
		if n.Above >= 0 {
			style, answer := "solid", "yes"
			if !n.Yes {
				style, answer = "dashed", "no"
			}
			from, to := dotID(p.Nodes[n.Above].Ref), dotID(n.Ref)
			fmt.Fprintf(out, "  %s -> %s [style=%s, label=%s];\n", from, to, style, answer)
		}
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// lines is what a box says, its heading left out.
func (p *Picture) lines(n *PictureNode) []string {
	switch {
	case n.Leaf():
		return []string{p.answer(n), n.Note}
	case n.Hidden > 0:
		return []string{n.hidden(), n.Note}
	}
	lines := append([]string{n.Asks}, n.Terms...)
	if len(n.Always) > 0 {
		lines = append(lines, "always: "+strings.Join(n.Always, ", "))
	}
	return append(lines, n.Note)
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
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
