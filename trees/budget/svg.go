package budget

import (
	"bufio"
	"fmt"
	"io"

	"github.com/anndb/anndb/internal/plot"
)

// WriteSVG draws the trees side by side as an SVG picture, like the paper's
// figure 7: of each node the question, the heaviest weighted features and its
// numbers; solid lines lead where a decision is positive, dashed ones where it
// is not. O(as Layout). Errors: those of w.
func (p *Picture) WriteSVG(w io.Writer) error {
	d := p.Layout()
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f"`, d.Width, d.Height)
	fmt.Fprintf(out, ` viewBox="0 0 %.0f %.0f"`, d.Width, d.Height)
	fmt.Fprintf(out, ` font-family="'Liberation Sans',Arial,Helvetica,sans-serif" font-size="%.0f"`, d.TextSize)
	fmt.Fprintln(out, ` text-anchor="middle">`)
	fmt.Fprintf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n", d.Width, d.Height)
	for _, e := range d.Edges {
		dash, answer, anchor, shift := "", "yes", "end", -4.0
		if !e.Yes {
			dash, answer, anchor, shift = " stroke-dasharray=\"5 3\"", "no", "start", 4
		}
		fmt.Fprintf(out, "<path d=\"M%.1f %.1fV%.1fL%.1f %.1f\" fill=\"none\" stroke=\"#555\"%s/>\n",
			e.X, e.Y, e.Bend, e.ToX, e.ToY, dash)
		fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"9\" fill=\"#555\">%s</text>\n",
			e.ToX+shift, e.ToY-5, anchor, answer)
	}
	for i := range d.Boxes {
		d.Boxes[i].writeSVG(out, d.LineHeight)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// writeSVG draws a box; what was cut from its text shows when it is pointed at.
func (b *Box) writeSVG(out io.Writer, line float64) {
	radius, look := 2, "fill=\"#eef3fa\" stroke=\"#555\""
	switch {
	case b.Leaf:
		radius, look = 8, "fill=\"#f0f8ea\" stroke=\"#555\""
	case b.Hidden:
		look = "fill=\"white\" stroke=\"#999\" stroke-dasharray=\"2 3\""
	}
	fmt.Fprintf(out, "<g><title>%s</title>\n", plot.Escape(b.Full))
	fmt.Fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" %s/>\n",
		b.X-b.Width/2, b.Y, b.Width, b.Height, radius, look)
	for i, s := range b.Lines {
		weight := ""
		if i < b.Bold {
			weight = " font-weight=\"bold\""
		}
		fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n",
			b.X, b.Y+line*float64(i+1), weight, plot.Escape(s))
	}
	fmt.Fprintln(out, "</g>")
}
