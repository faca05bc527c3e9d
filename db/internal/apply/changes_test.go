package apply_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/query/lcif"
)

// TestChangesOfOneKey: changes of one key compose within a transaction.
func TestChangesOfOneKey(t *testing.T) {
	key, other := []byte("1"), []byte("none")
	put := func(b *db.Tx) error {
		return b.Collection("d").Put(db.Row{Key: key, Vector: []float32{7, 7}, Labels: []string{"put"}, Payload: []byte("put")})
	}
	insert := func(b *db.Tx) error { return b.Collection("d").Insert(db.Row{Key: other, Vector: []float32{7, 7}}) }
	del := func(b *db.Tx) error { return b.Collection("d").Delete(key) }
	labels := func(b *db.Tx) error { return b.Collection("d").SetLabels(key, "z", "a", "z") }
	payload := func(b *db.Tx) error { return b.Collection("d").SetPayload(key, []byte("new")) }
	none := func(b *db.Tx) error { return b.Collection("d").SetLabels(other, "a") }
	for _, c := range []struct {
		name  string
		do    []func(*db.Tx) error
		last  error  // of the last call
		want  string // labels, payload and first coordinate, empty if the row is deleted
		moved bool   // the row gets a new number
	}{
		{"labels", []func(*db.Tx) error{labels}, nil, "[a z] p old", false},
		{"payload", []func(*db.Tx) error{payload}, nil, "[l1] new old", false},
		{"both", []func(*db.Tx) error{labels, payload}, nil, "[a z] new old", false},
		{"put, labels", []func(*db.Tx) error{put, labels}, nil, "[a z] put 7", true},
		{"put, payload", []func(*db.Tx) error{put, payload}, nil, "[put] new 7", true},
		{"labels, put", []func(*db.Tx) error{labels, put}, nil, "[put] put 7", true},
		{"labels, put, payload", []func(*db.Tx) error{labels, put, payload}, nil, "[put] new 7", true},
		{"labels, delete", []func(*db.Tx) error{labels, del}, nil, "", true},
		{"delete, labels", []func(*db.Tx) error{del, labels}, fail.NoRow, "", true},
		{"labels, delete, put", []func(*db.Tx) error{labels, del, put}, nil, "[put] put 7", true},
		{"put, delete, payload", []func(*db.Tx) error{put, del, payload}, fail.NoRow, "", true},
		{"no such row", []func(*db.Tx) error{none}, fail.NoRow, "[l1] p old", false},
		{"insert, labels", []func(*db.Tx) error{insert, none}, nil, "[l1] p old", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := dbtest.Changed(t, 3, 2)
			read := func(get func() (db.Row, error)) string {
				r, err := get()
				if errors.Is(err, fail.NoRow) {
					return ""
				} else if err != nil {
					t.Fatal(err)
				}
				x := "old"
				if r.Vector[0] == 7 {
					x = "7"
				}
				return fmt.Sprintf("%v %s %s", r.Labels, r.Payload, x)
			}
			err := d.Update(t.Context(), func(b *db.Tx) (err error) {
				for _, f := range c.do {
					if err != nil {
						return err
					}
					err = f(b)
				}
				if !errors.Is(err, c.last) {
					t.Errorf("the last call returns %v, want %v", err, c.last)
				}
				if got := read(func() (db.Row, error) { return b.Collection("d").Get(key) }); got != c.want {
					t.Errorf("the transaction reads %q, want %q", got, c.want)
				}
				return nil
			})
			dbtest.Must(t, err)
			err = d.View(func(s *db.Snapshot) error {
				r, err := s.Collection("d").Get(key)
				if err == nil && (r.Row != 1) != c.moved {
					t.Errorf("row %d", r.Row)
				}
				if got := read(func() (db.Row, error) { return r, err }); got != c.want {
					t.Errorf("after the commit: %q, want %q", got, c.want)
				}
				return nil
			})
			if err := errors.Join(err, dbtest.Check(d)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChangeOfDeletedRow: a change is deleted with its row, or with the row that is replaced.
func TestChangeOfDeletedRow(t *testing.T) {
	d, _ := dbtest.Changed(t, 9, 2)
	for i := range 4 {
		dbtest.Relabel(t, d, i, "changed")
	}
	err := d.Update(t.Context(), func(b *db.Tx) error {
		return errors.Join(b.Collection("d").Delete([]byte("1")), b.Collection("s").Delete([]byte("1")),
			dbtest.PutChanged(b, 2, 3, 2))
	})
	dbtest.Must(t, err)
	n := 0
	for _, p := range pairs(t, d) {
		if _, kind, _ := codec.ParseKey(p.Key); len(p.Key) == codec.KeySize && kind == codec.KindChange {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d changes are stored, want those of two rows in each collection", n)
	}
	if err := dbtest.Check(d); err != nil {
		t.Error(err)
	}
}

// TestChangeErrors: a change that is refused fails the Update, except for one of a missing row.
func TestChangeErrors(t *testing.T) {
	d, _ := dbtest.Changed(t, 3, 2)
	for _, c := range []struct {
		name string
		do   func(b *db.Tx) error
		want error
	}{
		{"empty label", func(b *db.Tx) error { return b.Collection("d").SetLabels([]byte("1"), "") }, fail.Label},
		{"many labels", func(b *db.Tx) error {
			return b.Collection("d").SetLabels([]byte("1"), make([]string, rows.MaxLabels+1)...)
		}, fail.Label},
		{"large payload", func(b *db.Tx) error {
			return b.Collection("d").SetPayload([]byte("1"), make([]byte, rows.MaxPayload+1))
		}, fail.Payload},
		{"empty key", func(b *db.Tx) error { return b.Collection("d").SetLabels(nil) }, fail.Key},
		{"no collection", func(b *db.Tx) error { return b.Collection("none").SetLabels([]byte("1")) }, fail.NoCollection},
	} {
		err := d.Update(t.Context(), func(b *db.Tx) error {
			if err := c.do(b); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			return b.Collection("d").SetPayload([]byte("2"), []byte("must not be written"))
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: the update returns %v, want %v", c.name, err, c.want)
		}
	}
	var late *db.Tx
	dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error { late = b; return nil }))
	if err := late.Collection("d").SetLabels([]byte("1")); !errors.Is(err, db.ErrClosed) {
		t.Errorf("after Update has returned: %v", err)
	}
	if err := d.View(func(s *db.Snapshot) error {
		r, err := s.Collection("d").Get([]byte("2"))
		if string(r.Payload) != "p" {
			t.Errorf("payload %q", r.Payload)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestChangeWritesLittle changes a sealed row in a collection with a forest,
// and one with an inverted index: no block of vectors, rows or indexes is written, indexes are
// not behind, and the transaction writes a few pages.
func TestChangeWritesLittle(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, _ := dbtest.Changed(t, 1100, 300)
	for coll, o := range map[string]index.Options{"d": &index.Forest{NoTune: true, Seed: 1}, "s": nil} {
		if _, err := d.Collection(coll).Build(ctx, "x", o, nil); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := d.Collections(); err != nil || c[0].Sealed == 0 || c[1].Sealed == 0 {
		t.Fatalf("no row is sealed: %+v, %v", c, err)
	}
	dbtest.Relabel(t, d, 2, "a", "label") // new labels
	before := map[string]string{}
	for _, p := range pairs(t, d) {
		before[p.Bucket+string(p.Key)] = string(p.Value)
	}
	dbtest.Relabel(t, d, 1, "a", "label")
	for _, p := range pairs(t, d) {
		if before[p.Bucket+string(p.Key)] == string(p.Value) {
			continue
		}
		_, kind, _ := codec.ParseKey(p.Key)
		switch {
		case p.Bucket == string(layout.BucketSets), p.Bucket == string(layout.BucketMeta) && kind == codec.KindCatalog,
			p.Bucket == string(layout.BucketTail) && kind == codec.KindChange:
		default:
			t.Errorf("a block of kind %v was written into %s", kind, p.Bucket)
		}
	}
	first, err := d.Stats()
	dbtest.Must(t, err)
	dbtest.Relabel(t, d, 1, "label", "a")
	if now, err := d.Stats(); err != nil || now.Commits != first.Commits {
		t.Errorf("labels that a row has were written: %v", err)
	}
	st, err := d.Stats()
	dbtest.Must(t, err)
	for _, i := range st.Indexes {
		if i.Fresh != 0 || i.Relabelled != 0 {
			t.Errorf("index %+v is behind", i)
		}
	}
	if steps, err := d.Maintain(ctx, 0, nil); err != nil || len(steps) > 0 {
		t.Errorf("steps %+v, %v", steps, err)
	}
}

// TestLabelsDisappear: a label that no row has is not listed, takes no space once its rows were
// relabelled, and can come again.
func TestLabelsDisappear(t *testing.T) {
	d, _ := dbtest.Changed(t, 9, 2)
	labels := func(want string) {
		t.Helper()
		err := d.View(func(s *db.Snapshot) error {
			all, err := s.Collection("d").Labels()
			if got := fmt.Sprint(all); got != want {
				t.Errorf("labels %v, want %s", got, want)
			}
			for label, rows := range all {
				o := &db.SearchOptions{K: 9, Where: filter.HasLabel(label)}
				found, err := s.Collection("d").Search(t.Context(), db.Query{Vector: []float32{0, 0}}, o)
				if err != nil || len(found.Hits) != rows {
					t.Errorf("label %s: %d hits, %v", label, len(found.Hits), err)
				}
			}
			return err
		})
		if err := errors.Join(err, dbtest.Check(d), dbtest.LeavesNothing(d)); err != nil {
			t.Error(err)
		}
	}
	objects := func() (n int) {
		for _, p := range pairs(t, d) {
			if p.Bucket == string(layout.BucketLabels) {
				n++
			}
		}
		return n
	}
	labels("map[l0:3 l1:3 l2:3]")
	for i := range 3 {
		dbtest.Relabel(t, d, 3*i, "only")
	}
	labels("map[l1:3 l2:3 only:3]")
	if n := objects(); n != 6 {
		t.Errorf("%d labels are stored", n)
	}
	dbtest.Relabel(t, d, 3, "l0", "l1")
	labels("map[l0:1 l1:4 l2:3 only:2]")
	dbtest.Relabel(t, d, 3)
	labels("map[l1:3 l2:3 only:2]")
}

// TestDamagedChanges: damage to what a change stores is found by reads, by Check, or both, and no
// read returns labels that are not true.
func TestDamagedChanges(t *testing.T) {
	d, path := dbtest.Changed(t, 1100, 4)
	dbtest.Relabel(t, d, 5, "new")
	dbtest.Relabel(t, d, 6, "new")
	dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error { return b.Collection("s").Delete([]byte("7")) }))
	if _, err := d.Collection("s").Build(t.Context(), "lcif", &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}}, nil); err != nil {
		t.Fatal(err)
	}
	dbtest.Relabel(t, d, 5, "newer")
	id, at := dbtest.Object(t, path, "s", ""), dbtest.Object(t, path, "s", "lcif")
	dbtest.Must(t, errors.Join(dbtest.Check(d), d.Close()))
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	put := func(bucket []byte, key [codec.KeySize]byte, payload []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			_, kind, _ := codec.ParseKey(key[:])
			return tx.Bucket(bucket).Put(key[:], codec.Encode(key[:], codec.Header{Kind: kind}, payload))
		}
	}
	set := func(rows ...uint32) []byte {
		data, err := roaring.BitmapOf(rows...).ToBytes()
		dbtest.Must(t, err)
		return data
	}
	change := func(row uint32, revision byte) ([codec.KeySize]byte, []byte) {
		p := append([]byte{revision, 0, 0, 0, 0, 0, 0, 0}, rows.AppendCold(nil, &rows.Cold{Labels: []string{"forged"}})...)
		return codec.Key(id, codec.KindChange, row), p
	}
	five, forged := change(5, 2)
	_, late := change(5, 77)
	_, none := change(5, 0)
	six, _ := change(6, 2)
	other, _ := change(8, 2)
	changed := codec.Key(id, codec.KindChanged, 0)
	for _, c := range []struct {
		name  string
		do    func(*bbolt.Tx) error
		read  bool // Get of row 5 notices
		model bool // the index notices
	}{
		{"missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketTail).Delete(five[:]) }, true, true},
		{"another one missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketTail).Delete(six[:]) }, false, false},
		{"of an unchanged row", put(layout.BucketTail, other, forged), false, false},
		{"forged", put(layout.BucketTail, five, forged), false, false},
		{"of the future", put(layout.BucketTail, five, late), true, true},
		{"without revision", put(layout.BucketTail, five, none), true, true},
		{"short", put(layout.BucketTail, five, []byte{1, 0}), true, true},
		{"of a deleted row", put(layout.BucketSets, changed, set(5, 6, 7)), false, false},
		{"of a row beyond", put(layout.BucketSets, changed, set(5, 6, 1500)), true, true},
		{"set missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketSets).Delete(changed[:]) }, false, false},
		{"relabelled row beyond", put(layout.BucketSets, codec.Key(at, codec.KindRelabelled, 0), set(1500)), false, true},
		{"relabelled set damaged", put(layout.BucketSets, codec.Key(at, codec.KindRelabelled, 0), []byte{1}), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
			dbtest.InFile(t, path, c.do)
			dbtest.WithFile(t, path, func(d *db.DB, s *db.Snapshot) {
				r, err := s.Collection("s").Get([]byte("5"))
				if c.read {
					dbtest.MustBeCorrupt(t, "get", err)
				} else if err != nil {
					t.Errorf("get: %+v, %v", r, err)
				}
				dbtest.MustBeCorrupt(t, "check", dbtest.Check(d))
				_, err = d.Maintain(t.Context(), 0, nil)
				if c.model {
					dbtest.MustBeCorrupt(t, "maintain", err)
				}
			})
		})
	}
}

// pairs returns what the file has.
func pairs(t *testing.T, d *db.DB) []dbtest.Pair {
	t.Helper()
	f, err := dbtest.ReadFile(d.Path())
	dbtest.Must(t, err)
	return f.Pairs
}
