// Package plot draws curves of recall against time per query, one curve for each
// method. Recall is on the x axis, microseconds are on the logarithmic y axis: a
// curve further down and to the right is better.
package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gonumplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrFormat is returned for an unknown picture format.
var ErrFormat = errors.New("plot: unknown picture format")

// ErrEmpty is returned if no curve has a point to draw.
var ErrEmpty = errors.New("plot: nothing to draw")

// Point is one measured setting.
type Point struct {
	// Recall is in [0, 1].
	Recall float64
	// Micros is the time of a query in microseconds, above zero.
	Micros float64
}

// Curve is one line of the picture.
type Curve struct {
	// Name is the text in the legend.
	Name string
	// Group selects the colour, Style the dashes and marks. Curves with the same
	// Group have the same colour. Both may be empty.
	Group, Style string
	// Points are drawn in order of recall.
	Points []Point
}

// Options of a picture. The zero value is usable.
type Options struct {
	// Title is drawn above the picture.
	Title string
	// MinRecall is the start of the recall axis; points below it are left out.
	MinRecall float64
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

// Front returns the Pareto front of points, by recall ascending: the points that no
// other point beats in both recall and time. O(n log n).
func Front(points []Point) []Point {
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b Point) int {
		if a.Recall != b.Recall {
			return compare(b.Recall, a.Recall)
		}
		return compare(a.Micros, b.Micros)
	})
	best := math.Inf(1)
	front := p[:0]
	for _, x := range p {
		if x.Micros < best {
			best = x.Micros
			front = append(front, x)
		}
	}
	slices.Reverse(front)
	return front
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Write draws the curves to w as "svg" or "png". Points that a logarithmic
// axis cannot show (NaN, or a time of zero or below) are left out.
//
// Errors: ErrFormat, ErrEmpty, w's errors.
func Write(w io.Writer, format string, curves []Curve, o Options) error {
	if !slices.Contains(Formats(), format) {
		return fmt.Errorf("%w: %q (want svg or png)", ErrFormat, format)
	}
	p, legend, err := build(curves, o)
	if err != nil {
		return err
	}
	width, height := pixels(o.Width, 960), pixels(o.Height, 600)
	var canvas vg.CanvasWriterTo
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	default:
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96))}
	}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	// The legend is drawn to the right of the curves, so that it hides none.
	side := legend.Rectangle(c).Size().X + 12
	p.Draw(draw.Crop(c, 6, -side-6, 6, -6))
	legend.Draw(draw.Crop(c, 0, -6, 0, -24))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("plot: write %s: %w", format, err)
	}
	return nil
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
	color.RGBA{60, 60, 60, 255},
}

var dashes = [][]vg.Length{nil, {6, 3}, {1.5, 2.5}, {8, 3, 1.5, 3}, {3, 2}}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{},
}

// build returns the plot and its legend.
func build(curves []Curve, o Options) (*gonumplot.Plot, gonumplot.Legend, error) {
	p := gonumplot.New()
	p.Title.Text = o.Title
	p.Title.Padding = 8
	p.X.Label.Text = "recall"
	p.Y.Label.Text = "time per query (µs)"
	p.Y.Scale = gonumplot.LogScale{}
	p.Y.Tick.Marker = logTicks{}
	legend := gonumplot.NewLegend()
	legend.Top = true
	legend.ThumbnailWidth = 30
	legend.Padding = 2
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	groups, styles := numbering{}, numbering{}
	lo, hi := math.Inf(1), 0.0
	for _, curve := range curves {
		g, s := groups.of(curve.Group), styles.of(curve.Style)
		pts := visible(curve.Points, o.MinRecall)
		if len(pts) == 0 {
			continue
		}
		for _, xy := range pts {
			lo, hi = min(lo, xy.Y), max(hi, xy.Y)
		}
		line, marker, err := plotter.NewLinePoints(pts)
		if err != nil {
			return nil, legend, fmt.Errorf("plot: curve %q: %w", curve.Name, err)
		}
		line.Color, line.Width = palette[g%len(palette)], 1.4
		line.Dashes = dashes[s%len(dashes)]
		marker.Color, marker.Radius = line.Color, 2.4
		marker.Shape = marks[s%len(marks)]
		p.Add(line, marker)
		legend.Add(curve.Name, line, marker)
	}
	if hi == 0 {
		return nil, legend, ErrEmpty
	}
	// The margin also avoids an empty range, which a logarithmic axis cannot map.
	p.Y.Min, p.Y.Max = lo/1.15, hi*1.15
	p.X.Max = min(1.005, p.X.Max+0.005)
	if o.MinRecall > 0 {
		p.X.Min = o.MinRecall
	}
	if p.X.Max <= p.X.Min {
		p.X.Min = p.X.Max - 0.01
	}
	return p, legend, nil
}

// visible returns the points that can be drawn, sorted by recall.
func visible(points []Point, minRecall float64) plotter.XYs {
	var out plotter.XYs
	for _, q := range points {
		if q.Recall >= minRecall && q.Recall <= 1 && q.Micros > 0 && !math.IsInf(q.Micros, 0) {
			out = append(out, plotter.XY{X: q.Recall, Y: q.Micros})
		}
	}
	slices.SortStableFunc(out, func(a, b plotter.XY) int { return compare(a.X, b.X) })
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

// logTicks labels 1, 2 and 5 times the powers of ten and marks the rest.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) []gonumplot.Tick {
	var ticks []gonumplot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < lo || v > hi {
				continue
			}
			label := ""
			if m == 1 || m == 2 || m == 5 {
				label = strconv.FormatFloat(v, 'g', 6, 64)
			}
			ticks = append(ticks, gonumplot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}
