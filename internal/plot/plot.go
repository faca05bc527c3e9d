// Package plot draws charts as SVG: curves of recall against time, frequencies of labels, maps of
// points. A chart is dark where its reader's system is, and needs no other file.
package plot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrEmpty is returned if no series has a point that its axes can show.
var ErrEmpty = errors.New("plot: nothing to draw")

// Point is a place in a chart.
type Point struct{ X, Y float64 }

// Mark selects how the points of a series are drawn.
type Mark uint8

const (
	// Line connects points in order of X and marks each that is not too near to the one before.
	Line Mark = iota
	// Dots marks each point with a small dot, Faint with a grey one.
	Dots
	Faint
	// more is the mark of the entry of the legend that counts others: none.
	more
)

// Series is one line or cloud of a chart.
type Series struct {
	// Name is the text in the legend; without one there is no entry.
	Name string
	// Group selects the colour, Style the dashes and marks. Series with the same Group have the
	// same colour. If both are empty in all series, each has its own colour.
	Group, Style string
	Mark         Mark
	Points       []Point
	// Notes are texts next to points of lines.
	Notes map[Point]string
}

// Chart is a picture of series over two axes.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Width and Height are in pixels; 960 x 600 if zero.
	Width, Height int
}

// Colors is the number of series colours; further ones are used again.
func Colors() int { return len(palette) }

// Write draws the chart to w as SVG. Points that an axis cannot show are left out: those that are
// not finite, below a minimum that an axis names, or not above zero on a logarithmic axis.
//
// Errors: ErrEmpty, w's errors.
func (c *Chart) Write(w io.Writer) error {
	series, x, y := c.visible()
	if len(series) == 0 {
		return ErrEmpty
	}
	width, height := float64(cmp.Or(c.Width, 960)), float64(cmp.Or(c.Height, 600))
	var d drawing
	d.begin(width, height, c.Title)
	top, bottom := 18.0, height-18
	if c.Title != "" {
		top = 42
		d.text(width/2, 26, titleSize, "middle", shorten(c.Title, titleSize, width-20))
	}
	if !c.X.Bare {
		bottom -= 38
	}
	right := width - 24
	if entries := legendOf(series, height-top); len(entries) > 0 {
		// The legend is to the right of the series, so that it hides none.
		right -= d.legend(entries, width-12, top, 0.35*width) + 12
	}
	d.y = c.Y.frame(y, bottom, top, func(string) float64 { return textSize + 4 })
	left := 24.0
	if !c.Y.Bare {
		left = labelRoom + d.y.widest(0.35*width) + 1
	}
	d.x = c.X.frame(x, left, right, func(label string) float64 { return textWidth(label, textSize) + 10 })
	d.axes(c)
	for _, s := range series {
		d.series(&s)
	}
	d.WriteString("</svg>\n")
	if _, err := w.Write(d.Bytes()); err != nil {
		return fmt.Errorf("plot: write a chart: %w", err)
	}
	return nil
}

// drawn is a series as it is drawn: with the points that both axes can show.
type drawn struct {
	Series
	color, style int
}

// visible returns the series that have a point to draw, and the ranges of their points.
func (c *Chart) visible() (series []drawn, x, y span) {
	x, y = empty, empty
	groups, styles, colored := numbering{}, numbering{}, 0
	plain := !slices.ContainsFunc(c.Series, func(s Series) bool { return s.Group != "" || s.Style != "" })
	for _, s := range c.Series {
		d := drawn{Series: s, color: groups.of(s.Group), style: styles.of(s.Style)}
		if plain {
			d.color, d.style = colored, 0
		}
		if s.Mark != Faint {
			colored++
		}
		d.Points = nil
		for _, p := range s.Points {
			if c.X.shows(p.X) && c.Y.shows(p.Y) {
				d.Points = append(d.Points, p)
				x.include(p.X)
				y.include(p.Y)
			}
		}
		if len(d.Points) == 0 {
			continue
		}
		if s.Mark == Line {
			slices.SortStableFunc(d.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		}
		series = append(series, d)
	}
	return series, x, y
}

// numbering numbers names in order of first use.
type numbering map[string]int

func (n numbering) of(name string) int {
	if _, ok := n[name]; !ok {
		n[name] = len(n)
	}
	return n[name]
}

// legendOf returns the series with a name, as many as a height has room for. The last entry counts the
// others.
func legendOf(series []drawn, height float64) []drawn {
	entries := slices.DeleteFunc(slices.Clone(series), func(s drawn) bool { return s.Name == "" })
	if most := max(1, int(height/legendLine)-1); len(entries) > most {
		others := fmt.Sprintf("and %d more", len(entries)-most+1)
		entries[most-1] = drawn{Series: Series{Name: others, Mark: more}}
		entries = entries[:most]
	}
	return entries
}

// drawing is the text of an SVG picture that grows.
type drawing struct {
	bytes.Buffer
	x, y frame
}
