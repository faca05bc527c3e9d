package db

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// FuzzPostings overwrites part of a block of an inverted index with a partition and
// gives it the checksum it then should have: by every strategy hits are rows at
// their true distances, or the search reports damage. The lengths of rows stay:
// distances are made of them.
func FuzzPostings(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed.anndb")
	must(f, rowlessGolden(seed))
	var blocks []storedBlock
	for _, b := range storedBlocks(f, seed) {
		if _, kind, n := codec.ParseKey(b.key); kind == codec.KindPostings && n != arrayRowLength {
			blocks = append(blocks, b)
		}
	}
	q := rowlessRow("counts", 3).Sparse
	fuzzBlocks(f, seed, blocks, func(t *testing.T, s *Snapshot) {
		for _, strategy := range []postings.Strategy{postings.Partitioned, postings.Compact, postings.Union} {
			hits, _, err := nearest(t.Context(), s.Collection("counts"), Query{Sparse: q}, 9, &SearchOptions{Index: "rows", Strategy: strategy.String()})
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%v: untyped error %v", strategy, err)
				}
				continue
			}
			for _, h := range hits {
				r, err := s.Collection("counts").GetRow(h.Row)
				if err != nil {
					t.Fatalf("%v: a hit that is no row: %v", strategy, err)
				}
				want := 1 - vector.DotSparse(q, r.Sparse)/q.Norm()/r.Sparse.Norm()
				if math.Abs(float64(h.Distance)-want) > 1e-5 {
					t.Fatalf("%v: distance %g of row %d, want %g", strategy, h.Distance, h.Row, want)
				}
			}
		}
	})
}
