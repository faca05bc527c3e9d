package postings

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// spread is the rows with feature f at step·f.
func spread(rows *vector.CSR, step int) *vector.CSR {
	out := *rows
	out.Index = slices.Clone(rows.Index)
	for i := range out.Index {
		out.Index[i] *= uint32(step)
	}
	out.Cols = (rows.Cols-1)*step + 1
	return &out
}

// An index over few features with large numbers answers as one over small
// numbers, to the bit, and is hardly larger.
func TestUsedFeatures(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const features, step = 200, 1 << 20
	for _, binary := range []bool{false, true} {
		rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		for range 300 {
			var x vector.Sparse
			value := rng.Float32() + 0.1
			for f := range uint32(features) {
				if rng.IntN(20) == 0 {
					if !binary {
						value = rng.Float32()
					}
					x.Index, x.Value = append(x.Index, f), append(x.Value, value)
				}
			}
			rows.Append(x)
		}
		rows.Cols = features
		p := Params{Compact: true, Partition: true, M: 5}
		near, err := Build(t.Context(), rows, p, nil)
		must(t, err)
		wide := spread(rows, step)
		far, err := Build(t.Context(), wide, p, nil)
		if err == nil {
			err = far.Validate()
		}
		must(t, err)
		if near.Used != nil || len(far.Used) != features || far.Bytes() > 2*near.Bytes() {
			t.Fatalf("%d and %d features used, %d and %d bytes", len(near.Used), len(far.Used), near.Bytes(), far.Bytes())
		}
		// The rows of a collection stand for its own.
		source := *far
		if source.Source, err = NewSource([]vector.CSR{*wide}, 10, 0, wide.Rows(), wide.Cols); err != nil {
			t.Fatal(err)
		}
		source.Rows, source.Source.Norm = nil, slices.Repeat([]float64{1}, wide.Rows())
		s := NewSearcher()
		for range 50 {
			q := rows.Row(rng.IntN(rows.Rows()))
			wq := vector.Sparse{Value: q.Value}
			for _, f := range q.Index {
				wq.Index = append(wq.Index, f*step)
			}
			// A feature that no row has, between those that rows have, and one
			// beyond all.
			wq.Index = append(wq.Index, (features-1)*step+1, 1<<31)
			wq.Value = append(slices.Clone(wq.Value), 1, 1)
			if last := wq.Index[len(wq.Index)-3]; last >= (features-1)*step {
				continue
			}
			for _, strategy := range []Strategy{Auto, Partitioned, Compact, Union} {
				want, _, err := s.Search(t.Context(), near, q, 7, SearchParams{Strategy: strategy}, nil)
				must(t, err)
				for name, ix := range map[string]*Index{"rows": far, "source": &source} {
					got, _, err := s.Search(t.Context(), ix, wq, 7, SearchParams{Strategy: strategy}, nil)
					if err != nil || !slices.Equal(got, want) {
						t.Fatalf("%v of %s: %v, want %v, %v", strategy, name, got, want, err)
					}
				}
			}
		}
		batch := func(ix *Index, queries *vector.CSR) (out []Hit) {
			err := s.SearchBatch(t.Context(), ix, queries, 3, SearchParams{ByRows: true}, func(_ int, hits []Hit, _ Stats) error {
				out = append(out, hits...)
				return nil
			})
			must(t, err)
			return out
		}
		if got, want := batch(far, wide), batch(near, rows); !slices.Equal(got, want) {
			t.Error("a batch answers otherwise")
		}
		bad := *far
		for _, bad.Used = range [][]uint32{far.Used[1:], append([]uint32{far.Used[1], far.Used[0]}, far.Used[2:]...),
			append(slices.Clone(far.Used[:features-1]), uint32(wide.Cols))} {
			if err := bad.Validate(); !errors.Is(err, ErrInvalid) {
				t.Errorf("a bad directory is valid: %v", err)
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
			if ix, err = Build(context.Background(), rows, Params{Compact: true, Partition: true, M: 2}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	if used := result.AllocedBytesPerOp(); used > 1<<20 || ix.Bytes() > 64<<10 {
		t.Errorf("%d bytes allocated for an index of %d", used, ix.Bytes())
	}
	empty := &vector.CSR{Ptr: []uint64{0, 0}, Value: []float32{}, Cols: 1 << 28}
	ix, err := Build(t.Context(), empty, Params{Compact: true, Partition: true, M: 2}, nil)
	if err == nil {
		err = ix.Validate()
	}
	if err != nil || ix.Used == nil || ix.Bytes() > 64<<10 {
		t.Errorf("an index of %d bytes over nothing, %v", ix.Bytes(), err)
	}
}
