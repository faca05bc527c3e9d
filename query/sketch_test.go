package query

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// A sketch is the rounded coordinates and a norm that makes the estimate the
// squared distance to the rounded row.
func TestSketchEncoding(t *testing.T) {
	m := clustered(200, 20, 4)
	rot, err := forest.PCA(t.Context(), m, 20, 0, 1, 1)
	must(t, err)
	rotated := &matrix{make([]float32, len(m.data)), m.n, m.d}
	for i := range m.n {
		rot.Apply(m.row(i), rotated.row(i))
	}
	const width = vector.PackedWidth
	e := FitSketches(m, rotated, rot.Mean, nil)
	if e.Rest != 1 || e.Width != width || len(e.Steps) != m.d {
		t.Fatalf("%+v", e)
	}
	b := make([]byte, width)
	clamped, wrong := 0, 0.0
	for i := range m.n {
		for j := range b {
			b[j] = 0xff
		}
		e.Encode(b, i, m.row(i), rotated.row(i), rot.Mean)
		var norm float64
		for j := range vector.PackedHead + vector.PackedTail {
			want := 0.0
			if j < m.d {
				want = float64(rotated.row(i)[j])
			}
			x, step, lowest, highest := decoded(e, b, j)
			norm += x * x
			if off := math.Abs(x - want); off > 0.501*step {
				if want > lowest && want < highest {
					t.Fatalf("row %d: coordinate %d is %v, want %v, step %v", i, j, x, want, step)
				}
				clamped++
				wrong = max(wrong, off/step)
			}
		}
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[width-4:])))
		if math.Abs(got-norm) > 1e-4*norm+1 {
			t.Fatalf("row %d: norm %v, of the rounded coordinates %v", i, got, norm)
		}
	}
	// Half bytes leave a few numbers out, those far from the others.
	if clamped > m.n*m.d/20 {
		t.Errorf("%d coordinates clamped, by up to %v steps", clamped, wrong)
	}
}

// decoded is coordinate j of a sketch, its step, and the numbers in reach.
func decoded(e SketchEncoder, b []byte, j int) (x, step, lowest, highest float64) {
	if j >= len(e.Steps) {
		return 0, 1, 0, 0
	}
	c, lo, hi := 0, -127, 127
	if j >= vector.PackedHead {
		lo, hi = -8, 7
	}
	switch both := len(b) - 16; {
	case j < vector.PackedHead:
		c = int(int8(b[j]))
	case j < vector.PackedHead+both:
		c = int(b[j]&15) - 8
	default:
		c = int(b[j-both]>>4) - 8
	}
	step = float64(e.Steps[j])
	return float64(c) * step, step, float64(lo) * step, float64(hi) * step
}

// On rows whose coordinates beyond the twelfth vary little, packed sketches find nearly as many of the
// nearest rows as exact distances do; sketches of signs do if they have many for each coordinate.
func TestSketchRanks(t *testing.T) {
	const n, d = 1200, 100
	m := gaussian(n, d, 9)
	for i := range n {
		for j := range m.row(i) {
			m.row(i)[j] *= 1 / float32(1+j/4)
		}
	}
	mean := make([]float32, d)
	for _, c := range []struct {
		encoder SketchEncoder
		places  int // that hold 98 % of the nearest ten
	}{
		{FitSketches(m, m, mean, nil), 15},
		{SketchEncoder{Width: 64, Signs: true}, 35},
		{SketchEncoder{Width: 128, Signs: true}, 25},
		{SketchEncoder{Width: 256, Signs: true}, 20},
	} {
		e := c.encoder
		b := make([]byte, e.Width*n)
		for i := range n {
			e.Encode(b[e.Width*i:], i, m.row(i), m.row(i), mean)
		}
		view := e.View(chunked(b, e.Width, 5), 5)
		ids, scores := make([]uint32, n), make([]float32, n)
		found := 0
		for q := range 20 {
			var exact, estimated vector.TopK
			exact.Reset(10)
			estimated.Reset(c.places)
			for i := range ids {
				ids[i] = uint32(i)
				exact.Push(uint32(i), vector.L2Squared(m.row(q), m.row(i)))
			}
			view.Estimate(m.row(q), m.row(q), mean, ids, ids, scores)
			for i, x := range scores {
				estimated.Push(uint32(i), x)
			}
			var truth []uint32
			for _, h := range exact.Append(nil) {
				truth = append(truth, h.ID)
			}
			found += common(estimated.Append(nil), truth)
		}
		if found < 196 {
			t.Errorf("%d bytes, signs %v: the best %d estimates hold %d of 200 nearest rows", e.Width, e.Signs,
				c.places, found)
		}
	}
}

