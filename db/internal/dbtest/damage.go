package dbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
)

// File is the content of the latest state of a file, as its pages have it.
type File struct {
	Meta    page.Meta
	Catalog *layout.Catalog
	Pairs   []Pair
	Walker  *page.Walker // has walked all buckets
}

// Pair is a key and a value of a bucket, and the place of the value in the file.
type Pair struct {
	Bucket     string
	Key, Value []byte
	At         int64
}

// Find returns the pair with a key.
func (f *File) Find(bucket []byte, key [codec.KeySize]byte) (Pair, bool) {
	for _, p := range f.Pairs {
		if p.Bucket == string(bucket) && string(p.Key) == string(key[:]) {
			return p, true
		}
	}
	return Pair{}, false
}

// ReadFile reads a file, which may be open.
func ReadFile(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	metas := state.ReadMetas(bytes.NewReader(data))
	f := &File{}
	if f.Meta, err = metas.Latest(); err != nil {
		return nil, err
	}
	var problems []error
	in := bytes.NewReader(data)
	f.Walker = page.NewWalker(context.Background(), in, int64(len(data)), f.Meta, page.Visitor{
		Pair: func(bucket, key, value []byte, at int64) {
			f.Pairs = append(f.Pairs, Pair{string(bucket), bytes.Clone(key), bytes.Clone(value), at})
		},
		Report: func(n uint64, err error) { problems = append(problems, fmt.Errorf("page %d: %w", n, err)) },
	})
	f.Walker.Buckets(func(b page.Bucket) { f.Walker.Walk(b, page.Values) })
	f.Walker.Freelist()
	if p, ok := f.Find(layout.BucketMeta, layout.CatalogKey); ok {
		catalog, err := layout.DecodeBlock("", p.Key, p.Value, true)
		if err == nil {
			f.Catalog, err = layout.DecodeCatalog(catalog)
		}
		problems = append(problems, err)
	}
	return f, errors.Join(problems...)
}

// WriteFile writes a file of a test and returns its path.
func WriteFile(t *testing.T, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "written")
	Must(t, os.WriteFile(path, data, 0o600))
	return path
}

// Object returns the number of the object of an index, or of a collection if index is empty.
func Object(t *testing.T, path, coll, index string) uint64 {
	t.Helper()
	f, err := ReadFile(path)
	Must(t, err)
	c, err := f.Catalog.Find(coll)
	Must(t, err)
	if index == "" {
		return c.ID
	}
	return c.Index(index).Object
}

// Blocks returns the number of the object with the blocks of an index's first segment.
func Blocks(t *testing.T, path, coll, index string) uint64 {
	t.Helper()
	f, err := ReadFile(path)
	Must(t, err)
	c, err := f.Catalog.Find(coll)
	Must(t, err)
	r := c.Index(index)
	return append(r.Parts, r.Object)[0]
}

// Any is the number of any block.
const Any = ^uint32(0)

// Block returns the pair of a block of an index, or of a collection if index is empty.
func Block(
	t *testing.T, path string, bucket []byte, coll, index string, kind codec.Kind, number uint32,
) Pair {
	t.Helper()
	f, err := ReadFile(path)
	Must(t, err)
	c, err := f.Catalog.Find(coll)
	Must(t, err)
	objects := []uint64{c.ID}
	if index != "" {
		objects = c.Index(index).Objects()
	}
	for _, p := range f.Pairs {
		if p.Bucket != string(bucket) || len(p.Key) != codec.KeySize {
			continue
		}
		object, k, n := codec.ParseKey(p.Key)
		if k == kind && (n == number || number == Any) && slices.Contains(objects, object) {
			return p
		}
	}
	t.Fatalf("no block %v %d in %s %s", kind, number, coll, index)
	return Pair{}
}

// Flip flips a bit of a file.
func Flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	Must(t, err)
	b := make([]byte, 1)
	_, err1 := f.ReadAt(b, at)
	b[0] ^= 0x10
	_, err2 := f.WriteAt(b, at)
	Must(t, errors.Join(err1, err2, f.Close()))
}

// InFile changes the pairs of a closed database.
func InFile(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err == nil {
		err = errors.Join(b.Update(change), b.Close())
	}
	Must(t, err)
}

// PutBlock stores a block in a closed database.
func PutBlock(t *testing.T, path string, bucket []byte, key [codec.KeySize]byte, payload []byte) {
	t.Helper()
	_, kind, _ := codec.ParseKey(key[:])
	InFile(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).Put(key[:], codec.Encode(key[:], codec.Header{Kind: kind}, payload))
	})
}

// EditJSON changes the catalog or a manifest of a closed database.
func EditJSON(t *testing.T, path string, key [codec.KeySize]byte, edit func(m map[string]any)) {
	t.Helper()
	InFile(t, path, func(tx *bbolt.Tx) error {
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

// MustBeCorrupt fails unless an error is damage that a check has found, rather than a crash that the
// guard has caught.
func MustBeCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	var crash runtime.Error
	if !errors.Is(err, db.ErrCorrupt) || errors.As(err, &crash) {
		t.Errorf("%s: error %v", what, err)
	}
}

// Allocated runs f and returns how many bytes it allocated.
func Allocated(f func()) uint64 {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&now)
	return now.TotalAlloc - before.TotalAlloc
}
