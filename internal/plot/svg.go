package plot

import (
	"fmt"
	"math"
	"strings"
)

// Sizes of letters and of a line of the legend, in pixels.
const (
	textSize   = 13.0
	titleSize  = 16.0
	legendLine = 20.0
)

// palette has a colour of each series on white and on dark paper. It stays distinguishable with the
// common colour vision deficiencies (Okabe and Ito 2008).
var palette = [][2]string{
	{"#0072b2", "#3d9fe0"}, {"#d55e00", "#f07f2e"}, {"#009e73", "#2cc397"}, {"#cc79a7", "#dd93bb"},
	{"#56b4e9", "#8accf2"}, {"#e69f00", "#f0b429"}, {"#3c3c3c", "#d0d0d0"}, {"#966e46", "#c49a6c"},
	{"#785ef0", "#a08cff"}, {"#8c004b", "#e0559b"},
}

var dashes = []string{"", "8 4", "2 3", "10 4 2 4", "4 3"}

// shapes are the marks of lines, from the middle of each.
var shapes = []string{
	"m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "m-2.7-2.7h5.4v5.4h-5.4z", "m0-3.6l3.3 5.8h-6.6z",
	"m0-4l4 4l-4 4l-4-4z", "m-3.2-1h6.4v2h-6.4z",
}

// begin writes the head of a picture. Colours are attributes, so that programs without CSS have them, and
// rules replace them on dark paper.
func (d *drawing) begin(width, height float64, title string) {
	fmt.Fprintf(d,
		`<svg xmlns="http://www.w3.org/2000/svg" class="anndb-chart" width="%g" height="%g"`, width, height)
	fmt.Fprintf(d, ` viewBox="0 0 %g %g" role="img" aria-label="%s"`, width, height, escape(title))
	fmt.Fprintf(d,
		" font-family=\"'Liberation Sans',Arial,Helvetica,sans-serif\" font-size=\"%g\" color=\"#222\">\n",
		textSize)
	d.WriteString("<style>@media (prefers-color-scheme:dark){.anndb-chart{color:#ddd}" +
		".anndb-chart .paper{color:#16181c}.anndb-chart .grid{color:#3a3e46}.anndb-chart .faint{color:#5a5f68}")
	for i, c := range palette {
		fmt.Fprintf(d, ".anndb-chart .s%d{color:%s}", i, c[1])
	}
	d.WriteString("}</style>\n")
	fmt.Fprintf(d, `<rect class="paper" color="#fff" fill="currentColor" width="%g" height="%g"/>`+"\n",
		width, height)
}

func (d *drawing) text(x, y, size float64, anchor, text string) {
	fmt.Fprintf(d,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\" fill=\"currentColor\">%s</text>\n",
		x, y, size, anchor, escape(text))
}

// path draws a line with more attributes, and fill or none.
func (d *drawing) path(line, attributes string) {
	if line != "" {
		fmt.Fprintf(d, "<path d=\"%s\" %s/>\n", line, attributes)
	}
}

const stroke = `fill="none" stroke="currentColor" `

// labelRoom is the room to the left of the vertical axis without the labels of its ticks.
const labelRoom = 46

// widest returns the pixels of the widest label, most if it is wider.
func (f *frame) widest(most float64) (width float64) {
	for _, t := range f.ticks {
		width = max(width, textWidth(t.label, textSize))
	}
	return min(width, most)
}

