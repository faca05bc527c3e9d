package postings

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/anndb/anndb/vector"
)

// TestPlanPartitioned has a rare feature, a less rare one and a frequent one: Auto
// is Partitioned where Weak-AND reads little, and finds what brute force finds.
func TestPlanPartitioned(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 1))
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range 30_000 {
		x := vector.Sparse{Index: []uint32{0}, Value: []float32{r.Float32()}}
		if i%10_000 == 1 {
			x.Index, x.Value = append(x.Index, 1), append(x.Value, r.Float32())
		}
		if i%250 == 2 {
			x.Index, x.Value = append(x.Index, 2), append(x.Value, r.Float32())
		}
		rows.Append(x)
	}
	s := NewSearcher()
	for _, c := range []struct {
		p       Params
		feature uint32
		want    Strategy
	}{
		{Params{Partition: true, Compact: true}, 1, Partitioned},
		{Params{Partition: true, Compact: true}, 2, Partitioned},
		{Params{Partition: true, Compact: true}, 0, Compact},
		{Params{Partition: true}, 2, Partitioned},
		{Params{Partition: true}, 0, Partitioned},
		{Params{Partition: true, M: 2, Compact: true}, 2, Partitioned},
		{Params{Partition: true, M: Everything, Compact: true}, 1, Union},
		{Params{Partition: true, M: Everything, Compact: true}, 2, Compact},
		{Params{Compact: true}, 1, Union},
		{Params{Compact: true}, 2, Compact},
	} {
		ix, err := Build(t.Context(), rows, c.p, nil)
		must(t, err)
		q := vector.Sparse{Index: []uint32{c.feature}, Value: []float32{1}}
		got, stats, err := s.Search(t.Context(), ix, q, 5, SearchParams{}, nil)
		if err != nil || stats.Strategy != c.want {
			t.Errorf("%+v, feature %d: %v, %v, want %v", c.p, c.feature, stats.Strategy, err, c.want)
		}
		if want := bruteForce(rows, q, 5, nil); !slices.Equal(got, want) {
			t.Errorf("%+v, feature %d: %s", c.p, c.feature, cmp.Diff(want, got))
		}
	}
}

// TestAddPartition compares a partition added later with one built at once, for
// features without gaps and with large ones.
func TestAddPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	rows := drawRows(r, 200, 40, 0.2, r.Float32)
	for _, m := range []*vector.CSR{rows, spread(rows, 1<<20)} {
		want, err := Build(t.Context(), m, Params{Partition: true, M: 3, Compact: true}, nil)
		must(t, err)
		got, err := Build(t.Context(), m, Params{Compact: true}, nil)
		if err == nil {
			err = got.AddPartition(t.Context(), 3)
		}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v %s", err, d)
		}
		if err := got.AddPartition(t.Context(), -1); !errors.Is(err, ErrParams) {
			t.Errorf("negative m: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := got.AddPartition(ctx, 3); !errors.Is(err, context.Canceled) || got.Partition == nil {
			t.Errorf("cancelled: %v, partition %v", err, got.Partition)
		}
	}
}
