package budget

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Measures of a picture, in pixels.
const (
	svgSlot   = 190 // width of a leaf's place
	svgBox    = 176
	svgLine   = 14
	svgGap    = 46 // between a level's boxes and the next level's
	svgMargin = 10
)

// svgNode is a box of the picture.
type svgNode struct {
	visited
	lines  []string
	above  int // place of its parent in the list of boxes, -1 for roots
	x      float64
	placed int // children whose x has been added up
}

// WriteSVG draws the trees side by side as an SVG picture, like the paper's
// figure 7: of each node the question, the heaviest weighted features and its
// numbers; solid lines lead where a decision is positive, dashed ones where it
// is not. The picture is as wide as there are leaves: bound it by Depth. O(size
// of what is drawn). Errors: those of w.
func (m *Model) WriteSVG(w io.Writer, o PictureOptions) error {
	var boxes []svgNode
	for t := range m.Roots {
		at := map[int]int{} // of each node its box
		m.visit(t, o.Depth, func(v visited) {
			b := svgNode{visited: v, above: -1}
			if v.depth > 0 {
				b.above = at[v.parent]
			}
			switch {
			case v.ref < 0:
				b.lines = []string{m.leafText(int(^v.ref), o)}
			case v.cut:
				b.lines = []string{fmt.Sprintf("… %d rows", m.NodeRows[v.ref])}
			default:
				b.lines = append(append([]string{m.question(int(v.ref), o)}, m.terms(int(v.ref), o)...), m.nodeNote(int(v.ref)))
			}
			if v.depth == 0 && len(m.Roots) > 1 {
				b.lines = append([]string{"class " + name(o.Names.Labels, uint32(t))}, b.lines...)
			}
			if v.ref >= 0 {
				at[int(v.ref)] = len(boxes)
			}
			boxes = append(boxes, b)
		})
	}
	leaves, levels := placeBoxes(boxes)
	return drawBoxes(w, boxes, leaves, levels)
}

// placeBoxes gives ends of paths places from left to right and other boxes the
// middle of their children's. It returns the number of ends and, of each level,
// the height of its tallest box in lines.
func placeBoxes(boxes []svgNode) (ends int, levels []int) {
	for i := range boxes {
		b := &boxes[i]
		for len(levels) <= b.depth {
			levels = append(levels, 0)
		}
		levels[b.depth] = max(levels[b.depth], len(b.lines))
		if b.ref < 0 || b.cut {
			b.x = (float64(ends)+0.5)*svgSlot + svgMargin
			ends++
		}
	}
	// Children stand behind their parents.
	for i := len(boxes) - 1; i >= 0; i-- {
		b := &boxes[i]
		if b.placed > 0 {
			b.x /= float64(b.placed)
		}
		if b.above >= 0 {
			boxes[b.above].x += b.x
			boxes[b.above].placed++
		}
	}
	return ends, levels
}

func drawBoxes(w io.Writer, boxes []svgNode, ends int, levels []int) error {
	out := bufio.NewWriter(w)
	top := make([]int, len(levels)+1)
	top[0] = svgMargin
	for l, lines := range levels {
		top[l+1] = top[l] + boxHeight(lines) + svgGap
	}
	width, height := ends*svgSlot+2*svgMargin, top[len(levels)]-svgGap+svgMargin
	fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n", width, height, width, height)
	fmt.Fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	for _, b := range boxes {
		if b.above < 0 {
			continue
		}
		up := boxes[b.above]
		dash := ""
		if !b.left {
			dash = " stroke-dasharray=\"5 3\""
		}
		fmt.Fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#555\"%s/>\n",
			up.x, top[up.depth]+boxHeight(len(up.lines)), b.x, top[b.depth], dash)
	}
	for _, b := range boxes {
		radius, fill := 0, "#eef3fa"
		if b.ref < 0 {
			radius, fill = 8, "#f3faee"
		}
		fmt.Fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" stroke=\"#555\"/>\n",
			b.x-svgBox/2, top[b.depth], svgBox, boxHeight(len(b.lines)), radius, fill)
		for i, line := range b.lines {
			fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", b.x, top[b.depth]+(i+1)*svgLine, escapeXML(shorten(line)))
		}
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func boxHeight(lines int) int { return lines*svgLine + svgLine/2 }

// shorten cuts a line that would not fit its box.
func shorten(s string) string {
	const most = 30
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// escapeXML writes text as XML reads it.
func escapeXML(s string) string {
	var b strings.Builder
	// A Builder cannot fail.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
