package dbtest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/vector"
)

// Open is db.Open of a database that maintains itself only if its options say so.
func Open(ctx context.Context, path string, o *db.Options) (*db.DB, error) {
	var with db.Options
	if o != nil {
		with = *o
	}
	if with.Maintenance == nil {
		with.Maintenance = &maintenance.Policy{Manual: true}
	}
	return db.Open(ctx, path, &with)
}

// OpenTemp opens a new database that is closed at the end of the test.
func OpenTemp(t *testing.T, o *db.Options) *db.DB {
	t.Helper()
	return OpenAt(t, filepath.Join(t.TempDir(), "test.anndb"), o)
}

// OpenAt opens a database that is closed at the end of the test.
func OpenAt(t *testing.T, path string, o *db.Options) *db.DB {
	t.Helper()
	d, err := Open(t.Context(), path, o)
	Must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// WithFile runs f on a database that is open until then.
func WithFile(t *testing.T, path string, f func(d *db.DB, s *db.Snapshot)) {
	t.Helper()
	d, err := Open(t.Context(), path, &db.Options{NoSync: true})
	Must(t, err)
	defer d.Close()
	Must(t, d.View(func(s *db.Snapshot) error { f(d, s); return nil }))
}

// Check runs DB.Check and makes what it finds one error.
func Check(d *db.DB) error {
	var found []string
	err := d.Check(context.Background(), func(p *db.CorruptError) { found = append(found, p.Error()) }, nil)
	if err != nil {
		return fmt.Errorf("check: %w: %s", err, strings.Join(found, "; "))
	}
	return nil
}

// LeavesNothing checks that only the database is in its directory, that no object is marked, and that
// every stored object belongs to something. Nothing may be committed at the same time.
func LeavesNothing(d *db.DB) error {
	entries, err := os.ReadDir(filepath.Dir(d.Path()))
	if err != nil {
		return err
	}
	for _, e := range entries {
		// A kill during creation may leave its temporary file: no process knows whether another one
		// is about to link it.
		if e.Name() != filepath.Base(d.Path()) && !strings.Contains(e.Name(), ".new-") {
			return fmt.Errorf("left behind: %s", e.Name())
		}
	}
	f, err := ReadFile(d.Path())
	if err != nil {
		return err
	}
	known := map[uint64]bool{0: true}
	for _, c := range f.Catalog.Collections {
		known[c.ID] = true
		for _, x := range c.Indexes {
			for _, object := range x.Objects() {
				known[object] = true
			}
		}
	}
	for _, p := range f.Pairs {
		if p.Bucket == string(layout.BucketLabels) {
			object, err := layout.LabelObject("", p.Key, p.Value)
			if err != nil {
				return err
			}
			known[object] = true
		}
	}
	for _, p := range f.Pairs {
		switch p.Bucket {
		case string(layout.BucketBlocks), string(layout.BucketSets), string(layout.BucketTail),
			string(layout.BucketMeta):
			object, kind, _ := codec.ParseKey(p.Key)
			if !known[object] {
				return fmt.Errorf("orphan of object %d, section %v in bucket %q", object, kind, p.Bucket)
			}
			if p.Bucket == string(layout.BucketMeta) && object != 0 && kind != codec.KindManifest {
				return fmt.Errorf("object %d is still marked", object)
			}
		}
	}
	return nil
}

// RowTexts are the rows of a collection without their numbers, in order, with checksums of vectors.
func RowTexts(s *db.Snapshot, coll string) (out []string, err error) {
	for r, err := range s.Collection(coll).Rows(context.Background(), nil) {
		if err != nil {
			return nil, err
		}
		f := slices.SortedFunc(slices.Values(r.Features), func(a, b vector.Feature) int {
			return strings.Compare(a.Name, b.Name)
		})
		sum := crc32.ChecksumIEEE(codec.Bytes(r.Vector))
		out = append(out, fmt.Sprintf("%s %08x %v %v %q %q %q %v %v", r.Key, sum, r.Sparse, f, r.Text,
			r.Labels, r.Payload, r.Attributes, r.ExpiresAt))
	}
	return out, nil
}

// AllRows are the rows of a database by collection and key, as text.
func AllRows(d *db.DB) (map[string]string, error) {
	out := map[string]string{}
	err := d.View(func(s *db.Snapshot) error {
		for _, c := range s.Collections() {
			texts, err := RowTexts(s, c.Name)
			if err != nil {
				return err
			}
			for _, text := range texts {
				key, row, _ := strings.Cut(text, " ")
				out[c.Name+"/"+key] = row
			}
		}
		return nil
	})
	return out, err
}

// WaitFor waits until a condition holds, for a minute at most.
func WaitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Closed joins errors with that of closing a database.
func Closed(d *db.DB, errs ...error) error { return errors.Join(append(errs, d.Close())...) }
