package postings

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// An index over few features with large numbers answers as one over small
// numbers, to the bit, and has the same size.
func TestLargeFeatureNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const features, step = 200, 1 << 20
	rows := drawRows(rng, 300, features, 0.05, rng.Float32)
	wide := *rows
	wide.Index, wide.Cols = slices.Clone(rows.Index), (features-1)*step+1
	for i := range wide.Index {
		wide.Index[i] *= step
	}
	near, far := build(t, rows), build(t, &wide)
	if near.Bytes() != far.Bytes() {
		t.Errorf("%d and %d bytes", near.Bytes(), far.Bytes())
	}
	// The rows of a collection stand for its own.
	source := *far
	var err error
	source.Source, err = NewSource([]vector.CSR{wide}, 10, 0, wide.Rows(), wide.Cols)
	must(t, err)
	source.Rows, source.Source.Norm = nil, slices.Repeat([]float64{1}, wide.Rows())
	s := NewSearcher()
	for range 50 {
		q := rows.Row(rng.IntN(rows.Rows()))
		var wq vector.Sparse
		for i, f := range q.Index {
			wq.Index, wq.Value = append(wq.Index, f*step), append(wq.Value, q.Value[i])
		}
		// A feature that no row has, beyond all that rows have.
		wq.Index, wq.Value = append(wq.Index, 1<<31), append(wq.Value, 1)
		for _, strategy := range strategies {
			want, _, err := s.Search(t.Context(), near, q, 7, SearchParams{Strategy: strategy}, nil)
			must(t, err)
			for name, ix := range map[string]*Index{"rows": far, "source": &source} {
				got, _, err := s.Search(t.Context(), ix, wq, 7, SearchParams{Strategy: strategy}, nil)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("strategy %d of %s: %v, want %v, %v", strategy, name, got, want, err)
				}
			}
		}
	}
}

// Twenty rows cost what twenty rows cost, however large their numbers are.
func TestWideRows(t *testing.T) {
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range uint32(20) {
		rows.Append(vector.Sparse{Index: []uint32{i, 1<<28 - 1 - i}, Value: []float32{1, 0.5}})
	}
	var ix *Index
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var err error
			if ix, err = Build(context.Background(), rows, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	if used := result.AllocedBytesPerOp(); used > 1<<20 || ix.Bytes() > 64<<10 {
		t.Errorf("%d bytes allocated for an index of %d", used, ix.Bytes())
	}
	empty := &vector.CSR{Ptr: []uint64{0, 0}, Value: []float32{}, Cols: 1 << 28}
	if n := build(t, empty).Bytes(); n > 100 {
		t.Errorf("an index of %d bytes over nothing", n)
	}
}
