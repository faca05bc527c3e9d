package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
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

// placed is a text of a picture with its box.
type placed struct {
	text                string
	left, right, middle float64
}

// textsOf returns the texts of a picture, which must be well formed.
func textsOf(t rapid.TB, picture *bytes.Buffer) (texts []placed) {
	type element struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Size   float64 `xml:"font-size,attr"`
		Anchor string  `xml:"text-anchor,attr"`
		Text   string  `xml:",chardata"`
	}
	d := xml.NewDecoder(picture)
	for {
		token, err := d.Token()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		var e element
		if err := d.DecodeElement(&e, &start); err != nil {
			t.Fatal(err)
		}
		width := textWidth(e.Text, e.Size)
		left := e.X - map[string]float64{"middle": width / 2, "end": width}[e.Anchor]
		texts = append(texts, placed{e.Text, left, left + width, e.Y - e.Size/3})
	}
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := RecallTime("Fashion & more", 0, curves()...).Write(&b); err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, x := range textsOf(t, &b) {
		texts[x.text] = true
	}
	for _, want := range []string{
		"Fashion & more", "recall", "time per query (µs)", "rp natural", "kd lookup", "20", "100",
	} {
		if !texts[want] {
			t.Errorf("no text %q in the picture", want)
		}
	}
}

// TestTextsFit draws charts of all sizes with names of all kinds: all texts are inside the picture, and
// none overlaps another one.
func TestTextsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(-100_000, 100_000), func(i int) float64 { return float64(i) / 1000 })
		name := rapid.OneOf(rapid.String(), rapid.StringN(60, 90, -1))
		c := Chart{Title: name.Draw(t, "title"), Width: rapid.IntRange(200, 2000).Draw(t, "width"),
			Height: rapid.IntRange(200, 2000).Draw(t, "height")}
		for _, a := range []*Axis{&c.X, &c.Y} {
			a.Scale = Scale(rapid.IntRange(0, 2).Draw(t, "scale"))
			a.Bare = rapid.Bool().Draw(t, "bare")
		}
		for range rapid.IntRange(1, 15).Draw(t, "series") {
			s := Series{Name: name.Draw(t, "name"), Mark: Mark(rapid.IntRange(0, 2).Draw(t, "mark"))}
			for range rapid.IntRange(0, 3).Draw(t, "points") {
				s.Points = append(s.Points, Point{value.Draw(t, "x"), value.Draw(t, "y")})
			}
			c.Series = append(c.Series, s)
		}
		var b bytes.Buffer
		if err := c.Write(&b); errors.Is(err, ErrEmpty) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		texts := textsOf(t, &b)
		for i, x := range texts {
			if x.left < 0 || x.right > float64(c.Width) || x.middle < 8 || x.middle > float64(c.Height)-8 {
				t.Fatalf("%+v is outside of %d x %d", x, c.Width, c.Height)
			}
			for _, y := range texts[:i] {
				if min(x.right, y.right) > max(x.left, y.left) && math.Abs(x.middle-y.middle) < 12 {
					t.Fatalf("%+v and %+v overlap in %d x %d", x, y, c.Width, c.Height)
				}
			}
		}
	})
}

func TestOddInput(t *testing.T) {
	one := Series{Name: "one", Points: []Point{{1, 5}}}
	if err := RecallTime("", 0, one).Write(io.Discard); err != nil {
		t.Errorf("single point: %v", err)
	}
	bad := Series{Name: "x", Points: []Point{
		{math.NaN(), 5}, {0.5, 0}, {0.5, math.NaN()}, {0.5, math.Inf(1)}, {1.5, 2},
	}}
	if err := RecallTime("", 0, bad).Write(io.Discard); !errors.Is(err, ErrEmpty) {
		t.Errorf("no drawable point: %v", err)
	}
	if err := RecallTime("", 1.1, one).Write(io.Discard); !errors.Is(err, ErrEmpty) {
		t.Errorf("all below the cut: %v", err)
	}
	for _, values := range [][2]float64{{1e20, math.Nextafter(1e20, 1e21)}, {-1e308, 1e308}, {5e-324, 1e300}, {0, 0}} {
		c := Chart{X: Axis{Scale: Log}, Series: []Series{{Points: []Point{{1, values[0]}, {2, values[1]}}}}}
		for _, c.Y.Scale = range []Scale{Linear, Log} {
			var b bytes.Buffer
			if err := c.Write(&b); err != nil && !errors.Is(err, ErrEmpty) {
				t.Errorf("%v: %v", values, err)
			}
			if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
				t.Errorf("%v: places that are no numbers:\n%s", values, &b)
			}
		}
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
