package query

import "testing"

// The lowest of the usual recalls that costs more than a tenth of an exact scan is found.
func TestFirstDear(t *testing.T) {
	points := []Point{{Recall: 0.9, Micros: 20}, {Recall: 0.96, Micros: 300}, {Recall: 0.995, Micros: 900}}
	for _, c := range []struct {
		name   string
		curve  *Curve
		recall float64
		micros float64
		ok     bool
	}{
		{"no curve", nil, 0, 0, false},
		{"short scan", &Curve{Scan: 900, Points: points}, 0, 0, false},
		{"0.95", &Curve{Scan: 2000, Points: points}, 0.95, 300, true},
		{"0.99", &Curve{Scan: 4000, Points: points}, 0.99, 900, true},
		{"a scan only", &Curve{Scan: 20000, Points: points}, 0.999, 20000, true},
	} {
		recall, micros, ok := c.curve.FirstDear()
		if recall != c.recall || micros != c.micros || ok != c.ok {
			t.Errorf("%s: %v, %v, %v, want %v, %v, %v", c.name, recall, micros, ok, c.recall, c.micros, c.ok)
		}
	}
}
