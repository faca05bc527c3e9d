package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// check runs n random queries with the default strategy, on an index that keeps its rows and on
// one that reads them from the collection, and counts the answers that differ from brute force,
// in rows or in bits of scores. Half of the queries are test rows, if there are enough; the
// others mix features of training rows with random values.
func check(s *set, n, k int) error {
	ctx := context.Background()
	start := threadTime()
	kept, err := postings.Build(ctx, s.rows, nil)
	if err != nil {
		return err
	}
	stored, err := s.stored(kept)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, uint64(n)))
	tests := r.Perm(s.tests.Rows())
	tests = tests[:min(len(tests), n/2)]
	searcher := postings.NewSearcher()
	b := brute{rows: s.rows, query: make([]float32, max(s.rows.Cols, s.tests.Cols))}
	var differ [2]int
	var got []postings.Hit
	for i := range n {
		var q vector.Sparse
		if i < len(tests) {
			q = s.tests.Row(tests[i])
		} else {
			q = mix(r, s.rows)
		}
		b.load(q, i < 20)
		for j, ix := range [...]*postings.Index{kept, stored} {
			if got, _, err = searcher.Search(ctx, ix, q, k, postings.SearchParams{}, got[:0]); err != nil {
				return err
			}
			if !b.agrees(got, k) {
				differ[j]++
			}
		}
		b.unload(q)
	}
	fmt.Printf("%s: %d rows, %d queries, %d of them test rows, %d neighbours: "+
		"%d differ from brute force, %d of the stored index; %.0f s\n",
		s.name, s.rows.Rows(), n, len(tests), k, differ[0], differ[1], (threadTime() - start).Seconds())
	if b.wrong > 0 {
		return fmt.Errorf("brute force contradicts vector.DotSparse for %d rows", b.wrong)
	}
	if differ != [2]int{} {
		return fmt.Errorf("%s: answers differ", s.name)
	}
	return nil
}

// mix returns a unit-length query of features of up to three rows, with random values.
func mix(r *rand.Rand, rows *vector.CSR) vector.Sparse {
	values := map[uint32]float32{}
	for range 1 + r.IntN(3) {
		for _, f := range rows.Row(r.IntN(rows.Rows())).Index {
			if r.IntN(2) == 0 {
				values[f] = float32(r.ExpFloat64())
			}
		}
	}
	m := &vector.CSR{Ptr: []uint64{0}}
	var q vector.Sparse
	for f := range values {
		q.Index = append(q.Index, f)
	}
	slices.Sort(q.Index)
	for _, f := range q.Index {
		q.Value = append(q.Value, values[f])
	}
	m.Append(q)
	unit(m)
	return m.Row(0)
}

// brute compares every row with a query. It adds the products of a row in the order of its
// features, including zeros, so it returns the bits of vector.DotSparse; some queries verify
// that.
type brute struct {
	rows   *vector.CSR
	query  []float32
	scores []float64
	best   []postings.Hit
	wrong  int
}

func (b *brute) load(q vector.Sparse, careful bool) {
	for e, f := range q.Index {
		b.query[f] = q.Value[e]
	}
	b.scores = b.scores[:0]
	for i := range b.rows.Rows() {
		r := b.rows.Row(i)
		var sum float64
		for e, f := range r.Index {
			sum += float64(b.query[f]) * float64(r.Value[e])
		}
		b.scores = append(b.scores, sum)
		if careful && sum != vector.DotSparse(q, r) {
			b.wrong++
		}
	}
}

func (b *brute) unload(q vector.Sparse) {
	for _, f := range q.Index {
		b.query[f] = 0
	}
}

// agrees reports whether an answer is the k best rows: all rows that are at least as good as
// its last hit, or all that share a feature if there are fewer than k.
func (b *brute) agrees(got []postings.Hit, k int) bool {
	b.best = b.best[:0]
	for i, score := range b.scores {
		if score <= 0 || len(got) >= k && score < got[k-1].Score {
			continue
		}
		b.best = append(b.best, postings.Hit{Row: uint32(i), Score: score})
	}
	slices.SortStableFunc(b.best, func(x, y postings.Hit) int { return cmp.Compare(y.Score, x.Score) })
	return slices.Equal(got, b.best[:min(k, len(b.best))])
}

// storedShift gives runs of 1024 rows, as databases have them.
const storedShift = 10

// stored returns an index whose rows are the rows of the set before weighting.
func (s *set) stored(ix *postings.Index) (*postings.Index, error) {
	var runs []vector.CSR
	raw := &vector.CSR{Ptr: s.rows.Ptr, Index: s.rows.Index, Value: s.raw, Cols: s.rows.Cols}
	for i := range raw.Rows() {
		if i%(1<<storedShift) == 0 {
			runs = append(runs, vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: raw.Cols})
		}
		runs[len(runs)-1].Append(raw.Row(i))
	}
	source, err := postings.NewSource(runs, storedShift, 0, raw.Rows(), raw.Cols)
	if err != nil {
		return nil, err
	}
	source.IDF, source.Norm = s.idf, s.norm
	out := *ix
	out.Rows, out.Source = nil, source
	return &out, out.Validate()
}
