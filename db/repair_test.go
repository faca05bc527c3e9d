package db

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/query/lcif"
)

// repairDB is a database of dense rows under a maintained forest and of named
// sparse rows under an inverted index and a label model; some rows are deleted.
func repairDB(t *testing.T, path string) {
	ctx := t.Context()
	d, err := Open(ctx, path, &Options{NoSync: true})
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 9))
	put := func(from, to int) func() error {
		return func() error {
			return d.Update(ctx, func(b *Tx) error {
				for i := from; i < to; i++ {
					key, x := fmt.Appendf(nil, "key-%d", i), make([]float32, 700)
					for j := range x {
						x[j] = float32(rng.NormFloat64())
					}
					r := Row{Key: key, Vector: x, Labels: []string{fmt.Sprint("l", i%3)}, Payload: fmt.Appendf(nil, "payload %d", i)}
					s := Row{Key: key, Labels: r.Labels, Features: []Feature{{fmt.Sprint("f", i%11), 1}, {fmt.Sprint("g", i%13), 2}}}
					if err := errors.Join(b.Collection("dense").Put(r), b.Collection("words").Put(s)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	build := func(coll, name string, o IndexOptions) func() error {
		return func() error {
			_, err := d.Collection(coll).Build(ctx, name, o, nil)
			return err
		}
	}
	maintain := func() error {
		_, err := d.Maintain(ctx, 0, nil)
		return err
	}
	err = errorsOf(
		func() error { return create(ctx, d, "dense", Schema{Dim: 700}) },
		func() error { return create(ctx, d, "words", Schema{Named: true}) },
		put(0, 1100),
		build("dense", "trees", &Forest{NoTune: true, Trees: 4, LeafNeighbors: 10}),
		build("words", "lists", nil),
		build("words", "labels", &LCIF{Params: &lcif.Params{K: 5, Alpha: 1, Beta: 1, Lambda: 0.5}}),
		put(1100, 1130), maintain,
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				for i := range 40 {
					key := fmt.Appendf(nil, "key-%d", 25*i)
					if err := errors.Join(b.Collection("dense").Delete(key), b.Collection("words").Delete(key)); err != nil {
						return err
					}
				}
				return nil
			})
		},
		d.Close,
	)
	must(t, err)
}

// allRows are the rows of a database by collection and key, as text.
func allRows(d *DB) (map[string]string, error) {
	out := map[string]string{}
	err := d.View(func(s *Snapshot) error {
		for _, c := range s.Collections() {
			for r, err := range s.Collection(c.Name).Rows(context.Background(), nil) {
				if err != nil {
					return err
				}
				r.Row = 0
				slices.SortFunc(r.Features, func(a, b Feature) int { return int(a.Value - b.Value) })
				out[c.Name+"/"+string(r.Key)] = fmt.Sprintf("%v %v %v %q", r.Vector, r.Features, r.Labels, r.Payload)
			}
		}
		return nil
	})
	return out, err
}

// blockPlace is the offset in the file of some block of a kind, and its length.
func blockPlace(t *testing.T, path string, bucket []byte, coll string, index string, kind codec.Kind, number uint32) (at int64, n int) {
	d, err := Open(t.Context(), path, &Options{ReadOnly: true})
	must(t, err)
	defer d.Close()
	w := surveyed(t, path)
	c, err := w.cat.Find(coll)
	must(t, err)
	objects := []uint64{c.ID}
	if index != "" {
		objects = c.Index(index).Objects()
	}
	for _, object := range objects {
		key := codec.Key(object, kind, number)
		if p, ok := w.blocks[string(bucket)+string(key[:])]; ok {
			return p.at, p.n
		}
	}
	t.Fatalf("no block %v %d in %s %s", kind, number, coll, index)
	return 0, 0
}

func flipAt(t *testing.T, path string, at int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err1 := f.ReadAt(b, at)
	b[0] ^= 0x10
	_, err2 := f.WriteAt(b, at)
	must(t, errors.Join(err1, err2))
}

// TestRepair damages blocks of three kinds of indexes: repair names them and
// rebuilds them, and the file is clean; so it does with a lost manifest, unless
// its copy is lost, too.
func TestRepair(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pristine := filepath.Join(t.TempDir(), "db")
	repairDB(t, pristine)
	for _, c := range []struct {
		coll, index string
		bucket      []byte
		kind        codec.Kind
		number      uint32
		lost        bool
	}{
		{"dense", "trees", layout.BucketBlocks, codec.KindLeaves, 0, false},
		{"dense", "trees", layout.BucketBlocks, codec.KindNeighbors, 0, false},
		{"words", "lists", layout.BucketBlocks, codec.KindPostings, arrayRowLength, false},
		{"words", "labels", layout.BucketBlocks, codec.KindSimilarity, arraySum, false},
		{"words", "labels", layout.BucketBlocks, codec.KindLabelMatrix, arrayLabelNames, false},
		{"words", "lists", layout.BucketMeta, codec.KindManifest, 0, false},
		{"dense", "trees", layout.BucketMeta, codec.KindManifest, 0, false},
		{"words", "labels", layout.BucketMeta, codec.KindManifest, 0, false},
		{"words", "lists", layout.BucketBlocks, codec.KindManifest, 0, false},
		{"words", "lists", layout.BucketMeta, codec.KindManifest, 0, true},
	} {
		t.Run(fmt.Sprintf("%s %v", c.index, c.kind), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			data, err := os.ReadFile(pristine)
			if err = errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
			at, n := blockPlace(t, path, c.bucket, c.coll, c.index, c.kind, c.number)
			flipAt(t, path, at+int64(codec.HeaderSize+n)/2)
			if c.lost {
				at, n = blockPlace(t, path, layout.BucketBlocks, c.coll, c.index, c.kind, c.number)
				flipAt(t, path, at+int64(codec.HeaderSize+n)/2)
			}
			d, err := Open(t.Context(), path, &Options{NoSync: true})
			must(t, err)
			defer d.Close()
			if err := d.Check(ctx, nil, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("check of the damaged file: %v", err)
			}
			found, err := d.Repair(ctx, nil)
			if len(found) != 1 || found[0].Index != c.index || !errors.Is(found[0].Damage, ErrCorrupt) {
				t.Errorf("found %v", found)
			}
			if c.lost {
				if !errors.Is(err, ErrCorrupt) || found[0].Err == nil {
					t.Errorf("repair without a manifest: %v", err)
				}
				err = d.Collection(c.coll).DropIndex(ctx, c.index)
			}
			if err != nil {
				t.Error(err)
			}
			if err := d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil); err != nil {
				t.Errorf("check after the repair: %v", err)
			}
			if again, err := d.Repair(ctx, nil); err != nil || len(again) != 0 {
				t.Errorf("repair again: %v, %v", again, err)
			}
		})
	}
}

