package txn_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// TestRename: a collection keeps its rows and indexes under another name, also when names are swapped,
// for maintenance, and after reopening. Snapshots keep the former name.
func TestRename(t *testing.T) {
	b := dbtest.NewBed(t, vector.L2, 3)
	ctx := t.Context()
	b.Put("a", dbtest.Mixture(1, 300, 3))
	_, err := b.D.Collection("c").Build(ctx, "main", &index.Forest{Learner: "rp", Trees: 2, Depth: 3}, nil)
	b.Must(err)
	other, err := b.D.Create(ctx, "other", db.Schema{Named: true})
	b.Must(err)
	b.Must(b.D.Update(ctx, func(tx *db.Tx) error {
		return tx.Collection("other").Put(db.Row{
			Key: []byte("o"), Features: []vector.Feature{{Name: "x", Value: 1}},
		})
	}))
	s, err := b.D.Snapshot()
	b.Must(err)
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"c", "other", db.ErrExists}, {"none", "new", db.ErrNotFound}, {"c", "", db.ErrInvalid},
		{"c", "a\nb", db.ErrInvalid}, {"c", "c", nil}, {"c", "x", nil}, {"other", "c", nil}, {"x", "other", nil},
	} {
		if err := b.D.Rename(ctx, c.from, c.to); !errors.Is(err, c.want) {
			t.Errorf("rename %q to %q: %v, want %v", c.from, c.to, err, c.want)
		}
	}
	find := func(where string, rows db.Collection) {
		t.Helper()
		found, err := rows.Search(ctx, db.Query{Vector: []float32{1, 2, 3}}, &db.SearchOptions{K: 5, Index: "main"})
		if err != nil || len(found.Hits) != 5 {
			t.Errorf("%s: %v, %v", where, found.Hits, err)
		}
	}
	find("snapshot", s.Collection("c"))
	s.Release()
	find("renamed", other)
	dbtest.Fill(t, b.D, "other", 0, 50, func(i int) db.Row {
		return db.Row{Key: fmt.Appendf(nil, "new%d", i), Vector: []float32{1, 2, float32(i)}}
	})
	_, err = b.D.Maintain(ctx, 0, nil)
	b.Must(err)
	b.Reopen()
	find("reopened", b.D.Collection("other"))
	if n, err := b.D.Collection("c").Count(ctx, nil); n != 1 || err != nil {
		t.Errorf("the other one has %d rows, %v", n, err)
	}
	b.Must(b.D.Check(ctx, nil, nil))
}
