package txn_test

import (
	"errors"
	"iter"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db"

	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestInsert: an insert of a key that a row has fails the whole update, whoever
// shares its transaction.
func TestInsert(t *testing.T) {
	ctx := t.Context()
	d, err := dbtest.Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &db.Options{NoSync: true})
	dbtest.Must(t, err)
	defer d.Close()
	if _, err := d.Create(ctx, "c", db.Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	row := func(key string) db.Row { return db.Row{Key: []byte(key), Vector: []float32{1}} }
	insert := func(keys ...string) error {
		return d.Update(ctx, func(b *db.Tx) error {
			for _, k := range keys {
				if err := b.Collection("c").Insert(row(k)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	dbtest.Must(t, insert("a", "b"))
	if err := insert("c", "a"); !errors.Is(err, db.ErrExists) {
		t.Errorf("insert of a key that is there: %v", err)
	}
	// Of many that insert the same key at the same time one succeeds.
	done := make(chan error)
	for range 16 {
		go func() { done <- insert("same") }()
	}
	good := 0
	for range 16 {
		if err := <-done; err == nil {
			good++
		} else if !errors.Is(err, db.ErrExists) {
			t.Error(err)
		}
	}
	if good != 1 {
		t.Errorf("%d inserts of one key succeeded", good)
	}
	dbtest.Must(t, d.Update(ctx, func(b *db.Tx) error { return b.Collection("c").Delete([]byte("b")) }))
	n, err := d.Collection("c").Load(ctx, rowsOf(row("b"), row("x")), &db.LoadOptions{Insert: true})
	if n != 2 || err != nil {
		t.Errorf("%d rows loaded, %v", n, err)
	}
	if _, err := d.Collection("c").Load(ctx, rowsOf(row("y"), row("y")), &db.LoadOptions{Insert: true}); !errors.Is(err, db.ErrExists) {
		t.Errorf("a key twice in a load: %v", err)
	}
	err = d.View(func(s *db.Snapshot) error {
		info, err := s.Collection("c").Info()
		if info.Live != 4 {
			t.Errorf("%d rows, want a, b, same and x: the transaction with y failed", info.Live)
		}
		return err
	})
	dbtest.Must(t, err)
}

func rowsOf(rows ...db.Row) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
