package salvage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

const dim = 500

// saved writes a database of dense rows under a forest and of named rows under an inverted index and a label
// model: sealed rows and others, deleted and changed ones. It returns its bytes and its rows.
func saved(t *testing.T) (data []byte, want map[string]string) {
	t.Helper()
	if savedRows != nil {
		return savedFile, savedRows
	}
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "db")
	d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 9))
	put := func(from, to int) {
		var dense, words []db.Row
		for i := from; i < to; i++ {
			r := db.Row{Key: fmt.Append(nil, "key-", i), Labels: []string{fmt.Sprint("l", i%3)}, Payload: fmt.Append(nil, "payload ", i),
				Attributes: map[string]any{"price": i}, ExpiresAt: time.Unix(5e9, 0).UTC()}
			s := r
			s.Features = []vector.Feature{
				{Name: fmt.Sprint("f", i%11), Value: 1}, {Name: fmt.Sprint("g", i%13), Value: 2},
			}
			for range dim {
				r.Vector = append(r.Vector, float32(rng.NormFloat64()))
			}
			dense, words = append(dense, r), append(words, s)
		}
		dbtest.Must(t, errors.Join(dbtest.Put(d, "dense", dense...), dbtest.Put(d, "words", words...)))
	}
	dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "dense", db.Schema{Dim: dim}), dbtest.Create(ctx, d, "words", db.Schema{Named: true})))
	put(0, 1100)
	dbtest.Builds(t, d, "dense", "trees", &index.Forest{Learner: "rp", NoRotation: true, NoSketches: true, NoTune: true, Trees: 4, LeafNeighbors: 10})
	dbtest.Builds(t, d, "words", "lists", nil)
	dbtest.Builds(t, d, "words", "labels", &index.LCIF{Params: &lcif.Params{K: 5, Alpha: 1, Beta: 1, Lambda: 0.5}})
	put(1100, 1130)
	for i := range 40 {
		key := fmt.Sprint("key-", 25*i)
		dbtest.Must(t, errors.Join(dbtest.Delete(d, "dense", key), dbtest.Delete(d, "words", key)))
	}
	for i := range 20 {
		dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection("words")
			return errors.Join(c.SetLabels([]byte("key-5"), fmt.Sprint("changed ", i)), c.SetLabels([]byte("key-1129"), "tail"))
		}))
	}
	want, err = dbtest.AllRows(d)
	dbtest.Must(t, dbtest.Closed(d, err))
	data, err = os.ReadFile(path)
	dbtest.Must(t, err)
	savedFile, savedRows = data, want
	return data, want
}

// What saved has written.
var (
	savedFile []byte
	savedRows map[string]string
)

// salvaged runs Salvage and returns the rows that came out, and the keys that are listed as lost.
func salvaged(t *testing.T, path string, o rescue.Options) (r rescue.Report, got map[string]string, lost map[string]bool) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	lost = map[string]bool{}
	o.Lost = func(l rescue.LostRow) {
		lost[l.Collection+"/"+string(l.Key)] = true
		if !errors.Is(l.Err, db.ErrCorrupt) {
			t.Errorf("%v", l)
		}
	}
	r, err := rescue.Salvage(t.Context(), path, to, &o)
	dbtest.Must(t, err)
	if _, err := rescue.Salvage(t.Context(), path, to, nil); !errors.Is(err, db.ErrExists) {
		t.Errorf("salvage over a file: %v", err)
	}
	d := dbtest.OpenAt(t, to, nil)
	got, err = dbtest.AllRows(d)
	dbtest.Must(t, errors.Join(err, dbtest.Check(d)))
	if len(got) != r.Rows {
		t.Errorf("%d rows, %+v", len(got), r)
	}
	return r, got, lost
}

// differ returns how many rows are not as they were.
func differ(got, want map[string]string) (n int) {
	for key, row := range want {
		if got[key] != row {
			n++
		}
	}
	return n + max(0, len(got)-len(want))
}

