package db_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// documented are the errors that the package promises: every returned error wraps
// one of them.
var documented = []error{
	db.ErrClosed, db.ErrReadOnly, db.ErrInvalid, db.ErrUnsuitable, db.ErrNoSpace, db.ErrNotFound, db.ErrExists,
	db.ErrCorrupt, db.ErrNotDatabase, db.ErrLocked, db.ErrUnknownState,
	context.Canceled, context.DeadlineExceeded, fs.ErrNotExist, fs.ErrPermission, syscall.EIO,
}

func isDocumented(err error) bool {
	for _, e := range documented {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// degenerate are rows of a few shapes that learners like least.
var degenerate = []struct {
	name   string
	vector func(i, d int) float32
	labels func(i int) []string
}{
	{"zero", func(int, int) float32 { return 0 }, func(i int) []string { return []string{fmt.Sprint(i % 2)} }},
	{"equal", func(int, int) float32 { return 2 }, func(i int) []string { return []string{fmt.Sprint(i % 2)} }},
	{"one class", func(i, d int) float32 { return float32(i * (d + 1) % 7) }, func(int) []string { return []string{"a"} }},
	{"constant features", func(i, d int) float32 { return float32(d) }, func(i int) []string { return []string{fmt.Sprint(i % 3)} }},
	{"no labels", func(i, d int) float32 { return float32((i + d) % 5) }, func(int) []string { return nil }},
	{"tiny", func(i, d int) float32 { return float32(i+d+1) * 1e-15 }, func(i int) []string { return []string{fmt.Sprint(i % 2)} }},
}

// TestDegenerate builds every kind of index over few and degenerate rows, and asks
// it everything: answers, or documented errors, whose text is no other package's.
func TestDegenerate(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	kinds := []index.Options{nil, &index.Postings{}, &index.LCIF{},
		&index.LabelTree{}, &index.Trees{Kind: "at"}, &index.Trees{Kind: "pt"}, &index.Trees{Kind: "sbt"}}
	for _, learner := range []forest.Kind{forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF} {
		kinds = append(kinds, &index.Forest{Learner: string(learner)})
	}
	colls := map[string]vector.Metric{"l2": vector.L2, "cosine": vector.Cosine, "ip": vector.InnerProduct, "sparse": 0}
	for at, shape := range degenerate {
		for _, n := range []int{0, 1, 2, 9} {
			if n == 0 && at > 0 {
				continue // no rows have no shape
			}
			t.Run(fmt.Sprintf("%s/%d", shape.name, n), func(t *testing.T) {
				t.Parallel()
				d, err := dbtest.Open(t.Context(), filepath.Join(t.TempDir(), "x.anndb"), &db.Options{NoSync: true})
				dbtest.Must(t, err)
				defer d.Close()
				for coll, metric := range colls {
					fillDegenerate(t, d, coll, metric, n, shape.vector, shape.labels)
					for i, o := range kinds {
						name := fmt.Sprint("x", i)
						_, err := d.Collection(coll).Build(t.Context(), name, o, nil)
						checkDocumented(t, fmt.Sprintf("build %T %+v over %s", o, o, coll), err)
						if err == nil {
							askDegenerate(t, d, coll, name)
						}
					}
					askDegenerate(t, d, coll, "")
					askDegenerate(t, d, coll, db.Flat)
				}
				_, err = d.Maintain(t.Context(), 0, nil)
				checkDocumented(t, "maintain", err)
				err = d.Compact(t.Context(), &db.CompactOptions{Reorder: true})
				checkDocumented(t, "reorder", err)
				err = d.Check(t.Context(), nil, nil)
				if err != nil {
					t.Errorf("check: %v", err)
				}
			})
		}
	}
}

func checkDocumented(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !isDocumented(err) {
		t.Errorf("%s: undocumented error: %v", what, err)
	}
	if strings.Contains(err.Error(), "NaN") || strings.Contains(err.Error(), "invalid view") {
		t.Errorf("%s: %v", what, err)
	}
}

func fillDegenerate(t *testing.T, d *db.DB, coll string, metric vector.Metric, n int,
	value func(i, d int) float32, labels func(int) []string) {
	t.Helper()
	const dim = 8
	ctx := t.Context()
	var err error
	if metric == 0 {
		_, err = d.Create(ctx, coll, db.Schema{Sparse: true})
	} else {
		_, err = d.Create(ctx, coll, db.Schema{Dim: dim, Metric: metric})
	}
	dbtest.Must(t, err)
	dbtest.Fill(t, d, coll, 0, n, func(i int) db.Row {
		r := db.Row{Key: fmt.Appendf(nil, "k%d", i), Labels: labels(i)}
		x := make([]float32, dim)
		for j := range x {
			x[j] = value(i, j)
			if metric == 0 {
				r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, uint32(j)), append(r.Sparse.Value, x[j])
			}
		}
		if metric != 0 {
			r.Vector = x
		}
		return r
	})
}

// askDegenerate asks an index everything that is asked of any.
func askDegenerate(t *testing.T, d *db.DB, coll, index string) {
	t.Helper()
	ctx := t.Context()
	q := []float32{1, 0, 2, 0, 0, 1, 0, 3}
	sparse := db.Query{Sparse: vector.Sparse{Index: []uint32{0, 3, 9}, Value: []float32{1, 2, 1}}}
	err := d.View(func(s *db.Snapshot) error {
		if coll == "sparse" {
			_, _, err := dbtest.Nearest(ctx, s.Collection(coll), sparse, 3, &db.SearchOptions{Index: index})
			checkDocumented(t, "sparse search by "+index, err)
		} else {
			_, _, err := dbtest.Nearest(ctx, s.Collection(coll), db.Query{Vector: q}, 3, &db.SearchOptions{Index: index})
			checkDocumented(t, "search of "+coll+" by "+index, err)
			_, _, err = dbtest.Nearest(ctx, s.Collection(coll), db.Query{Vector: q}, 3, &db.SearchOptions{Index: index, Recall: 0.99})
			checkDocumented(t, "search of "+coll+" by "+index, err)
			sparse = db.Query{Vector: q}
		}
		_, _, err := dbtest.Predict(ctx, s.Collection(coll), sparse, &db.PredictOptions{Index: index})
		checkDocumented(t, "predict over "+coll+" by "+index, err)
		_, err = dbtest.TreePath(ctx, s.Collection(coll), sparse, index)
		checkDocumented(t, "explain over "+coll+" by "+index, err)
		_, err = s.Collection(coll).Index(index)
		checkDocumented(t, "index "+index, err)
		return nil
	})
	dbtest.Must(t, err)
}