// The estimate of a row's distance to itself is zero up to rounding, and the mean of the estimates over rows
// in random directions that of the distances: the factors remove the bias.
func TestSignEstimates(t *testing.T) {
	const n, d, width = 400, 300, 128
	m := gaussian(n, d, 3)
	mean := make([]float32, d)
	for j := range mean {
		mean[j] = float32(j % 3)
	}
	// The last row is in a group without a center.
	for _, c := range []*Centers{nil, NewCenters(gaussian(CenterGroups(n)-1, d, 5).data, d)} {
		testSignEstimates(t, m, mean, SketchEncoder{Width: width, Signs: true, Centers: c})
	}
}

func testSignEstimates(t *testing.T, m *matrix, mean []float32, e SketchEncoder) {
	n, width := m.n, e.Width
	b := make([]byte, width*n)
	ids, scores := make([]uint32, n), make([]float32, n)
	for i := range n {
		ids[i] = uint32(i)
		e.Encode(b[width*i:], i, m.row(i), nil, mean)
	}
	view := e.View(chunked(b, width, 5), 5)
	var off, all float64
	for q := range n {
		view.Estimate(m.row(q), nil, mean, ids, ids, scores)
		own := vector.L2Squared(m.row(q), mean)
		if got := scores[q] + own; math.Abs(float64(got)) > 0.03*float64(own) {
			t.Fatalf("row %d is estimated at %v from itself, %v from the mean", q, got, own)
		}
		for i, x := range scores {
			exact := vector.L2Squared(m.row(q), m.row(i))
			off += float64(x + own - exact)
			all += float64(exact)
		}
	}
	if math.Abs(off) > 0.01*all {
		t.Errorf("the estimates are off by %v in the mean of %v", off/float64(n*n), all/float64(n*n))
	}
}

// A row is rotated like all coordinates of a vector that zeros lengthen.
func TestSpread(t *testing.T) {
	for _, d := range []int{1, 7, 64, 65, 300, 512, 513, 1024} {
		m := gaussian(2, d, 4)
		got := make([]float32, spreadSize(d, 128))
		want := make([]float32, len(got))
		for j := range got {
			got[j] = 7
		}
		spread(got, m.row(0), m.row(1))
		for j := range d {
			want[j] = m.row(0)[j] - m.row(1)[j]
		}
		for i := range flips {
			vector.RotateSigns(want, flips[i][:])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d coordinates in %d", d, len(got))
		}
	}
}

// Where rows resemble their labels outside the sketched coordinates, the norm
// there counts little; where they do not, it counts in full.
func TestSketchRest(t *testing.T) {
	const n, d = 1500, 118
	for name, c := range map[string]struct {
		shared bool
		lo, hi float32
	}{"alike": {true, 0, 0.6}, "independent": {false, 0.8, 1}} {
		m := gaussian(n, d, 6)
		for i := range n {
			for j := range m.row(i) {
				switch {
				case j < vector.PackedHead+vector.PackedTail:
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
		e := FitSketches(m, m, make([]float32, d), lists)
		if e.Rest < c.lo || e.Rest > c.hi {
			t.Errorf("%s: rest counts %v times", name, e.Rest)
		}
	}
	constant := &matrix{make([]float32, 90), 30, 3}
	lists := &labels.Neighbors{N: 30, K: 3, IDs: make([]uint32, 90)}
	if e := FitSketches(constant, constant, make([]float32, 3), lists); !slices.Equal(e.Steps, []float32{1, 1, 1}) || e.Rest != 1 {
		t.Errorf("constant rows: %+v", e)
	}
}
