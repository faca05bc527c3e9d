package plot

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"io"
	"testing"

	"github.com/anndb/anndb/trees/budget"
)

func TestTree(t *testing.T) {
	p := &budget.Picture{Kind: budget.PT, Nodes: []budget.PictureNode{
		{Above: -1, Asks: "node 0", Terms: []string{"+1·x1"}, Note: "9 rows"},
		{Depth: 1, Yes: true, Ref: -1, Answer: []string{"a", "ü界"}, Note: "4 rows"},
		{Depth: 1, Ref: 1, Hidden: 3, Note: "5 rows"},
	}}
	d := p.Layout()
	var b bytes.Buffer
	if err := Tree(&b, d); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	size := img.Bounds().Size()
	want := image.Pt(int(treeScale*d.Width), int(treeScale*d.Height))
	if size.X < want.X-1 || size.X > want.X+treeScale || size.Y < want.Y-1 || size.Y > want.Y+treeScale {
		t.Errorf("size %v for %v × %v", size, d.Width, d.Height)
	}
	// The pixel just inside the corner of a box has the box's colour.
	for i, box := range d.Boxes {
		x, y := int(treeScale*(box.X-box.Width/2+3)), int(treeScale*(box.Y+3))
		r, g, bl, _ := img.At(x, y).RGBA()
		want := [][3]uint32{{238, 243, 250}, {240, 248, 234}, {255, 255, 255}}[i]
		if got := [3]uint32{r >> 8, g >> 8, bl >> 8}; got != want {
			t.Errorf("box %d has colour %v, want %v", i, got, want)
		}
	}
	if err := Tree(io.Discard, &budget.Drawing{Width: 1e6, Height: 10}); !errors.Is(err, ErrLarge) {
		t.Errorf("a million pixels wide: %v", err)
	}
	if err := Tree(io.Discard, &budget.Drawing{Width: 3e4, Height: 3e4}); !errors.Is(err, ErrLarge) {
		t.Errorf("a large square: %v", err)
	}
}
