package plot

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/anndb/anndb/trees/budget"
)

// ErrLarge is returned for a picture with too many pixels.
var ErrLarge = errors.New("plot: picture too large")

// The largest side and the largest area of a PNG in pixels.
const (
	maxSide   = 1 << 16
	maxPixels = 1 << 27
)

// The colours of a tree, the same as in its SVG.
var (
	ink      = color.Gray{85}
	decision = color.RGBA{238, 243, 250, 255}
	leaf     = color.RGBA{240, 248, 234, 255}
)

// treeScale is the number of PNG pixels per pixel of the drawing. It makes small
// letters readable.
const treeScale = 2

// Tree writes a PNG of budgeted trees to w.
//
// Errors: ErrLarge, w's errors.
func Tree(w io.Writer, d *budget.Drawing) error {
	width, height := math.Ceil(d.Width)*treeScale, math.Ceil(d.Height)*treeScale
	if width > maxSide || height > maxSide || width*height > maxPixels {
		return fmt.Errorf("%w: %.0f × %.0f pixels: show fewer decisions, or draw it as svg",
			ErrLarge, width, height)
	}
	// One point is one pixel of the drawing.
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(
		vgimg.UseWH(vg.Length(d.Width), vg.Length(d.Height)), vgimg.UseDPI(72*treeScale))}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	t := treeCanvas{c: c, height: d.Height, fonts: font.NewCache(liberation.Collection())}
	for _, e := range d.Edges {
		line := draw.LineStyle{Color: ink, Width: 1}
		answer, offset, align := "yes", -4.0, text.XRight
		if !e.Yes {
			line.Dashes = []vg.Length{5, 3}
			answer, offset, align = "no", 4, text.XLeft
		}
		c.StrokeLines(line, []vg.Point{t.at(e.X, e.Y), t.at(e.X, e.Bend), t.at(e.ToX, e.ToY)})
		t.text(answer, e.ToX+offset, e.ToY-5, 9, false, align)
	}
	for _, b := range d.Boxes {
		t.box(b, d)
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("plot: write png: %w", err)
	}
	return nil
}

// treeCanvas draws in pixels; y grows downwards.
type treeCanvas struct {
	c      draw.Canvas
	height float64
	fonts  *font.Cache
}

func (t treeCanvas) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x), Y: vg.Length(t.height - y)}
}

// text draws a line of text whose bottom is at y.
func (t treeCanvas) text(s string, x, y, size float64, bold bool, align text.XAlignment) {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
	if bold {
		f.Weight = 3 // bold in golang.org/x/image/font
	}
	style := draw.TextStyle{Color: color.Black, Font: f, XAlign: align, Handler: text.Plain{Fonts: t.fonts}}
	t.c.FillText(style, t.at(x, y), s)
}

func (t treeCanvas) box(b budget.Box, d *budget.Drawing) {
	l, r := b.X-b.Width/2, b.X+b.Width/2
	corners := []vg.Point{t.at(l, b.Y), t.at(r, b.Y), t.at(r, b.Y+b.Height), t.at(l, b.Y+b.Height), t.at(l, b.Y)}
	line := draw.LineStyle{Color: ink, Width: 1}
	fill := decision
	switch {
	case b.Leaf:
		fill = leaf
	case b.Hidden:
		fill = color.RGBA{255, 255, 255, 255}
		line.Dashes = []vg.Length{2, 3}
	}
	t.c.FillPolygon(fill, corners[:4])
	t.c.StrokeLines(line, corners)
	for i, s := range b.Lines {
		t.text(s, b.X, b.Y+d.LineHeight*float64(i+1), d.TextSize, i < b.Bold, text.XCenter)
	}
}
