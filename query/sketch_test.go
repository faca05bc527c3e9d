package query

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
)

// A sketch is the rounded coordinates and a norm that makes the estimate the
// squared distance to the rounded row.
func TestSketchEncoding(t *testing.T) {
	m := clustered(200, 20, 4)
	rot, err := forest.PCA(t.Context(), m, 20, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	rotated := &matrix{make([]float32, len(m.data)), m.n, m.d}
	for i := range m.n {
		rot.Apply(m.row(i), rotated.row(i))
	}
	e := FitSketches(m, rotated, rot.Mean, nil, 64)
	if e.Rest != 1 || e.Width != 64 {
		t.Fatalf("%+v", e)
	}
	b := make([]byte, 64)
	for i := range m.n {
		for j := range b {
			b[j] = 0xff
		}
		e.Encode(b, m.row(i), rotated.row(i), rot.Mean)
		var norm float64
		for j, c := range b[:60] {
			x := float64(int8(c)) * float64(e.Step)
			norm += x * x
			want := 0.0
			if j < m.d {
				want = float64(rotated.row(i)[j])
			}
			if math.Abs(x-want) > 0.501*float64(e.Step) {
				t.Fatalf("row %d, coordinate %d is %v, want %v", i, j, x, want)
			}
		}
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[60:])))
		if math.Abs(got-norm) > 1e-4*norm+1 {
			t.Fatalf("row %d: norm %v, of the rounded coordinates %v", i, got, norm)
		}
	}
}

// Where rows resemble their labels outside the sketched coordinates, the norm
// there counts little; where they do not, it counts in full.
func TestSketchRest(t *testing.T) {
	const n, d, width = 1500, 70, 64
	for name, c := range map[string]struct {
		shared bool
		lo, hi float32
	}{"alike": {true, 0, 0.6}, "independent": {false, 0.8, 1}} {
		m := gaussian(n, d, 6)
		for i := range n {
			for j := range m.row(i) {
				switch {
				case j < width-4:
					m.row(i)[j] *= 0.1
				case c.shared:
					// The same in a group of rows, up to a factor.
					m.row(i)[j] = m.row(i % 15)[j] * (1 + 0.3*m.row(i)[0])
				}
			}
		}
		lists := &labels.Neighbors{N: n, K: 10, IDs: make([]uint32, 10*n)}
		for i := range n {
			for j := range 10 {
				lists.IDs[10*i+j] = uint32((i + 15*j) % n)
			}
		}
		e := FitSketches(m, m, make([]float32, d), lists, width)
		if e.Rest < c.lo || e.Rest > c.hi {
			t.Errorf("%s: rest counts %v times", name, e.Rest)
		}
	}
	constant := &matrix{make([]float32, 90), 30, 3}
	lists := &labels.Neighbors{N: 30, K: 3, IDs: make([]uint32, 90)}
	if e := FitSketches(constant, constant, make([]float32, 3), lists, 64); e.Step != 1 || e.Rest != 1 {
		t.Errorf("constant rows: %+v", e)
	}
	if e := FitSketches(constant, constant, make([]float32, 3), lists, 128); e.Width != 128 {
		t.Errorf("%+v", e)
	}
}
