package forestbench

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Matrix is vectors side by side in memory.
type Matrix struct {
	Data []float32 // N × D
	N, D int
}

var _ labels.Rows = (*Matrix)(nil)

// Len is the number of vectors.
func (m *Matrix) Len() int { return m.N }

// Dim is the number of coordinates of a vector.
func (m *Matrix) Dim() int { return m.D }

// Row is vector i in place; the buffer is not used.
func (m *Matrix) Row(i int, _ []float32) []float32 {
	return m.Data[i*m.D : (i+1)*m.D : (i+1)*m.D]
}

// Flat is all vectors one behind the other, as labels.ExactNeighbors likes it.
func (m *Matrix) Flat() []float32 { return m.Data }

// corpus is rows in memory: as searches read them, and in the space where
// forests are learned.
type corpus struct {
	base  query.View // everything but the forest
	space *Matrix    // rows in the partition space
	bytes bool       // rows are stored as bytes
}

// newCorpus prepares rows for a metric. Rows that are whole numbers from 0 to
// 255 throughout are kept as bytes, as a database does.
func newCorpus(rows *Matrix, metric vector.Metric) *corpus {
	c := &corpus{base: query.View{Metric: metric, Dim: rows.D, Segment: query.Segment{N: rows.N}, LiveCount: rows.N}}
	// One chunk holds all rows.
	shift := uint(bits.Len(uint(rows.N)))
	c.base.Rows = query.RowSet{N: rows.N, Dim: rows.D, Shift: shift}
	data := codec.Bytes(rows.Data)
	if small := wholeBytes(rows.Data); small != nil {
		data, c.bytes = small, true
	}
	c.base.Rows.Chunks, c.base.Rows.Uint8 = [][]byte{data}, []bool{c.bytes}
	c.space = rows
	switch metric {
	case vector.Cosine:
		inverse := make([]float32, rows.N)
		c.space = &Matrix{Data: make([]float32, len(rows.Data)), N: rows.N, D: rows.D}
		for i := range rows.N {
			inverse[i] = inverseNorm(rows.Row(i, nil))
			for j, x := range rows.Row(i, nil) {
				c.space.Data[i*rows.D+j] = x * inverse[i]
			}
		}
		c.base.Rows.InvNorm = [][]float32{inverse}
	case vector.InnerProduct:
		c.space, c.base.LiftNorm = lift(rows)
		c.base.Lift = true
	}
	return c
}

// wholeBytes is the numbers as bytes, nil where that would lose something.
func wholeBytes(data []float32) []byte {
	out := make([]byte, len(data))
	for i, x := range data {
		if !(x >= 0 && x <= 255) || float32(uint8(x)) != x {
			return nil
		}
		out[i] = uint8(x)
	}
	return out
}

func inverseNorm(x []float32) float32 {
	if n := squaredNorm(x); n > 0 {
		return float32(1 / math.Sqrt(n))
	}
	return 0
}

func squaredNorm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// lift adds the coordinate sqrt(M²-|x|²), M the longest row, which makes the
// largest dot product the smallest distance.
func lift(rows *Matrix) (*Matrix, float32) {
	var longest float64
	for i := range rows.N {
		longest = max(longest, squaredNorm(rows.Row(i, nil)))
	}
	d := rows.D + 1
	out := &Matrix{Data: make([]float32, rows.N*d), N: rows.N, D: d}
	for i := range rows.N {
		row := out.Data[i*d : (i+1)*d]
		copy(row, rows.Row(i, nil))
		row[rows.D] = float32(math.Sqrt(max(0, longest-squaredNorm(row[:rows.D]))))
	}
	return out, float32(math.Sqrt(longest))
}

// view is the corpus behind a forest, without sketches or label lists: the
// paper's pipeline and nothing else. The forest splits on the coordinates of
// the rotation where there is one.
func (c *corpus) view(f *forest.Forest, r *forest.Rotation) (*query.View, error) {
	v := c.base
	v.Forest, v.Rotation = f, r
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("forestbench: view of %s: %w", f.Kind, err)
	}
	return &v, nil
}

// rotate learns the leading principal coordinates of the rows and returns the
// rows in them.
func (c *corpus) rotate(
	ctx context.Context, coordinates int, seed uint64, workers int,
) (*forest.Rotation, *Matrix, error) {
	const sample = 10_000
	r, err := forest.PCA(ctx, c.space, coordinates, sample, seed, workers)
	if err != nil {
		return nil, nil, fmt.Errorf("forestbench: rotation: %w", err)
	}
	out := &Matrix{Data: make([]float32, c.space.N*r.R), N: c.space.N, D: r.R}
	for i := range out.N {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, nil, fmt.Errorf("forestbench: rotation: %w", ctx.Err())
		}
		r.Apply(c.space.Row(i, nil), out.Row(i, nil))
	}
	return r, out, nil
}
