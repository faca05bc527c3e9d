package forestindex

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// freshSketches holds the sketches of rows written after an index was built, made by the first
// search that needs them. Rows are immutable, so all generations share the sketches; those of
// rows that a generation does not contain follow those that it does.
type freshSketches struct {
	mu     sync.Mutex
	chunks [][]byte // 1<<freshShift sketches each
	n      int
	enc    *query.SketchEncoder
}

const (
	// freshShift is log2 of the number of sketches in a chunk.
	freshShift = 10
	// freshStep is the maximum number of sketches that a search makes, in a few tenths of a
	// second. The next generation makes the following ones.
	freshStep = 1 << 14
	// fitRows is the number of rows that the encoder is fitted on.
	fitRows = 32
)

// addFreshSketches adds the sketches of rows after the index to its view.
func addFreshSketches(st kind.Source, m *kind.Manifest, v *query.View) {
	if v.Sketch == nil || v.Rows.N == v.N {
		return
	}
	f := st.Shared(m.Object, &freshSketches{}).(*freshSketches)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.enc == nil {
		enc := encoderOf(v)
		enc.Centers = nil // those of the rows of the index
		f.enc = &enc
	}
	width := v.Sketch.Width
	if want := min(v.Rows.N-v.N, f.n+freshStep); want > f.n {
		for len(f.chunks)<<freshShift < want {
			f.chunks = append(f.chunks, make([]byte, width<<freshShift))
		}
		space := partitionSpace(v, v.N+f.n, v.N+want)
		lo := f.n
		// The only error is that of a cancelled context.
		_ = par.Each(context.Background(), par.Work{N: want - lo, Grain: 64}, func(i int) error {
			rotated := make([]float32, v.Rotation.R)
			v.Rotation.Apply(space.Row(i, nil), rotated)
			at := lo + i
			dst := f.chunks[at>>freshShift][at&(1<<freshShift-1)*width:]
			f.enc.Encode(dst[:width], at, space.Row(i, nil), rotated, v.Rotation.Mean)
			return nil
		})
		f.n = want
	}
	v.FreshN = min(f.n, v.Rows.N-v.N)
	v.Fresh = f.enc.View(f.chunks[:(v.FreshN+1<<freshShift-1)>>freshShift:len(f.chunks)], freshShift)
}

// encoderOf returns the encoder of an index's sketches.
func encoderOf(v *query.View) query.SketchEncoder {
	step := max(1, v.N/fitRows)
	var rows []uint32
	sample := &flatRows{d: v.Inner()}
	for row := 0; row < v.N; row += step {
		sample.data = append(sample.data, partitionSpace(v, row, row+1).data...)
		sample.n++
		rows = append(rows, uint32(row))
	}
	return query.FitEncoder(v, sample, rows)
}

// partitionSpace copies rows [lo, hi) of a view into the partition space of its index, as
// prepare does for training rows.
func partitionSpace(v *query.View, lo, hi int) *flatRows {
	inner := v.Inner()
	out := &flatRows{data: make([]float32, (hi-lo)*inner), n: hi - lo, d: inner}
	for i := range out.n {
		rowInSpace(v, lo+i, out.Row(i, nil))
	}
	return out
}

// spaced maps a row's coordinates, with room for a lift, into that space in place.
func spaced(v *query.View, x []float32) {
	switch d := v.Dim; {
	case v.Metric == vector.Cosine:
		unit(x)
	case v.Lift:
		x[d] = liftOf(kind.SquaredNorm(x[:d]), v.LiftNorm)
	}
}
