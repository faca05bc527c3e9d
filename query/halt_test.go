package query

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// looks is a context that ends after some looks at it.
type looks struct {
	context.Context
	left, taken int
}

func (c *looks) Err() error {
	c.taken++
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// after is a context that ends after n looks.
func after(n int) *looks { return &looks{Context: context.Background(), left: n} }

// deep is a view with long stages, whose index does not cover the last rows.
func deep(t *testing.T, n, d int) (*View, *matrix) {
	m := clustered(n, d, 1)
	s := spec{metric: vector.L2, labelsK: 10, rotate: min(d, 8), sketch: 64, hops: 8, fresh: 500}
	s.forest = forest.Params{Kind: forest.KD, Trees: 3, Depth: 3, Members: true, Natural: true}
	return build(t, m, s), m
}

// longSearches are parameters under which every stage handles many rows.
func longSearches(n int) map[string]Params {
	all := roaring.New()
	all.AddRange(0, uint64(n))
	few := roaring.New()
	few.AddRange(0, 1500)
	return map[string]Params{
		"flat":          {K: 5, Method: Flat},
		"flat, filter":  {K: 5, Method: Flat, Filter: all},
		"scan, filter":  {K: 5, Filter: few},
		"flat range":    {Method: Flat, Range: true, Radius: 1e9},
		"range":         {Range: true, Radius: 1e9},
		"lookup":        {K: 5, Method: Lookup},
		"natural":       {K: 5},
		"all":           {K: n},
		"sketch":        {K: 5, Sketch: true, R: 1000},
		"beam":          {K: 5, Sketch: true, Beam: 1000, R: 1000},
		"nothing found": {K: 5, Accept: func(uint32) bool { return false }},
	}
}

// TestHaltBound: between two looks at the context, no more than so many rows are
// scored in a stage; three stages may follow each other without a look. The
// context ends at every look in turn.
func TestHaltBound(t *testing.T) {
	if testing.Short() {
		t.Skip("cuts searches at each of their looks, one after the other")
	}
	for _, c := range []struct{ n, d, most int }{{3000, 4, 3 * mostRows}, {700, 1000, 3 * 16}} {
		v, m := deep(t, c.n, c.d)
		for name, p := range longSearches(c.n) {
			whole := after(1 << 30)
			s := NewSearcher()
			want, full, err := s.Search(whole, v, m.row(3), &p, nil)
			must(t, err)
			last := 0
			for cut := range whole.taken + 1 {
				got, stats, err := s.Search(after(cut), v, m.row(3), &p, nil)
				if cut == whole.taken {
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%d rows, %s: the whole search: %v", c.n, name, err)
					}
					break
				}
				if !errors.Is(err, context.Canceled) || len(got) > 0 {
					t.Fatalf("%d rows, %s, cut at look %d of %d: %d hits, %v", c.n, name, cut, whole.taken, len(got), err)
				}
				if stats.Exact > last+c.most {
					t.Errorf("%d rows, %s: %d rows scored between looks %d and %d of %d", c.n, name, stats.Exact-last, cut-1, cut, whole.taken)
				}
				last = max(last, stats.Exact)
			}
			if full.Exact > last+c.most {
				t.Errorf("%d rows, %s: %d rows scored after the last look", c.n, name, full.Exact-last)
			}
		}
	}
}

// TestHaltAccept: once the context has ended, the predicate is not called again,
// in whatever stage that was.
func TestHaltAccept(t *testing.T) {
	const n = 3000
	v, m := deep(t, n, 4)
	for name, p := range longSearches(n) {
		for _, at := range []int{1, 2, 37, 400, 1400} {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			p.Accept = func(row uint32) bool {
				if calls++; calls == at {
					cancel()
				}
				return row%5 == 0
			}
			_, _, err := NewSearcher().Search(ctx, v, m.row(3), &p, nil)
			if calls < at {
				continue // the search needed no more
			}
			if !errors.Is(err, context.Canceled) || calls != at {
				t.Errorf("%s: %d calls, the context ended in call %d: %v", name, calls, at, err)
			}
			cancel()
		}
	}
}

