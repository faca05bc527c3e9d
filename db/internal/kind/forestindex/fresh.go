package forestindex

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// freshSketches holds the sketches of rows written after an index was built, made when the
// index is opened. Rows are immutable, so all generations share the sketches until the index is published
// again; those of rows that a generation does not contain follow those that it does.
type freshSketches struct {
	mu     sync.Mutex
	chunks [][]byte // 1<<freshShift sketches each
	n      int
}

const (
	// freshShift is log2 of the number of sketches in a chunk.
	freshShift = 10
	// freshStep is the maximum number of sketches that are made at once, in a few tenths of a
	// second. The next generation makes the following ones.
	freshStep = 1 << 14
)

// addFreshSketches adds the sketches of rows after the index to its view.
func addFreshSketches(st kind.Source, m *kind.Manifest, v *query.View) {
	covered := m.Info.Rows
	if v.Sketch == nil || v.Rows.N == covered {
		return
	}
	enc := detailOf(&m.Segments[0]).encoder()
	f := st.Shared(m.Object, &freshSketches{}).(*freshSketches)
	f.mu.Lock()
	defer f.mu.Unlock()
	width := v.Sketch.Width
	if want := min(v.Rows.N-covered, f.n+freshStep); want > f.n {
		for len(f.chunks)<<freshShift < want {
			f.chunks = append(f.chunks, make([]byte, width<<freshShift))
		}
		space := partitionSpace(v, covered+f.n, covered+want)
		lo := f.n
		// The only error is that of a cancelled context.
		_ = par.Each(context.Background(), par.Work{N: want - lo, Grain: 64}, func(i int) error {
			rotated := make([]float32, v.Rotation.R)
			v.Rotation.Apply(space.Row(i, nil), rotated)
			at := lo + i
			dst := f.chunks[at>>freshShift][at&(1<<freshShift-1)*width:]
			enc.Encode(dst[:width], at, space.Row(i, nil), rotated, v.Rotation.Mean)
			return nil
		})
		f.n = want
	}
	v.FreshN = min(f.n, v.Rows.N-covered)
	v.Fresh = enc.View(f.chunks[:(v.FreshN+1<<freshShift-1)>>freshShift:len(f.chunks)], freshShift)
}

// partitionSpace copies rows [lo, hi) of a view into the partition space of its index, as
// prepare does for training rows.
func partitionSpace(v *query.View, lo, hi int) *flatRows {
	inner := v.Inner()
	out := &flatRows{data: make([]float32, (hi-lo)*inner), n: hi - lo, d: inner}
	for i := range out.n {
		x := out.Row(i, nil)
		if src := v.Rows.Vector(lo+i, x[:v.Dim]); &src[0] != &x[0] {
			copy(x, src)
		}
		switch {
		case v.Metric == vector.Cosine:
			unit(x)
		case v.Lift:
			x[v.Dim] = liftOf(kind.SquaredNorm(x[:v.Dim]), v.LiftNorm)
		}
	}
	return out
}
