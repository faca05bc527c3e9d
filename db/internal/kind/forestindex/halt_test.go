package forestindex_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// TestKeyPredicateOnce: a search calls the key predicate at most once for a key,
// however it finds its rows, and no more once its context has ended.
func TestKeyPredicateOnce(t *testing.T) {
	t.Parallel()
	const dim, n = 6, 3000
	b := dbtest.NewBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, n, dim))
	b.Build("x", &index.Forest{Members: true, NoTune: true})
	b.Must(dbtest.Create(t.Context(), b.D, "s", db.Schema{Sparse: true}))
	dbtest.Fill(t, b.D, "s", 0, n, func(i int) db.Row {
		x := vector.Sparse{Index: []uint32{1, 2 + uint32(i%30)}, Value: []float32{1, float32(i%7 + 1)}}
		return db.Row{Key: fmt.Appendf(nil, "a%d", i), Sparse: x}
	})
	_, err := b.D.Collection("s").Build(t.Context(), "x", nil, nil)
	b.Must(err)
	b.Put("b", dbtest.Mixture(2, 100, dim)) // not in the index
	q := dbtest.Mixture(3, 1, dim)[0]
	sparse := db.Query{Sparse: vector.Sparse{Index: []uint32{1, 9}, Value: []float32{1, 2}}}

	snap, err := b.D.Snapshot()
	b.Must(err)
	defer snap.Release()
	type search func(ctx context.Context, key func(key []byte) bool) error
	searches := map[string]search{}
	for name, o := range map[string]db.SearchOptions{
		"flat":    {Index: db.Flat},
		"natural": {Params: &query.Params{Sketch: true}},
		"lookup":  {Params: &query.Params{Method: query.Lookup}},
		"beam":    {Params: &query.Params{Trees: 1, Sketch: true, Beam: 30}},
		"range":   {Radius: new(5.0), Params: &query.Params{}},
		"explain": {Params: &query.Params{Trees: 1, Sketch: true, Beam: 30}, Explain: true},
	} {
		searches[name] = func(ctx context.Context, key func(key []byte) bool) error {
			o := o
			o.Where = filter.Func(key)
			_, _, err := dbtest.Nearest(ctx, snap.Collection("c"), db.Query{Vector: q}, 5, &o)
			return err
		}
		searches[name+", batch"] = func(ctx context.Context, key func(key []byte) bool) error {
			o := o
			o.Where = filter.Func(key)
			_, err := dbtest.NearestBatch(ctx, snap.Collection("c"), [][]float32{q}, 5, &o, 1)
			return err
		}
	}
	for _, index := range []string{db.Flat, "x"} {
		searches["sparse by "+index] = func(ctx context.Context, key func(key []byte) bool) error {
			_, _, err := dbtest.Nearest(ctx, snap.Collection("s"), sparse, 5, &db.SearchOptions{Index: index, Where: filter.Func(key)})
			return err
		}
	}
	for name, search := range searches {
		for _, rate := range []int{2, 300, 1 << 30} {
			seen, at := map[string]int{}, 0
			b.Must(search(t.Context(), func(key []byte) bool {
				seen[string(key)]++
				at++
				return at%rate == rate/2
			}))
			for key, n := range seen {
				if n > 1 {
					t.Fatalf("%s, one of %d passes: %d calls for key %q", name, rate, n, key)
				}
			}
		}
		for _, last := range []int{1, 5, 300} {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := search(ctx, func([]byte) bool {
				if calls++; calls == last {
					cancel()
				}
				return calls%10 == 0
			})
			if calls < last {
				continue // the search needed no more
			}
			if !errors.Is(err, context.Canceled) || calls != last {
				t.Errorf("%s: %d calls, the context ended in call %d: %v", name, calls, last, err)
			}
			cancel()
		}
	}
}
