package forestindex

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// TestAnswersStayExact inserts, deletes and hides rows at random, and compares answers that are brought up
// to date with the nearest rows. Rows that equal a query are answers.
func TestAnswersStayExact(t *testing.T) {
	const n, most, want = 300, 900, 4
	rng := rand.New(rand.NewPCG(3, 4))
	rows := make([][]float32, most)
	for i := range rows {
		rows[i] = []float32{rng.Float32(), rng.Float32(), rng.Float32()}
	}
	queries := make([]sample.Query, 20)
	for i := range queries {
		queries[i] = sample.Query{Vector: rows[n+7*i], Number: i}
	}
	known := &answers{}
	hidden := roaring.New()
	s := query.NewSearcher()
	for covered := n; ; {
		v := viewOf(vector.L2, rows[:covered])
		v.Deleted, v.DeletedBits = hidden, kind.BitsOf(hidden, covered)
		v.LiveCount -= int(hidden.GetCardinality())
		if known.rows > 0 && !known.holds(v, hidden) {
			t.Fatal("answers do not hold after insertions and deletions")
		}
		next := &answers{rows: covered, hidden: hidden.Clone(), nearest: map[int][]uint32{}}
		kept := 0
		for _, q := range queries {
			got, err := known.upToDate(t.Context(), s, v, q, want)
			exact, _, failed := s.Search(t.Context(), v, q.Vector, &query.Params{K: len(got), Method: query.Flat}, nil)
			if err != nil || failed != nil || len(got) < want {
				t.Fatal(got, err, failed)
			}
			for i, x := range exact {
				if x.ID != got[i] {
					t.Fatalf("%d rows: answer %d is row %d, want %d", covered, i, got[i], x.ID)
				}
			}
			if len(got) != 2*want {
				kept++ // answers that are not from a scan
			}
			next.nearest[q.Number] = got
		}
		if covered == most {
			break
		}
		if covered > n+200 && kept == 0 {
			t.Errorf("%d rows: no answer was kept", covered)
		}
		known = next
		for range 25 {
			hidden.Add(uint32(rng.IntN(covered)))
		}
		covered = min(most, covered+1+rng.IntN(80))
		queries[rng.IntN(len(queries))] = sample.Query{Vector: rows[rng.IntN(most)], Number: covered}
	}
	v := viewOf(vector.L2, rows)
	if known.holds(v, roaring.New()) {
		t.Error("answers hold although rows are hidden no more")
	}
	if known.holds(viewOf(vector.L2, rows[:known.rows-1]), hidden) {
		t.Error("answers hold for fewer rows")
	}
}
