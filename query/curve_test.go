package query

import (
	"errors"
	"math"
	"testing"
)

// The lowest of the usual recalls that costs more than a tenth of an exact scan is found.
func TestFirstDear(t *testing.T) {
	points := []Point{{Recall: 0.901, Micros: 20}, {Recall: 0.96, Micros: 300}, {Recall: 0.995, Micros: 900}}
	for _, c := range []struct {
		name   string
		curve  *Curve
		recall float64
		micros float64
		ok     bool
	}{
		{"no curve", nil, 0, 0, false},
		{"short scan", &Curve{Queries: 1 << 30, Scan: 900, Points: points}, 0, 0, false},
		{"0.95", &Curve{Queries: 1 << 30, Scan: 2000, Points: points}, 0.95, 300, true},
		{"0.99", &Curve{Queries: 1 << 30, Scan: 4000, Points: points}, 0.99, 900, true},
		{"a scan only", &Curve{Queries: 1 << 30, Scan: 20000, Points: points}, 0.999, 20000, true},
	} {
		recall, micros, ok := c.curve.FirstDear()
		if recall != c.recall || micros != c.micros || ok != c.ok {
			t.Errorf("%s: %v, %v, %v, want %v, %v, %v", c.name, recall, micros, ok, c.recall, c.micros, c.ok)
		}
	}
}

// Validate refuses what no JSON can hold, too.
func TestValidateCurve(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, change := range map[string]func(c *Curve){
		"recall":     func(c *Curve) { c.Points[0].Recall = nan },
		"users":      func(c *Curve) { c.Points[0].Users = nan },
		"micros":     func(c *Curve) { c.Points[0].Micros = inf },
		"candidates": func(c *Curve) { c.Points[0].Candidates = nan },
		"gap":        func(c *Curve) { c.Points[0].Params.Gap = float32(nan) },
		"floor":      func(c *Curve) { c.Points[0].Params.GapFloor = float32(nan) },
		"tau":        func(c *Curve) { c.Points[0].Params.Tau = nan },
		"reach":      func(c *Curve) { c.Reach = float32(nan) },
		"scan":       func(c *Curve) { c.Scan = inf },
		"depth":      func(c *Curve) { c.Depths[0].Points = []Point{{Recall: nan}} },
	} {
		c := Curve{K: 10, Queries: 1 << 30, Points: []Point{{Recall: 0.9, Micros: 20}}, Depths: []Curve{{K: 100}}}
		if err := c.Validate(true, false); err != nil {
			t.Fatal(err)
		}
		if change(&c); !errors.Is(c.Validate(true, false), ErrCurve) {
			t.Errorf("%s: accepted", name)
		}
	}
}