func TestSalvage(t *testing.T) {
	data, want := saved(t)
	at := func(bucket []byte, coll, index string, kind codec.Kind, number uint32) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			p := dbtest.Block(t, path, bucket, coll, index, kind, number)
			dbtest.Flip(t, path, p.At+int64(codec.HeaderSize+len(p.Value))/2)
		}
	}
	catalogs := func(flip int) func(t *testing.T, path string) { // every one that is in the file
		begin := codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, nil)[:8]
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			dbtest.Must(t, err)
			for at := 0; ; {
				n := bytes.Index(data[at:], layout.CatalogKey[:])
				if n < 0 {
					break
				}
				if at += n + len(layout.CatalogKey); bytes.HasPrefix(data[at:], begin) {
					data[at+flip] ^= 1
				}
			}
			dbtest.Must(t, os.WriteFile(path, data, 0o600))
		}
	}
	metas := func(t *testing.T, path string) {
		dbtest.Flip(t, path, 40)
		dbtest.Flip(t, path, layout.PageSize+40)
	}
	per := 1 << rows.Format{Dim: dim}.Shift()
	for _, c := range []struct {
		name        string
		damage      func(t *testing.T, path string)
		least, most int  // rows lost
		searched    bool // pages that no bucket leads to
		none        bool // nothing comes out
		indexes     bool // are built again
	}{
		{name: "nothing", damage: func(*testing.T, string) {}, indexes: true},
		{name: "vectors", damage: at(layout.BucketBlocks, "dense", "", codec.KindRows, 1), least: per / 2, most: per},
		{name: "keys, which the key table has, too", damage: at(layout.BucketBlocks, "dense", "", codec.KindKeys, 0)},
		{name: "labels", damage: at(layout.BucketBlocks, "words", "", codec.KindCold, 0), least: 500, most: 1024},
		{name: "sparse rows", damage: at(layout.BucketBlocks, "words", "", codec.KindSparse, 0), least: 500, most: 1024},
		{name: "tail", damage: at(layout.BucketTail, "dense", "", codec.KindTail, 1110), least: 1, most: 1},
		{name: "a change", damage: at(layout.BucketTail, "words", "", codec.KindChange, 5), least: 1, most: 1},
		{name: "deleted rows", damage: at(layout.BucketSets, "dense", "", codec.KindTombstones, 0)},
		{name: "a manifest, which is there twice", damage: at(layout.BucketMeta, "dense", "trees", codec.KindManifest, 0), indexes: true},
		{name: "meta pages", damage: metas, searched: true},
		{name: "roots", searched: true, damage: func(t *testing.T, path string) {
			f, err := dbtest.ReadFile(path)
			dbtest.Must(t, err)
			dbtest.Flip(t, path, f.Meta.Offset(f.Meta.Root)+8)
			data, err := os.ReadFile(path)
			dbtest.Must(t, err)
			clear(data[:2*layout.PageSize])
			dbtest.Must(t, os.WriteFile(path, data, 0o600))
		}},
		{name: "all catalogs", damage: catalogs(codec.HeaderSize), none: true},
		{name: "everything", damage: func(t *testing.T, path string) { metas(t, path); catalogs(0)(t, path) }, none: true},
		{name: "zeros", damage: func(t *testing.T, path string) {
			dbtest.Must(t, os.WriteFile(path, make([]byte, len(data)), 0o600))
		}, none: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := dbtest.WriteFile(t, data)
			c.damage(t, path)
			if c.none {
				if _, err := rescue.Salvage(t.Context(), path, path+".new", nil); !errors.Is(err, db.ErrCorrupt) {
					t.Error(err)
				}
				return
			}
			r, got, lost := salvaged(t, path, rescue.Options{NoIndexes: !c.indexes})
			if r.Lost < c.least || r.Lost > c.most || len(lost) != r.Lost || (r.Searched != nil) != c.searched || (len(r.Revived) > 0) != c.searched {
				t.Errorf("%+v, %d rows listed, want %d to %d", r, len(lost), c.least, c.most)
			}
			if c.indexes && (len(r.Indexes) != 3 || len(r.NotBuilt) != 0) {
				t.Errorf("indexes %v, not built %v", r.Indexes, r.NotBuilt)
			}
			left := maps.Clone(want)
			maps.DeleteFunc(left, func(key, _ string) bool { return lost[key] })
			if n := differ(got, left); n > 0 {
				t.Errorf("%d of %d rows are not as they were, %d came out", n, len(left), len(got))
			}
		})
	}
}

