package plot

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestLogAxes draws times by numbers of rows.
func TestLogAxes(t *testing.T) {
	c := Chart{
		Title: "growth", X: Axis{Label: "rows", Scale: Log}, Y: Axis{Label: "time", Scale: Log},
		Series: []Series{
			{Name: "first", Points: []Point{{100_000, 30}, {10_000, 20}}},
			{Name: "without points", Points: []Point{{0, 1}, {10, 0}}},
			{Name: "second", Style: "dashed", Points: []Point{{10_000, 500}}},
		},
	}
	var out bytes.Buffer
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<svg", "growth", "first", "second", "rows", ">20<", ">500<", ">10,000<", ">100,000<",
		"font-family=\"'Liberation Sans',Arial,Helvetica,sans-serif\"",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "without points") {
		t.Error("the legend names a line that is not drawn")
	}
	if err := c.Write(failing{}); err == nil {
		t.Error("no error of a writer that fails")
	}
	c.Series = c.Series[1:2]
	if err := c.Write(&out); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing to draw: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestRecallAxis checks that equal ratios of missed rows have equal lengths.
func TestRecallAxis(t *testing.T) {
	at := Axis{Scale: Recall}.length
	if d := (at(0.99) - at(0.9)) - (at(0.999) - at(0.99)); math.Abs(d) > 1e-9 {
		t.Errorf("0.9 to 0.99 and 0.99 to 0.999 differ by %g", d)
	}
	if at(0) != 0 || at(full) != at(1) {
		t.Errorf("ends at %g, %g, %g", at(0), at(full), at(1))
	}
	c := RecallTime("", 0.5, Series{Points: []Point{{0.4, 1}, {0.6, 3}, {0.95, 10}, {1, 80}}})
	if got := labelsOf(c.X, span{0.6, 1}); got != "0.5 0.7 0.8 0.9 0.95 0.98 0.99 0.995 0.998 0.999 1" {
		t.Errorf("labels of the axis: %s", got)
	}
}

// labelsOf returns the labels of a wide horizontal axis.
func labelsOf(a Axis, s span) string {
	f := a.frame(s, 0, 900, func(label string) float64 { return textWidth(label, textSize) + 10 })
	slices.SortFunc(f.ticks, func(a, b tick) int { return cmp.Compare(a.at, b.at) })
	var labels []string
	for _, t := range f.ticks {
		if t.label != "" {
			labels = append(labels, t.label)
		}
	}
	return strings.Join(labels, " ")
}

// TestTicks checks that axes have labels at round numbers, and at least one.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		scale  Scale
		lo, hi float64
		want   string
	}{
		{Linear, -5000, 5000, "-5,000 -4,000 -3,000 -2,000 -1,000 0 1,000 2,000 3,000 4,000 5,000"},
		{Linear, 1e20, 1e20, "9.8e+19 9.85e+19 9.9e+19 9.95e+19 1e+20 1.005e+20 1.01e+20 1.015e+20 1.02e+20"},
		{Linear, 1, 10, "1 2 3 4 5 6 7 8 9 10"},
		{Log, 1, 1, "0.90 0.95 1.00 1.05 1.10"},
		{Log, 1, 100, "1 2 5 10 20 50 100"},
	} {
		if got := labelsOf(Axis{Scale: c.scale}, span{c.lo, c.hi}); got != c.want {
			t.Errorf("%v of %g to %g: %q, want %q", c.scale, c.lo, c.hi, got, c.want)
		}
	}
}