// TestAcceptOnce: a search asks the predicate at most once about a row, however
// often it widens, and explanations of its hits do not ask again.
func TestAcceptOnce(t *testing.T) {
	v, m := deep(t, 3000, 4)
	fs := fixtures()
	fs = append(fs, &fixture{v: v, queries: m})
	s := NewSearcher()
	for _, f := range fs {
		params := stages()
		for name, p := range longSearches(f.v.Rows.N) {
			params[name] = p
		}
		for name, p := range params {
			for _, rate := range []uint32{1, 2, 100, 1000, 1 << 30} {
				calls := map[uint32]int{}
				p.Accept = func(row uint32) bool {
					calls[row]++
					return row%rate == rate/2
				}
				found, _, err := s.Search(t.Context(), f.v, f.queries.row(1), &p, nil)
				must(t, err)
				for _, h := range found[:min(3, len(found))] {
					e, err := s.ExplainLast(t.Context(), h.ID)
					if err != nil || e.Distance != h.Distance || e.Source == "" {
						t.Fatalf("%s: explanation %+v of %v: %v", name, e, h, err)
					}
				}
				for row, n := range calls {
					if n > 1 {
						t.Fatalf("%v, %s, one row of %d passes: asked %d times about row %d", f.v.Metric, name, rate, n, row)
					}
				}
				// Another search asks again.
				before := len(calls)
				clear(calls)
				again, _, err := s.Search(t.Context(), f.v, f.queries.row(1), &p, nil)
				if err != nil || !slices.Equal(found, again) || len(calls) != before {
					t.Fatalf("%v, %s: %d rows asked about again, first %d: %v", f.v.Metric, name, len(calls), before, err)
				}
			}
		}
	}
	if _, err := NewSearcher().ExplainLast(t.Context(), 0); !errors.Is(err, ErrParams) {
		t.Errorf("explanation without a search: %v", err)
	}
}

// TestJudgementsWrap: the numbers of searches start again after 32,767 of them.
func TestJudgementsWrap(t *testing.T) {
	v, m := deep(t, 600, 4)
	s := NewSearcher()
	p := Params{K: 3, Accept: func(row uint32) bool { return row%2 == 0 }}
	want, _, err := s.Search(t.Context(), v, m.row(3), &p, nil)
	must(t, err)
	s.verdict = 1<<16 - 4
	for i := range 4 {
		odd := p
		odd.Accept = func(row uint32) bool { return row%2 == 1 }
		for _, p := range []*Params{&odd, &p} {
			got, _, err := s.Search(t.Context(), v, m.row(3), p, nil)
			if err != nil || p != &odd && !slices.Equal(got, want) || p == &odd && slices.ContainsFunc(got, func(h vector.Neighbor) bool { return h.ID%2 == 0 }) {
				t.Fatalf("search %d: %v, %v", i, got, err)
			}
		}
	}
}

// TestHaltStages: sketches are handled in runs.
func TestHaltStages(t *testing.T) {
	v, m := deep(t, 600, 4)
	s := NewSearcher()
	p := Params{K: 3, Sketch: true}
	if _, _, err := s.Search(t.Context(), v, m.row(3), &p, nil); err != nil {
		t.Fatal(err)
	}
	ids, out := make([]uint32, 5*sketchRun+7), make([]float32, 5*sketchRun+7)
	for i := range ids {
		ids[i], out[i] = uint32(i%v.N), -1
	}
	whole := make([]float32, len(out))
	s.begin(after(100))
	s.estimate(v.Sketch, ids, whole)
	if s.err != nil || slices.Contains(whole, 0) && !slices.Equal(whole[:v.N], whole[v.N:2*v.N]) {
		t.Errorf("estimates in runs differ: %v", s.err)
	}
	s.begin(after(1))
	s.estimate(v.Sketch, ids, out)
	if !slices.Equal(out[:2*sketchRun], whole[:2*sketchRun]) || out[2*sketchRun] != -1 || s.err == nil {
		t.Errorf("estimates went on: %v", s.err)
	}
}
