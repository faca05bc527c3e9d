package db

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/vector"
)

// inFile changes the pairs of a closed database.
func inFile(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err == nil {
		err = errors.Join(b.Update(change), b.Close())
	}
	must(t, err)
}

// putBlock stores a block.
func putBlock(t *testing.T, path string, bucket []byte, key [codec.KeySize]byte, payload []byte) {
	t.Helper()
	_, kind, _ := codec.ParseKey(key[:])
	inFile(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).Put(key[:], codec.Encode(key[:], codec.Header{Kind: kind}, payload))
	})
}

// editJSON changes a JSON block.
func editJSON(t *testing.T, path string, key [codec.KeySize]byte, edit func(m map[string]any)) {
	t.Helper()
	inFile(t, path, func(tx *bbolt.Tx) error {
		data, err := layout.DecodeBlock("", key[:], tx.Bucket(layout.BucketMeta).Get(key[:]), true)
		if err != nil {
			return err
		}
		m := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			return err
		}
		edit(m)
		if data, err = json.Marshal(m); err != nil {
			return err
		}
		_, kind, _ := codec.ParseKey(key[:])
		value := codec.Encode(key[:], codec.Header{Kind: kind}, data)
		if kind == codec.KindManifest {
			err = tx.Bucket(layout.BucketBlocks).Put(key[:], value)
		}
		return errors.Join(err, tx.Bucket(layout.BucketMeta).Put(key[:], value))
	})
}

// builds makes an index.
func builds(t *testing.T, d *DB, coll, name string, o index.Options) {
	t.Helper()
	if _, err := d.Collection(coll).Build(t.Context(), name, o, nil); err != nil {
		t.Fatal(err)
	}
}

// withFile runs f on an open database.
func withFile(t *testing.T, path string, f func(d *DB, s *Snapshot)) {
	t.Helper()
	d, err := Open(t.Context(), path, &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	must(t, d.View(func(s *Snapshot) error { f(d, s); return nil }))
}

// object is the number of an index's object.
func objectIn(t *testing.T, path, coll, index string) (object uint64) {
	t.Helper()
	withFile(t, path, func(_ *DB, s *Snapshot) { object = s.gen.Collections[coll].Entry.Index(index).Object })
	return object
}

// mustBeCorrupt fails unless an error is damage that a check has found, rather
// than a crash that the guard has caught.
func mustBeCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	var crash runtime.Error
	if !errors.Is(err, ErrCorrupt) || errors.As(err, &crash) {
		t.Errorf("%s: error %v", what, err)
	}
}

// filterOf makes a filter from the latest state.
func filterOf(t *testing.T, d *DB, coll string, rows *roaring.Bitmap) *filter.Filter {
	t.Helper()
	f, err := d.Collection(coll).RowFilter(rows)
	must(t, err)
	return f
}

// randomSparse draws n features of dim with values in (0, 1].
func randomSparse(rng *rand.Rand, n, dim int) vector.Sparse {
	picked := rng.Perm(dim)[:n]
	slices.Sort(picked)
	var s vector.Sparse
	for _, f := range picked {
		s.Index = append(s.Index, uint32(f))
		s.Value = append(s.Value, 1-rng.Float32())
	}
	return s
}

// mustCheck runs Check and makes what it finds one error.
func mustCheck(d *DB) error {
	var found []error
	err := d.Check(context.Background(), func(p *CorruptError) { found = append(found, p) }, nil)
	return errors.Join(append(found, err)...)
}

// isTree reports whether indexes of a kind are budgeted trees.
func isTree(kind string) bool { return kind == "sbt" || kind == "pt" || kind == "at" }