// TestSalvageOlderCatalog: the state before the last commit has the catalog, too.
func TestSalvageOlderCatalog(t *testing.T) {
	data, want := saved(t)
	path := dbtest.WriteFile(t, data)
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) { dbtest.Must(t, dbtest.Delete(d, "words", "key-7")) })
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	p, _ := f.Find(layout.BucketMeta, layout.CatalogKey)
	dbtest.Flip(t, path, p.At+int64(len(p.Value))/2)
	r, got, _ := salvaged(t, path, rescue.Options{NoIndexes: true})
	if n := differ(got, want); r.Lost != 0 || r.Searched != nil || n > 0 {
		t.Errorf("%+v, %d rows are not as they were", r, n)
	}
}

// TestSalvageCut cuts the file off and clears pages at random: what comes out under a key was put under it,
// where deleted rows may come back. Most rows of a compacted file are saved without what follows its catalog.
func TestSalvageCut(t *testing.T) {
	data, want := saved(t)
	puts := map[string][]string{}
	for key, row := range want {
		_, key, _ := strings.Cut(key, "/")
		puts[key] = append(puts[key], row)
	}
	rng, none := rand.New(rand.NewPCG(1, 7)), 0
	for _, share := range []float64{1, 0.95, 0.6} {
		damaged := slices.Clone(data[:int(share*float64(len(data)))])
		for range 3 {
			page := rng.IntN(len(damaged) / layout.PageSize)
			clear(damaged[page*layout.PageSize : (page+1)*layout.PageSize])
		}
		clear(damaged[:2*layout.PageSize])
		path := dbtest.WriteFile(t, damaged)
		if _, err := rescue.Salvage(t.Context(), path, path+".new", &rescue.Options{NoIndexes: true}); errors.Is(err, db.ErrCorrupt) {
			none++ // every catalog is in what is missing
			continue
		}
		_, got, _ := salvaged(t, path, rescue.Options{NoIndexes: true})
		right := 0
		for key, row := range got {
			_, key, _ := strings.Cut(key, "/")
			if slices.Contains(puts[key], row) {
				right++
			} else if puts[key] != nil && key != "key-5" && key != "key-1129" { // which have former labels
				t.Errorf("%.0f %% of the file: key %s has %.80s", 100*share, key, row)
			}
		}
		if right == 0 && share > 0.9 {
			t.Errorf("nothing came out of %.0f %% of the file", 100*share)
		}
	}
	if none > 2 {
		t.Error("nothing came out of any file")
	}
	path := dbtest.WriteFile(t, data)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := rescue.Salvage(ctx, path, path+".new", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
		dbtest.Must(t, errors.Join(d.Collection("dense").DropIndex(t.Context(), "trees"), d.Drop(t.Context(), "words"), d.Compact(t.Context(), nil)))
	})
	compacted, err := os.ReadFile(path)
	dbtest.Must(t, err)
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	catalog, _ := f.Find(layout.BucketMeta, layout.CatalogKey)
	// The page of the catalog is read only if it is complete.
	end := min((int(catalog.At)+len(catalog.Value)+layout.PageSize-1)/layout.PageSize*layout.PageSize, len(compacted))
	_, got, _ := salvaged(t, dbtest.WriteFile(t, compacted[:end]), rescue.Options{})
	for key, row := range got {
		if want[key] != row {
			t.Errorf("%s is not as it was", key)
		}
	}
	if len(got) < 1090*2/5 {
		t.Errorf("%d of 1090 rows came out of the compacted file up to its catalog", len(got))
	}
}
