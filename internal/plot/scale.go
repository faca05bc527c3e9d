package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	gonumplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size is the time of a query over a number of rows.
type Size struct {
	// Rows and Micros are above zero.
	Rows   int
	Micros float64
}

// Growth is one line of a Scale picture.
type Growth struct {
	// Name is the text in the legend, Group selects the colour and Style the
	// dashes and marks, as in a Curve.
	Name, Group, Style string
	Sizes              []Size
}

// Scale writes an SVG to w that shows the time of a query against the number of
// rows, both on logarithmic axes.
//
// Errors: ErrEmpty, w's errors.
func Scale(w io.Writer, lines []Growth, title string) error {
	p := gonumplot.New()
	p.Title.Text, p.Title.Padding = title, 8
	p.X.Label.Text, p.Y.Label.Text = "rows", "time per query (µs)"
	p.X.Scale, p.Y.Scale = gonumplot.LogScale{}, gonumplot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = logTicks{}, logTicks{}
	legend := gonumplot.NewLegend()
	legend.Top, legend.ThumbnailWidth, legend.Padding = true, 30, 2
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	groups, styles := numbering{}, numbering{}
	lo, hi := plotter.XY{X: math.Inf(1), Y: math.Inf(1)}, plotter.XY{}
	for _, l := range lines {
		g, s := groups.of(l.Group), styles.of(l.Style)
		var points plotter.XYs
		for _, x := range l.Sizes {
			if x.Rows < 1 || !(x.Micros > 0) || math.IsInf(x.Micros, 0) {
				continue
			}
			at := plotter.XY{X: float64(x.Rows), Y: x.Micros}
			lo.X, lo.Y, hi.X, hi.Y = min(lo.X, at.X), min(lo.Y, at.Y), max(hi.X, at.X), max(hi.Y, at.Y)
			points = append(points, at)
		}
		if len(points) == 0 {
			continue
		}
		slices.SortStableFunc(points, func(a, b plotter.XY) int { return compare(a.X, b.X) })
		line, marker, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("plot: line %q: %w", l.Name, err)
		}
		line.Color, line.Width, line.Dashes = palette[g%len(palette)], 1.4, dashes[s%len(dashes)]
		marker.Color, marker.Radius, marker.Shape = line.Color, 2.4, marks[s%len(marks)]
		p.Add(line, marker)
		legend.Add(l.Name, line, marker)
	}
	if hi.Y == 0 {
		return ErrEmpty
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = lo.X/1.15, hi.X*1.15, lo.Y/1.15, hi.Y*1.15
	canvas := vgsvg.New(pixels(0, 960), pixels(0, 600))
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	side := legend.Rectangle(c).Size().X + 12
	p.Draw(draw.Crop(c, 6, -side-6, 6, -6))
	legend.Draw(draw.Crop(c, 0, -6, 0, -24))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("plot: write svg: %w", err)
	}
	return nil
}
