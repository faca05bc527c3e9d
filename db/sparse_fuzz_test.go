package db

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// FuzzPostings overwrites part of a block of an inverted index and gives it the
// checksum it then should have: hits are rows at their true distances, or the search reports damage. The lengths of rows stay:
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
		hits, _, err := nearest(t.Context(), s.Collection("counts"), Query{Sparse: q}, 9, &SearchOptions{Index: "rows"})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, h := range hits {
			r, err := s.Collection("counts").GetRow(h.Row)
			if err != nil {
				t.Fatalf("a hit that is no row: %v", err)
			}
			want := 1 - vector.DotSparse(q, r.Sparse)/q.Norm()/r.Sparse.Norm()
			if math.Abs(float64(h.Distance)-want) > 1e-5 {
				t.Fatalf("distance %g of row %d, want %g", h.Distance, h.Row, want)
			}
		}
	})
}
