package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func curves() []Curve {
	var out []Curve
	for i, kind := range []string{"rp", "kd"} {
		for j, method := range []string{"natural", "voting", "lookup"} {
			c := Curve{Name: kind + " " + method, Group: kind, Style: method}
			for k := range 8 {
				c.Points = append(c.Points, Point{0.6 + 0.05*float64(k), 20 * math.Pow(1.4, float64(k+2*i+j))})
			}
			out = append(out, c)
		}
	}
	return out
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "svg", curves(), Options{Title: "Fashion & more"}); err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		if c, ok := tok.(xml.CharData); ok {
			texts[strings.TrimSpace(string(c))] = true
		}
	}
	for _, want := range []string{
		"Fashion & more", "recall", "time per query (µs)", "rp natural", "kd lookup", "20", "100",
	} {
		if !texts[want] {
			t.Errorf("no text %q in the picture", want)
		}
	}
}

// TestPNG checks the size and that each group's colour is in the picture.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "png", curves(), Options{Width: 640, Height: 400}); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("ANNDB_PLOT_OUT"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "curves.png"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got := img.Bounds().Size(); got != image.Pt(640, 400) {
		t.Errorf("size %v", got)
	}
	seen := map[color.Color]int{}
	for y := range 400 {
		for x := range 640 {
			seen[color.RGBAModel.Convert(img.At(x, y))]++
		}
	}
	for _, c := range palette[:2] {
		if seen[c] < 20 {
			t.Errorf("colour %v on %d pixels", c, seen[c])
		}
	}
	if seen[palette[2]] > 0 {
		t.Error("a third colour for two groups")
	}
}

func TestOddInput(t *testing.T) {
	one := []Curve{{Name: "one", Points: []Point{{1, 5}}}}
	if err := Write(io.Discard, "svg", one, Options{}); err != nil {
		t.Errorf("single point: %v", err)
	}
	bad := []Curve{{Name: "x", Points: []Point{
		{math.NaN(), 5}, {0.5, 0}, {0.5, math.NaN()}, {0.5, math.Inf(1)},
	}}}
	if err := Write(io.Discard, "svg", bad, Options{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no drawable point: %v", err)
	}
	if err := Write(io.Discard, "svg", one, Options{MinRecall: 1.1}); !errors.Is(err, ErrEmpty) {
		t.Errorf("all below the cut: %v", err)
	}
	if err := Write(io.Discard, "gif", one, Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("gif: %v", err)
	}
	if _, err := FormatOf("a.pdf"); !errors.Is(err, ErrFormat) {
		t.Errorf("FormatOf(a.pdf): %v", err)
	}
	if f, err := FormatOf("dir.x/a.PNG"); f != "png" || err != nil {
		t.Errorf("FormatOf(a.PNG) = %q, %v", f, err)
	}
}

func TestFront(t *testing.T) {
	got := Front([]Point{{0.9, 50}, {0.8, 10}, {0.85, 60}, {0.9, 40}, {0.7, 10}, {0.99, 200}})
	want := []Point{{0.8, 10}, {0.9, 40}, {0.99, 200}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFrontProperty checks that a point of the front equals or beats every point,
// and that no point of the front beats another.
func TestFrontProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Point {
			recall := float64(rapid.IntRange(0, 10).Draw(t, "r")) / 10
			return Point{recall, float64(rapid.IntRange(1, 10).Draw(t, "µs"))}
		})).Draw(t, "points")
		front := Front(points)
		for _, p := range points {
			covered := false
			for _, f := range front {
				covered = covered || f.Recall >= p.Recall && f.Micros <= p.Micros
			}
			if !covered {
				t.Fatalf("%v is not covered by %v", p, front)
			}
		}
		for i := 1; i < len(front); i++ {
			if front[i].Recall <= front[i-1].Recall || front[i].Micros <= front[i-1].Micros {
				t.Fatalf("front %v is not increasing", front)
			}
		}
	})
}
