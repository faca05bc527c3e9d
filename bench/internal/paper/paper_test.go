package paper

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// random is n rows of up to cols features with values scaled by unit; some rows are
// equal, some empty.
func random(r *rand.Rand, n, cols int, unit float32) *vector.CSR {
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range n {
		var row vector.Sparse
		if i%7 == 3 {
			row = m.Row(i - 1)
		} else if i%11 != 5 {
			for f := range uint32(cols) {
				if r.IntN(4) == 0 {
					row.Index = append(row.Index, f)
					row.Value = append(row.Value, unit*float32(1+r.IntN(9)))
				}
			}
		}
		m.Append(row)
	}
	m.Cols = cols
	return m
}

// The hits are those of package postings, bit for bit, also where float32 loses the products.
func TestHitsAreThoseOfPostings(t *testing.T) {
	for name, unit := range map[string]float32{"plain": 0.1, "underflow": 1e-25, "denormal": 1e-40} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var s Searcher
			for _, n := range []int{0, 1, 40, 900} {
				rows := random(r, n, 12, unit)
				ix, err := Build(rows)
				if err != nil {
					t.Fatal(err)
				}
				other, err := postings.Build(t.Context(), rows, nil)
				if err != nil {
					t.Fatal(err)
				}
				queries := random(r, 20, 15, unit) // with features that no row has
				for i := range queries.Rows() {
					for _, k := range []int{0, 1, 10, 300, 2000} {
						q := queries.Row(i)
						want, _, err := postings.NewSearcher().Search(t.Context(), other, q, k, postings.SearchParams{}, nil)
						if err != nil {
							t.Fatal(err)
						}
						got, stats, err := s.Search(t.Context(), ix, q, k, nil)
						if err != nil || !slices.Equal(got, want) {
							t.Fatalf("%d rows, k %d: %v, %v, want %v", n, k, got, err, want)
						}
						if stats.Scored < len(got) || stats.Candidates+stats.Pruned != n {
							t.Fatalf("%d rows, k %d: %+v", n, k, stats)
						}
					}
				}
			}
		})
	}
}

// Candidates are the rows that share a feature with the query.
func TestCandidates(t *testing.T) {
	rows := random(rand.New(rand.NewPCG(3, 4)), 500, 20, 0.1)
	ix, err := Build(rows)
	if err != nil {
		t.Fatal(err)
	}
	q := vector.Sparse{Index: []uint32{3, 4}, Value: []float32{1, 0.5}}
	want := 0
	for i := range rows.Rows() {
		if vector.DotSparse(q, rows.Row(i)) > 0 {
			want++
		}
	}
	var s Searcher
	_, stats, err := s.Search(t.Context(), ix, q, 10, nil)
	if err != nil || stats.Candidates != want || stats.Scored > want/2 {
		t.Errorf("%+v, %v, want %d candidates", stats, err, want)
	}
}

func TestErrors(t *testing.T) {
	for name, rows := range map[string]*vector.CSR{
		"negative":  {Ptr: []uint64{0, 1}, Index: []uint32{0}, Value: []float32{-1}, Cols: 1},
		"NaN":       {Ptr: []uint64{0, 1}, Index: []uint32{0}, Value: []float32{float32(math.NaN())}, Cols: 1},
		"malformed": {Ptr: []uint64{0, 1}, Index: []uint32{5}, Value: []float32{1}, Cols: 1},
	} {
		if _, err := Build(rows); !errors.Is(err, postings.ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ix, err := Build(&vector.CSR{Ptr: []uint64{0, 1}, Index: []uint32{0}, Cols: 1})
	if err != nil {
		t.Fatal(err)
	}
	q := vector.Sparse{Index: []uint32{0}, Value: []float32{2}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var s Searcher
	if hits, _, err := s.Search(t.Context(), ix, q, 3, nil); err != nil || !slices.Equal(hits, []postings.Hit{{Score: 2}}) {
		t.Errorf("rows without values: %v, %v", hits, err)
	}
	if _, _, err := s.Search(ended, ix, q, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	if _, _, err := s.Search(t.Context(), ix, q, -1, nil); !errors.Is(err, postings.ErrParams) {
		t.Errorf("k of -1: %v", err)
	}
	bad := vector.Sparse{Index: []uint32{2, 1}, Value: []float32{1, 1}}
	if _, _, err := s.Search(t.Context(), ix, bad, 1, nil); !errors.Is(err, postings.ErrParams) {
		t.Errorf("unsorted query: %v", err)
	}
}