// TestSalvage damages blocks of rows: those rows are listed, all others come
// out as they were, and no deleted one does.
func TestSalvage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pristine := filepath.Join(t.TempDir(), "db")
	repairDB(t, pristine)
	d, err := Open(ctx, pristine, &Options{ReadOnly: true})
	must(t, err)
	want, err := allRows(d)
	per := 1 << rows.Format{Dim: 700}.Shift()
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		coll   string
		bucket []byte
		kind   codec.Kind
		number uint32
		most   int // rows lost at most
		least  int
	}{
		{"nothing", "", nil, 0, 0, 0, 0},
		{"vectors", "dense", layout.BucketBlocks, codec.KindRows, 1, per, per / 2},
		{"keys", "dense", layout.BucketBlocks, codec.KindKeys, 0, 0, 0}, // the key table knows them too
		{"labels", "words", layout.BucketBlocks, codec.KindCold, 0, 1024, 500},
		{"sparse rows", "words", layout.BucketBlocks, codec.KindSparse, 0, 1024, 500},
		{"tail", "words", layout.BucketTail, codec.KindTail, 1120, 1, 1},
		{"tombstones", "dense", layout.BucketSets, codec.KindTombstones, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, to := filepath.Join(dir, "db"), filepath.Join(dir, "new")
			data, err := os.ReadFile(pristine)
			if err = errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
			if c.coll != "" {
				at, n := blockPlace(t, path, c.bucket, c.coll, "", c.kind, c.number)
				flipAt(t, path, at+int64(codec.HeaderSize+n)/2)
			}
			lost := map[string]bool{}
			r, err := Salvage(ctx, path, to, &SalvageOptions{NoIndexes: c.name != "nothing", Lost: func(l LostRow) {
				lost[l.Collection+"/"+string(l.Key)] = true
				if !errors.Is(l.Err, ErrCorrupt) {
					t.Errorf("%v", l)
				}
			}})
			must(t, err)
			if r.Lost > c.most || r.Lost < c.least || r.Rows != len(want)-r.Lost || len(lost) != r.Lost || len(r.Revived) != 0 {
				t.Errorf("%+v, %d of %d rows listed, want %d to %d", r, len(lost), len(want), c.least, c.most)
			}
			d, err := Open(t.Context(), to, nil)
			must(t, err)
			defer d.Close()
			got, err := allRows(d)
			must(t, err)
			for key, row := range want {
				if got[key] != row && !lost[key] {
					t.Fatalf("%s: got %.80s, want %.80s", key, got[key], row)
				}
				delete(got, key)
			}
			if len(got) > 0 {
				t.Errorf("%d rows came from nowhere", len(got))
			}
			if c.name == "nothing" && (len(r.Indexes) != 3 || len(r.NotBuilt) != 0) {
				t.Errorf("indexes %v, not built %v", r.Indexes, r.NotBuilt)
			}
			if err := d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil); err != nil {
				t.Error(err)
			}
			if _, err := Salvage(ctx, path, to, nil); !errors.Is(err, ErrExists) {
				t.Errorf("salvage over a file: %v", err)
			}
		})
	}
}