// axes draws the grid, the ticks and the labels of both axes.
func (d *drawing) axes(c *Chart) {
	x, y := &d.x, &d.y
	var grid, ticks strings.Builder
	for _, t := range x.ticks {
		if t.label == "" {
			fmt.Fprintf(&ticks, "M%.1f %.1fv4", t.at, y.from)
			continue
		}
		fmt.Fprintf(&grid, "M%.1f %.1fV%.1f", t.at, y.from, y.to)
		fmt.Fprintf(&ticks, "M%.1f %.1fv7", t.at, y.from)
		d.text(t.at, y.from+21, textSize, "middle", t.label)
	}
	for _, t := range y.ticks {
		if t.label == "" {
			fmt.Fprintf(&ticks, "M%.1f %.1fh-4", x.from, t.at)
			continue
		}
		fmt.Fprintf(&grid, "M%.1f %.1fH%.1f", x.from, t.at, x.to)
		fmt.Fprintf(&ticks, "M%.1f %.1fh-7", x.from, t.at)
		d.text(x.from-10, t.at+textSize/3, textSize, "end", shorten(t.label, textSize, x.from-labelRoom))
	}
	d.path(grid.String(), `class="grid" color="#e1e1e1" `+stroke)
	if !c.X.Bare {
		fmt.Fprintf(&ticks, "M%.1f %.1fH%.1f", x.from, y.from, x.to)
		d.text((x.from+x.to)/2, y.from+44, textSize, "middle", c.X.Label)
	}
	if !c.Y.Bare {
		fmt.Fprintf(&ticks, "M%.1f %.1fV%.1f", x.from, y.from, y.to)
		at, middle := textSize+5, (y.from+y.to)/2
		fmt.Fprintf(d, "<g transform=\"rotate(-90 %.1f %.1f)\">", at, middle)
		d.text(at, middle, textSize, "middle", c.Y.Label)
		d.WriteString("</g>\n")
	}
	d.path(ticks.String(), stroke)
}

// open begins a group in the colour of a series.
func (d *drawing) open(s *drawn) {
	i := s.color % len(palette)
	class, color := fmt.Sprint("s", i), palette[i][0]
	if s.Mark == Faint {
		class, color = "faint", "#cdcdcd"
	}
	fmt.Fprintf(d, "<g class=\"%s\" color=\"%s\">\n", class, color)
}

// lines are the attributes of the lines of a series.
func (s *drawn) lines() string {
	return stroke + fmt.Sprintf(`stroke-width="1.8" stroke-linejoin="round" stroke-dasharray="%s"`,
		dashes[s.style%len(dashes)])
}

const (
	filled = `fill="currentColor"`
	// dots are the attributes of a line whose parts have no length.
	dots = stroke + `stroke-width="3.6" stroke-linecap="round"`
)

// series draws the points of a series.
func (d *drawing) series(s *drawn) {
	d.open(s)
	var line, marks strings.Builder
	last := Point{math.Inf(-1), 0} // mark
	for i, p := range s.Points {
		x, y := d.x.place(p.X), d.y.place(p.Y)
		switch {
		case s.Mark != Line:
			fmt.Fprintf(&line, "M%.1f %.1fh0", x, y)
		case i == 0:
			fmt.Fprintf(&line, "M%.1f %.1f", x, y)
		default:
			fmt.Fprintf(&line, "L%.1f %.1f", x, y)
		}
		if s.Mark == Line && math.Hypot(x-last.X, y-last.Y) >= 4 {
			fmt.Fprintf(&marks, "M%.1f %.1f%s", x, y, shapes[s.style%len(shapes)])
			last = Point{x, y}
		}
	}
	if s.Mark != Line {
		d.path(line.String(), dots)
	} else {
		d.path(line.String(), s.lines())
	}
	d.path(marks.String(), filled)
	for _, p := range s.Points {
		if note := s.Notes[p]; note != "" {
			d.text(d.x.place(p.X)-4, d.y.place(p.Y)-6, textSize-2, "end", note)
		}
	}
	d.WriteString("</g>\n")
}

// legend draws the names of series, no wider than most, to the left of right, and returns the width.
func (d *drawing) legend(entries []drawn, right, top, most float64) float64 {
	const sample = 34.0
	width := 0.0
	for i, s := range entries {
		entries[i].Name = shorten(s.Name, textSize, most-sample)
		width = max(width, sample+8+textWidth(entries[i].Name, textSize))
	}
	left := right - width
	for i, s := range entries {
		y := top + legendLine*(float64(i)+0.5)
		d.open(&s)
		switch s.Mark {
		case Line:
			d.path(fmt.Sprintf("M%.1f %.1fh%g", left, y, sample-6), s.lines())
			d.path(fmt.Sprintf("M%.1f %.1f%s", left+sample/2-3, y, shapes[s.style%len(shapes)]), filled)
		case Dots, Faint:
			d.path(fmt.Sprintf("M%.1f %.1f%s", left+sample/2, y, shapes[0]), filled)
		}
		d.WriteString("</g>\n")
		d.text(left+sample, y+textSize/3, textSize, "start", s.Name)
	}
	return width
}
