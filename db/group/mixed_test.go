package group_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
)

// TestMixedModels: a model with sums and one that predicts by itself do not predict together.
func TestMixedModels(t *testing.T) {
	files, sources := open(t, 2, db.Schema{Sparse: true})
	rng := rand.New(rand.NewPCG(1, 2))
	for i, d := range files {
		var rows []db.Row
		for j := range 300 {
			x := dbtest.RandomSparse(rng, 4, 20)
			label := fmt.Sprint(x.Index[0])
			rows = append(rows, db.Row{Key: fmt.Append(nil, i, " ", j), Sparse: x, Labels: []string{label}})
		}
		dbtest.Must(t, dbtest.Put(d, "c", rows...))
	}
	dbtest.Builds(t, files[0], "c", "m", &index.LCIF{Weight: "none", Params: &lcif.Params{K: 5, Lambda: 0.5}})
	dbtest.Builds(t, files[1], "c", "m", &index.LabelTree{})
	g, err := group.Open(t.Context(), sources...)
	dbtest.Must(t, err)
	defer g.Release()
	q := db.Query{Sparse: dbtest.RandomSparse(rng, 4, 20)}
	if _, err := g.Predict(t.Context(), q, nil); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}