// TestRestore puts a backup in the place of a database, but no damaged one, not
// over a file unasked, and not under a writer.
func TestRestore(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	path, backup, bad := filepath.Join(dir, "db"), filepath.Join(dir, "backup"), filepath.Join(dir, "bad")
	open := func(path string) *DB {
		d, err := Open(ctx, path, nil)
		must(t, err)
		return d
	}
	put := func(d *DB, key string) {
		err := d.Update(ctx, func(b *Tx) error { return b.Collection("c").Put(Row{Key: []byte(key), Vector: []float32{1}}) })
		must(t, err)
	}
	d := open(path)
	if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	put(d, "old")
	f, err := os.Create(backup)
	if err == nil {
		_, err = d.Backup(ctx, f)
		err = errors.Join(err, f.Close())
	}
	must(t, err)
	put(d, "new")
	if err := Restore(ctx, backup, path, true); !errors.Is(err, ErrLocked) {
		t.Errorf("under a writer: %v", err)
	}
	must(t, d.Close())
	data, err := os.ReadFile(backup)
	if err = errors.Join(err, os.WriteFile(bad, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	at, n := blockPlace(t, bad, layout.BucketTail, "c", "", codec.KindTail, 0)
	flipAt(t, bad, at+int64(n)-20)
	if err := Restore(ctx, bad, path, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged backup: %v", err)
	}
	if err := Restore(ctx, backup, path, false); !errors.Is(err, ErrExists) {
		t.Errorf("over a file: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if err := Restore(stopped, backup, path, true); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	count := func(path string) (n int) {
		d := open(path)
		defer d.Close()
		err := d.View(func(s *Snapshot) (err error) { n, err = s.Collection("c").Count(t.Context(), nil); return err })
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := count(path); n != 2 {
		t.Errorf("%d rows after restores that failed", n)
	}
	for _, to := range []string{path, filepath.Join(dir, "another")} {
		if err := Restore(ctx, backup, to, true); err != nil {
			t.Error(err)
		}
		if n := count(to); n != 1 {
			t.Errorf("%d rows in the restored file", n)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
