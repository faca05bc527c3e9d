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

func curves() []Series {
	var out []Series
	for i, kind := range []string{"rp", "kd"} {
		for j, method := range []string{"natural", "voting", "lookup"} {
			c := Series{Name: kind + " " + method, Group: kind, Style: method}
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
	if err := RecallTime("Fashion & more", 0, curves()...).Write(&b, "svg"); err != nil {
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
	chart := RecallTime("", 0, curves()...)
	chart.Width, chart.Height = 640, 400
	if err := chart.Write(&b, "png"); err != nil {
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
	one := Series{Name: "one", Points: []Point{{1, 5}}}
	if err := RecallTime("", 0, one).Write(io.Discard, "svg"); err != nil {
		t.Errorf("single point: %v", err)
	}
	bad := Series{Name: "x", Points: []Point{
		{math.NaN(), 5}, {0.5, 0}, {0.5, math.NaN()}, {0.5, math.Inf(1)}, {1.5, 2},
	}}
	if err := RecallTime("", 0, bad).Write(io.Discard, "svg"); !errors.Is(err, ErrEmpty) {
		t.Errorf("no drawable point: %v", err)
	}
	if err := RecallTime("", 1.1, one).Write(io.Discard, "svg"); !errors.Is(err, ErrEmpty) {
		t.Errorf("all below the cut: %v", err)
	}
	if err := RecallTime("", 0, one).Write(io.Discard, "gif"); !errors.Is(err, ErrFormat) {
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
				covered = covered || f.X >= p.X && f.Y <= p.Y
			}
			if !covered {
				t.Fatalf("%v is not covered by %v", p, front)
			}
		}
		for i := 1; i < len(front); i++ {
			if front[i].X <= front[i-1].X || front[i].Y <= front[i-1].Y {
				t.Fatalf("front %v is not increasing", front)
			}
		}
	})
}
