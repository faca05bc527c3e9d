// Package plot draws charts as SVG and PNG: curves of recall against time, frequencies of
// labels, sizes of leaves, maps of points; and budgeted trees as PNG.
package plot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	gonumplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrFormat is returned for an unknown picture format.
var ErrFormat = errors.New("plot: unknown picture format")

// ErrEmpty is returned if no series has a point that its axes can show.
var ErrEmpty = errors.New("plot: nothing to draw")

// Point is a place in a chart.
type Point struct{ X, Y float64 }

// Mark selects how the points of a series are drawn.
type Mark uint8

const (
	// Line connects points in order of X and marks each.
	Line Mark = iota
	// Steps connects them by horizontal and vertical lines, without marks.
	Steps
	// Dots marks each point with a small dot, Faint with a grey one.
	Dots
	Faint
	// Bars draws a horizontal bar from zero to each X, at Y.
	Bars
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
}

// Chart is a picture of series over two axes.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Width and Height are in pixels, 96 per inch; 960 x 600 if zero.
	Width, Height int
}

// Formats returns the format names that Write accepts.
func Formats() []string { return []string{"svg", "png"} }

// FormatOf returns the format that matches a file name's extension. Errors:
// ErrFormat for any other extension.
func FormatOf(path string) (string, error) {
	f := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	if !slices.Contains(Formats(), f) {
		return "", fmt.Errorf("%w: %q (want a name that ends in .svg or .png)", ErrFormat, path)
	}
	return f, nil
}

// Write draws the chart to w as "svg" or "png". Points that an axis cannot show are left out:
// those that are not finite, below a minimum that an axis names, or not above zero on a
// logarithmic axis.
//
// Errors: ErrFormat, ErrEmpty, w's errors.
func (c *Chart) Write(w io.Writer, format string) error {
	if !slices.Contains(Formats(), format) {
		return fmt.Errorf("%w: %q (want svg or png)", ErrFormat, format)
	}
	p, legend, err := c.build()
	if err != nil {
		return err
	}
	width, height := pixels(c.Width, 960), pixels(c.Height, 600)
	var canvas vg.CanvasWriterTo
	switch format {
	case "svg":
		canvas = svgCanvas{vgsvg.New(width, height)}
	default:
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96))}
	}
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	// The legend is drawn to the right of the series, so that it hides none.
	side := vg.Length(6)
	if c.named() {
		side += legend.Rectangle(area).Size().X + 6
	}
	p.Draw(draw.Crop(area, 6, -side-6, 6, -6))
	if c.named() {
		legend.Draw(draw.Crop(area, 0, -6, 0, -24))
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("plot: write %s: %w", format, err)
	}
	return nil
}

// named reports whether the legend has an entry.
func (c *Chart) named() bool {
	return slices.ContainsFunc(c.Series, func(s Series) bool { return s.Name != "" })
}

// svgCanvas writes SVG that looks alike where the font that the text was measured with is
// missing: Arial and Helvetica have the same widths as Liberation Sans.
type svgCanvas struct{ *vgsvg.Canvas }

func (c svgCanvas) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := c.Canvas.WriteTo(&b); err != nil {
		return 0, err
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	n, err := w.Write(text)
	return int64(n), err
}

func pixels(n, otherwise int) vg.Length {
	if n <= 0 {
		n = otherwise
	}
	return vg.Length(n) * vg.Inch / 96
}

// palette stays distinguishable with the common colour vision deficiencies (Okabe
// and Ito 2008).
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{230, 159, 0, 255},
	color.RGBA{60, 60, 60, 255}, color.RGBA{150, 110, 70, 255}, color.RGBA{120, 94, 240, 255},
	color.RGBA{140, 0, 75, 255},
}

// Colors is the number of series colours; further ones are used again.
func Colors() int { return len(palette) }

var dashes = [][]vg.Length{nil, {6, 3}, {1.5, 2.5}, {8, 3, 1.5, 3}, {3, 2}}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{},
}

