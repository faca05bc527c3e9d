package budget

import (
	"strings"

	"github.com/anndb/anndb/internal/plot"
)

// Measures of a drawing, in pixels.
const (
	drawText    = 11.0  // size of letters
	drawLine    = 14.0  // between lines of text
	drawPad     = 8.0   // between a box and its text
	drawWidest  = 230.0 // text of a box
	drawGap     = 14.0  // between boxes
	drawLevels  = 44.0  // between a level's boxes and the next level's
	drawTrees   = 40.0  // between trees
	drawMargin  = 12.0
	answerLines = 6 // of a leaf, at most
)

// Box is a rectangle of a Drawing with lines of text, centred one below the
// other.
type Box struct {
	// X and Y are the middle of the box's upper edge.
	X, Y, Width, Height float64
	// Lines fit the box; Full is what they say without being cut.
	Lines []string
	Full  string
	// Bold is how many of the first lines stand out.
	Bold int
	// Leaf and Hidden report that a path ends here: at a leaf of the tree, or at the
	// limit of the picture.
	Leaf, Hidden bool
}

// Edge is a line of a Drawing from a box to one below it: down from (X, Y) to
// Bend and from there straight to (ToX, ToY).
type Edge struct {
	X, Y, Bend, ToX, ToY float64
	// Yes reports that it leads to where a decision is positive.
	Yes bool
}

// Drawing is a Picture laid out in pixels, y down, with letters of TextSize
// pixels and LineHeight between lines.
type Drawing struct {
	Width, Height        float64
	TextSize, LineHeight float64
	Boxes                []Box
	Edges                []Edge
}

// Layout places the trees side by side: every decision stands above the middle
// of its two sides, and these as close together as their boxes let them, the
// positive side to the left. Widths of texts are estimated, for a wide
// sans-serif face. O(nodes · depth) at worst.
func (p *Picture) Layout() *Drawing {
	d := &Drawing{TextSize: drawText, LineHeight: drawLine, Boxes: make([]Box, len(p.Nodes))}
	children := make([][2]int, len(p.Nodes))
	var levels []float64 // height of the tallest box
	for i := range p.Nodes {
		n := &p.Nodes[i]
		d.Boxes[i] = p.box(n)
		for len(levels) <= n.Depth {
			levels = append(levels, 0)
		}
		levels[n.Depth] = max(levels[n.Depth], d.Boxes[i].Height)
		if n.Above >= 0 {
			side := 1
			if n.Yes {
				side = 0
			}
			children[n.Above][side] = i
		}
	}
	offset, outlines := p.spread(d.Boxes, children)
	top := make([]float64, len(levels))
	y := drawMargin
	for l, h := range levels {
		top[l] = y
		y += h + drawLevels
	}
	d.Height = y - drawLevels + drawMargin
	x := drawMargin
	for i := range p.Nodes {
		n, b := &p.Nodes[i], &d.Boxes[i]
		b.Y = top[n.Depth]
		if n.Above < 0 {
			lo, hi := outlines[i].extent()
			b.X = x - lo
			x += hi - lo + drawTrees
			continue
		}
		up := d.Boxes[n.Above]
		b.X = up.X + offset[i]
		d.Edges = append(d.Edges, Edge{
			X: up.X, Y: up.Y + up.Height, Bend: top[n.Depth-1] + levels[n.Depth-1], ToX: b.X, ToY: b.Y, Yes: n.Yes,
		})
	}
	d.Width = max(x-drawTrees, drawMargin) + drawMargin
	return d
}

// outline is how far a part of a tree reaches to both sides of its root, level
// by level.
type outline struct{ left, right []float64 }

// extent is how far it reaches on any level.
func (o outline) extent() (lo, hi float64) {
	for i := range o.left {
		lo, hi = min(lo, o.left[i]), max(hi, o.right[i])
	}
	return lo, hi
}

// spread finds the place of every node relative to its parent, and the
// outlines of the roots. Two parts of a tree are pushed apart as far as the
// level where they are closest asks for (Reingold and Tilford 1981).
func (p *Picture) spread(boxes []Box, children [][2]int) (offset []float64, outlines []outline) {
	offset, outlines = make([]float64, len(boxes)), make([]outline, len(boxes))
	for i := len(boxes) - 1; i >= 0; i-- { // children have larger numbers than their parents
		half := boxes[i].Width / 2
		o := outline{[]float64{-half}, []float64{half}}
		if l, r := children[i][0], children[i][1]; l > 0 {
			a, b := outlines[l], outlines[r]
			apart := 0.0
			for level := range min(len(a.left), len(b.left)) {
				apart = max(apart, a.right[level]-b.left[level]+drawGap)
			}
			offset[l], offset[r] = -apart/2, apart/2
			for level := range max(len(a.left), len(b.left)) {
				outer := [2]outline{a, b}
				at := [2]float64{-apart / 2, apart / 2}
				first, last := 0, 1
				if level >= len(a.left) {
					first = 1
				}
				if level >= len(b.left) {
					last = 0
				}
				o.left = append(o.left, outer[first].left[level]+at[first])
				o.right = append(o.right, outer[last].right[level]+at[last])
			}
			outlines[l], outlines[r] = outline{}, outline{}
		}
		outlines[i] = o
	}
	return offset, outlines
}

// box is the box of a node, not placed yet.
func (p *Picture) box(n *PictureNode) Box {
	full := p.lines(n)
	var lines []string
	bold := 1
	if n.Heading != "" {
		full = append([]string{n.Heading}, full...)
		bold = 2
	}
	for i, line := range full {
		if n.Leaf() && i == len(full)-2 && p.Kind != SBT {
			wrapped := wrap(line, answerLines)
			bold += len(wrapped) - 1
			lines = append(lines, wrapped...)
			continue
		}
		lines = append(lines, shorten(line))
	}
	if n.Hidden > 0 {
		bold = 0
	}
	b := Box{Lines: lines, Full: strings.Join(full, "\n"), Bold: bold, Leaf: n.Leaf(), Hidden: n.Hidden > 0}
	for i, line := range lines {
		w := plot.TextWidth(line, drawText)
		if i < bold {
			w *= boldWider
		}
		b.Width = max(b.Width, w)
	}
	b.Width += 2 * drawPad
	b.Height = float64(len(lines))*drawLine + drawPad
	return b
}

// boldWider is how much wider bold letters are.
const boldWider = 1.12

// shorten cuts a line that would not fit the widest box.
func shorten(s string) string { return plot.Shorten(s, drawText*boldWider, drawWidest) }

// wrap breaks a list at its commas into lines that fit the widest box, so many
// at most; the last is cut.
func wrap(s string, most int) []string {
	var lines []string
	for len(lines) < most-1 && shorten(s) != s {
		end := 0 // of the parts that fit
		for i := range len(s) {
			if strings.HasPrefix(s[i:], ", ") && shorten(s[:i+1]) == s[:i+1] {
				end = i + 2
			}
		}
		if end == 0 {
			break
		}
		lines = append(lines, s[:end-1])
		s = s[end:]
	}
	return append(lines, shorten(s))
}
