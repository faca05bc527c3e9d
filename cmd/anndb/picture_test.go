package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// TestPictureQuery: a picture is scaled to the side of the collection's pictures and found.
func TestPictureQuery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, path := filepath.Join(dir, "a.anndb"), filepath.Join(dir, "half.png")
	picture := image.NewGray(image.Rect(0, 0, 40, 20))
	for y := range 20 {
		for x := range 20 {
			picture.SetGray(x, y, color.Gray{Y: 200})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "create", file, "pictures", "--dim", "4")
	must(t, "put", file, "pictures", "left", "[200, 0, 200, 0]")
	must(t, "put", file, "pictures", "ink", "[55, 255, 55, 255]")
	must(t, "create", file, "oblong", "--dim", "6")
	for _, c := range []struct{ flag, want string }{{"--quiet", "left"}, {"--invert", "ink"}} {
		got := mustJSON[objects](t, "search", file, "pictures", path, c.flag, "-k", "1")
		if got[0]["key"] != c.want || got[0]["distance"] != 0.0 {
			t.Errorf("%s: %v", c.flag, got)
		}
	}
	fails(t, command.ExitUsage, "no square picture", "search", file, "oblong", path)
	write(t, path, "no picture")
	fails(t, command.ExitError, "half.png: image: unknown format", "search", file, "pictures", path)
}