// build returns the plot and its legend.
func (c *Chart) build() (*gonumplot.Plot, gonumplot.Legend, error) {
	p := gonumplot.New()
	legend := gonumplot.NewLegend()
	legend.Top, legend.ThumbnailWidth, legend.Padding = true, 30, 2
	sans(&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
		&legend.TextStyle)
	p.Title.Text, p.Title.Padding = c.Title, 8
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	shown := make([]plotter.XYs, len(c.Series))
	x, y := empty, empty
	for i, s := range c.Series {
		shown[i] = visible(s.Points, c.X, c.Y)
		if s.Mark < Dots {
			slices.SortStableFunc(shown[i], func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		}
		for _, at := range shown[i] {
			x.include(at.X)
			y.include(at.Y)
		}
	}
	if x == empty {
		return nil, legend, ErrEmpty
	}
	c.X.apply(&p.X, x)
	c.Y.apply(&p.Y, y)
	groups, styles, colored := numbering{}, numbering{}, 0
	plain := !slices.ContainsFunc(c.Series, func(s Series) bool { return s.Group != "" || s.Style != "" })
	for i, s := range c.Series {
		color, style := groups.of(s.Group), styles.of(s.Style)
		if plain {
			color, style = colored, 0
		}
		if s.Mark != Faint {
			colored++
		}
		if len(shown[i]) == 0 {
			continue
		}
		thumbs, err := addSeries(p, s.Mark, shown[i], color, style)
		if err != nil {
			return nil, legend, fmt.Errorf("plot: series %q: %w", s.Name, err)
		}
		if s.Name != "" {
			legend.Add(s.Name, thumbs...)
		}
	}
	return p, legend, nil
}

// sans selects the font of texts: its widths are those of fonts that every system has.
func sans(styles ...*draw.TextStyle) {
	for _, s := range styles {
		s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: s.Font.Size}
	}
}

// addSeries adds a series to p and returns its marks for a legend.
func addSeries(
	p *gonumplot.Plot, mark Mark, at plotter.XYs, group, style int,
) ([]gonumplot.Thumbnailer, error) {
	line, glyphs, err := plotter.NewLinePoints(at)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width, line.Dashes = palette[group%len(palette)], 1.4, dashes[style%len(dashes)]
	glyphs.Color, glyphs.Radius, glyphs.Shape = line.Color, 2.4, marks[style%len(marks)]
	switch mark {
	case Steps:
		line.StepStyle = plotter.PostStep
		p.Add(line)
		return []gonumplot.Thumbnailer{line}, nil
	case Bars:
		return nil, addBars(p, at, line.Color)
	case Dots, Faint:
		glyphs.Radius = 1.5
		if mark == Faint {
			glyphs.Color = color.Gray{205}
		}
		p.Add(glyphs)
		return []gonumplot.Thumbnailer{glyphs}, nil
	}
	p.Add(line, glyphs)
	return []gonumplot.Thumbnailer{line, glyphs}, nil
}

// addBars adds horizontal bars, each where its Y is.
func addBars(p *gonumplot.Plot, at plotter.XYs, c color.Color) error {
	for _, bar := range at {
		b, err := plotter.NewBarChart(plotter.Values{bar.X}, 24)
		if err != nil {
			return err
		}
		b.Horizontal, b.XMin, b.Color, b.LineStyle.Width = true, bar.Y, c, 0
		p.Add(b)
	}
	return nil
}

// visible returns the points that both axes can show, where they show them.
func visible(points []Point, x, y Axis) plotter.XYs {
	var out plotter.XYs
	for _, q := range points {
		if x.shows(q.X) && y.shows(q.Y) {
			out = append(out, plotter.XY{X: x.place(q.X), Y: y.place(q.Y)})
		}
	}
	return out
}

// numbering numbers names in order of first use.
type numbering map[string]int

func (n numbering) of(name string) int {
	if _, ok := n[name]; !ok {
		n[name] = len(n)
	}
	return n[name]
}

// span is the range of some values.
type span struct{ lo, hi float64 }

var empty = span{math.Inf(1), math.Inf(-1)}

func (s *span) include(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }
