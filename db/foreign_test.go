package db

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// TestForeignFiles opens what is no database.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.bolt")
	b, err := bbolt.Open(other, 0o600, nil)
	must(t, err)
	err = b.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("somebody else's"))
		return err
	})
	must(t, errors.Join(err, b.Close()))
	foreign, err := os.ReadFile(other)
	must(t, err)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err = z.Write(make([]byte, 100_000))
	must(t, errors.Join(err, z.Close()))
	for name, data := range map[string][]byte{
		"one byte":  {7},
		"text":      []byte(strings.Repeat("the quick brown fox\n", 5000)),
		"gzip":      zipped.Bytes(),
		"zeros":     make([]byte, 1<<20),
		"ones":      bytes.Repeat([]byte{0xff}, 1<<20),
		"one block": codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, []byte("{}")),
		"bbolt":     foreign,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, data, 0o600))
			for _, o := range []*Options{nil, {ReadOnly: true}, {AcceptOlder: true}} {
				if d, err := Open(t.Context(), path, o); !errors.Is(err, ErrNotDatabase) {
					t.Errorf("open with %+v: %v, %v, want ErrNotDatabase", o, d, err)
				}
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, data) {
				t.Errorf("the file has changed, or %v", err)
			}
		})
	}
	if d, err := Open(t.Context(), dir, nil); !errors.Is(err, ErrNotDatabase) {
		t.Errorf("open of a directory: %v, %v, want ErrNotDatabase", d, err)
	}
}

// rewrite changes stored pairs behind the database's back, by bbolt itself.
func rewrite(t *testing.T, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: layout.PageSize})
	must(t, err)
	must(t, errors.Join(b.Update(f), b.Close()))
}

// newerBlock is a sound block, as a later version might write it.
func newerBlock(key, value []byte) []byte {
	v := bytes.Clone(value)
	binary.LittleEndian.PutUint16(v[4:], codec.FormatVersion+1)
	stored := binary.LittleEndian.Uint64(v[32:])
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, v[:48])
	binary.LittleEndian.PutUint32(v[48:], crc32.Update(sum, castagnoli, v[64:64+stored]))
	return v
}

// setMeta changes a meta page and gives it the checksum it then should have.
func setMeta(t *testing.T, path string, page int64, change func(meta []byte)) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	meta := make([]byte, 64)
	if _, err := f.ReadAt(meta, page*layout.PageSize+16); err != nil {
		t.Fatal(err)
	}
	change(meta)
	h := fnv.New64a()
	_, _ = h.Write(meta[:56])
	binary.LittleEndian.PutUint64(meta[56:], h.Sum64())
	if _, err := f.WriteAt(meta, page*layout.PageSize+16); err != nil {
		t.Fatal(err)
	}
}

// TestNewerFormat: what a later version has written is refused by that name,
// never taken for damage and never read.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "newer.anndb")
		must(t, damageDB(path))
		return path
	}
	t.Run("catalog block", func(t *testing.T) {
		path := fresh(t)
		rewrite(t, path, func(tx *bbolt.Tx) error {
			b := tx.Bucket(layout.BucketMeta)
			return b.Put(layout.CatalogKey[:], newerBlock(layout.CatalogKey[:], b.Get(layout.CatalogKey[:])))
		})
		if d, err := Open(t.Context(), path, nil); !errors.Is(err, fail.NewerFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("open: %v, %v, want errNewerFormat", d, err)
		}
	})
	t.Run("catalog number", func(t *testing.T) {
		path := fresh(t)
		rewrite(t, path, func(tx *bbolt.Tx) error {
			data := []byte(`{"Format":2,"Collections":{"no":"list"}}`)
			return tx.Bucket(layout.BucketMeta).Put(layout.CatalogKey[:], codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, data))
		})
		if d, err := Open(t.Context(), path, nil); !errors.Is(err, fail.NewerFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("open: %v, %v, want errNewerFormat", d, err)
		}
	})
	t.Run("rows block", func(t *testing.T) {
		path := fresh(t)
		rewrite(t, path, func(tx *bbolt.Tx) error {
			cat, err := layout.ReadCatalog(tx)
			if err != nil {
				return err
			}
			c, err := cat.Find("floats")
			if err != nil {
				return err
			}
			key := codec.Key(c.ID, codec.KindRows, 0)
			b := tx.Bucket(layout.BucketBlocks)
			return b.Put(key[:], newerBlock(key[:], b.Get(key[:])))
		})
		d, err := Open(t.Context(), path, nil)
		must(t, err)
		defer d.Close()
		err = d.View(func(s *Snapshot) error {
			if _, err := s.Collection("bytes").Get(damageKey(1)); err != nil {
				t.Errorf("another collection: %v", err)
			}
			_, _, err := nearest(context.Background(), s.Collection("floats"), Query{Vector: make([]float32, 8192)}, 1, nil)
			return err
		})
		if !errors.Is(err, fail.NewerFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("search: %v, want errNewerFormat", err)
		}
	})
	t.Run("pages", func(t *testing.T) {
		path := fresh(t)
		for page := range int64(2) {
			setMeta(t, path, page, func(meta []byte) { meta[4]++ })
		}
		for _, o := range []*Options{nil, {ReadOnly: true}, {AcceptOlder: true}} {
			if d, err := Open(t.Context(), path, o); !errors.Is(err, fail.NewerFormat) || errors.Is(err, ErrCorrupt) {
				t.Errorf("open with %+v: %v, %v, want errNewerFormat", o, d, err)
			}
		}
	})
}

// TestMetaPages damages one of the two meta pages, and both.
func TestMetaPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.anndb")
	must(t, damageDB(path))
	pristine, err := os.ReadFile(path)
	must(t, err)
	metas := state.ReadMetas(bytes.NewReader(pristine))
	must(t, errors.Join(metas.Err[:]...))
	for page := range 2 {
		data := bytes.Clone(pristine)
		data[page*layout.PageSize+40] ^= 4
		must(t, os.WriteFile(path, data, 0o600))
		if d, err := Open(t.Context(), path, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "AcceptOlder") {
			t.Errorf("meta page %d is damaged: %v, %v, want ErrCorrupt that names AcceptOlder", page, d, err)
		}
		log := &logged{}
		d, err := Open(t.Context(), path, &Options{ReadOnly: true, AcceptOlder: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Errorf("meta page %d is damaged: AcceptOlder: %v", page, err)
			continue
		}
		if !strings.Contains(log.text.String(), "meta page is damaged") {
			t.Errorf("meta page %d: no warning in %q", page, log.text.String())
		}
		s, err := d.Snapshot()
		must(t, err)
		if got, want := s.Generation(), metas.Meta[1-page].TxID; got != want {
			t.Errorf("meta page %d is damaged: generation %d, want %d", page, got, want)
		}
		s.Release()
		// Check must not call the file sound.
		if err := d.Check(context.Background(), nil, nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("meta page %d is damaged: check: %v", page, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	data := bytes.Clone(pristine)
	data[40] ^= 4
	data[layout.PageSize+40] ^= 4
	must(t, os.WriteFile(path, data, 0o600))
	for _, o := range []*Options{nil, {AcceptOlder: true}} {
		if d, err := Open(t.Context(), path, o); !errors.Is(err, ErrCorrupt) {
			t.Errorf("both meta pages are damaged: %v, %v", d, err)
		}
	}
}

// castagnoli is the table of the checksums in the file.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
