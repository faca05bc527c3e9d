package db_test

import (
	"testing"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// TestTuneKAboveRows: a TuneK of more rows than there are is taken for their
// number, and a build with it measures nothing but the exact scan.
func TestTuneKAboveRows(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const dim = 8
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 2000, dim))
	q := dbtest.Mixture(5, 1, dim)[0]
	for _, k := range []int{1000, 3000, 1 << 40} {
		info := b.Build("x", &index.Forest{TuneK: k})
		points := info.Curve.Points
		if info.Curve.K != min(k, 1800) || len(points) != 1 || points[0].Params.Method != query.Flat || points[0].Recall != 1 {
			t.Errorf("TuneK %d: tuned for %d: %+v", k, info.Curve.K, points)
		}
		hits, _ := b.Search(q, 1900, nil)
		b.Same(q, hits, b.Exact(q, nil)[:1900], nil)
	}
}
