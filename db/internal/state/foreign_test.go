package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
)

// TestForeignFiles opens what is no database, and leaves it as it is.
func TestForeignFiles(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.bolt")
	b, err := bbolt.Open(other, 0o600, nil)
	dbtest.Must(t, err)
	dbtest.Must(t, errors.Join(b.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("of another program"))
		return err
	}), b.Close()))
	foreign, err := os.ReadFile(other)
	dbtest.Must(t, err)
	for name, data := range map[string][]byte{
		"one byte":  {7},
		"text":      []byte(strings.Repeat("the quick brown fox\n", 5000)),
		"zeros":     make([]byte, 1<<20),
		"ones":      bytes.Repeat([]byte{0xff}, 1<<20),
		"one block": codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, []byte("{}")),
		"bbolt":     foreign,
	} {
		path := dbtest.WriteFile(t, data)
		for _, o := range []*db.Options{nil, {ReadOnly: true}, {AcceptOlder: true}} {
			if d, err := dbtest.Open(t.Context(), path, o); !errors.Is(err, db.ErrNotDatabase) {
				t.Errorf("%s with %+v: %v, %v", name, o, d, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
			t.Errorf("%s: the file has changed, or %v", name, err)
		}
	}
}

// newer returns a valid block, as a later version might write it.
func newer(key, value []byte) []byte {
	v, table := bytes.Clone(value), crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint16(v[4:], codec.FormatVersion+1)
	stored := binary.LittleEndian.Uint64(v[32:])
	sum := crc32.Update(crc32.Checksum(key, table), table, v[:48])
	binary.LittleEndian.PutUint32(v[48:], crc32.Update(sum, table, v[64:64+stored]))
	return v
}

// foreignBase is a file with two collections, whose only chunk is sealed.
func foreignBase(t *testing.T) (path string) {
	path = filepath.Join(t.TempDir(), "base.anndb")
	d, err := dbtest.Open(t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	for _, name := range []string{"a", "b"} {
		var rows []db.Row
		for i := range 18 {
			rows = append(rows, db.Row{Key: []byte{byte(i)}, Vector: dbtest.Vector(uint64(4*i), 8192)})
		}
		dbtest.Must(t, errors.Join(dbtest.Create(t.Context(), d, name, db.Schema{Dim: 8192}), dbtest.Put(d, name, rows...)))
	}
	dbtest.Must(t, d.Close())
	return path
}

// TestNewerFormat: what a later version has written is refused by that name, never taken for damage and
// never read.
func TestNewerFormat(t *testing.T) {
	for name, change := range map[string]func(b *bbolt.Bucket) error{
		"block": func(b *bbolt.Bucket) error {
			return b.Put(layout.CatalogKey[:], newer(layout.CatalogKey[:], b.Get(layout.CatalogKey[:])))
		},
		"number": func(b *bbolt.Bucket) error {
			data := []byte(`{"Format":2,"Collections":{"no":"list"}}`)
			return b.Put(layout.CatalogKey[:], codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, data))
		},
	} {
		path := foreignBase(t)
		dbtest.InFile(t, path, func(tx *bbolt.Tx) error { return change(tx.Bucket(layout.BucketMeta)) })
		if d, err := dbtest.Open(t.Context(), path, nil); !errors.Is(err, fail.NewerFormat) || errors.Is(err, db.ErrCorrupt) {
			t.Errorf("catalog, %s: %v, %v", name, d, err)
		}
	}
	path := foreignBase(t)
	key := codec.Key(dbtest.Object(t, path, "b", ""), codec.KindRows, 0)
	dbtest.InFile(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket(layout.BucketBlocks)
		return b.Put(key[:], newer(key[:], b.Get(key[:])))
	})
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		q := db.Query{Vector: make([]float32, 8192)}
		if _, err := s.Collection("a").Search(t.Context(), q, nil); err != nil {
			t.Errorf("another collection: %v", err)
		}
		if _, err := s.Collection("b").Search(t.Context(), q, nil); !errors.Is(err, fail.NewerFormat) || errors.Is(err, db.ErrCorrupt) {
			t.Errorf("search: %v", err)
		}
	})
}

// TestVerifiedOnce: a block is verified when it is first read, and damage that was found is not forgotten.
func TestVerifiedOnce(t *testing.T) {
	path := foreignBase(t)
	at := dbtest.Block(t, path, layout.BucketBlocks, "a", "", codec.KindRows, 0).At + codec.HeaderSize + 1000
	ask := func(d *db.DB) error {
		_, err := d.Collection("a").Search(t.Context(), db.Query{Vector: make([]float32, 8192)}, nil)
		return err
	}
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
		dbtest.Must(t, ask(d))
		dbtest.Flip(t, path, at)
		dbtest.Must(t, errors.Join(dbtest.Put(d, "b", db.Row{Key: []byte("x"), Vector: make([]float32, 8192)}), ask(d)))
	})
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
		for range 2 {
			dbtest.MustBeCorrupt(t, "search", ask(d))
		}
		dbtest.MustBeCorrupt(t, "check", d.Check(t.Context(), nil, nil))
	})
}

// TestMetaPages damages one of the two meta pages, and both: an older state is opened on request only.
func TestMetaPages(t *testing.T) {
	path := foreignBase(t)
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	generations := 0
	for page := range 2 {
		data := bytes.Clone(pristine)
		data[page*layout.PageSize+40] ^= 4
		dbtest.Must(t, os.WriteFile(path, data, 0o600))
		if d, err := dbtest.Open(t.Context(), path, nil); !errors.Is(err, db.ErrCorrupt) || !strings.Contains(err.Error(), "AcceptOlder") {
			t.Errorf("meta page %d is damaged: %v, %v, want ErrCorrupt that names AcceptOlder", page, d, err)
		}
		var log bytes.Buffer
		d, err := dbtest.Open(t.Context(), path, &db.Options{ReadOnly: true, AcceptOlder: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		dbtest.Must(t, err)
		if !strings.Contains(log.String(), "meta page is damaged") {
			t.Errorf("meta page %d: no warning in %q", page, log.String())
		}
		st, err := d.Stats()
		dbtest.Must(t, err)
		generations += int(f.Meta.TxID - st.Generation)
		dbtest.MustBeCorrupt(t, "check", d.Check(t.Context(), nil, nil))
		dbtest.Must(t, d.Close())
	}
	if generations != 1 {
		t.Errorf("the states of the two meta pages are %d generations apart", generations)
	}
	data := bytes.Clone(pristine)
	data[40] ^= 4
	data[layout.PageSize+40] ^= 4
	dbtest.Must(t, os.WriteFile(path, data, 0o600))
	for _, o := range []*db.Options{nil, {AcceptOlder: true}} {
		if d, err := dbtest.Open(t.Context(), path, o); !errors.Is(err, db.ErrCorrupt) {
			t.Errorf("both meta pages are damaged: %v, %v", d, err)
		}
	}
}
