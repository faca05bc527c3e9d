package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
)

// salvaged runs Salvage and returns the rows that came out.
func salvaged(t *testing.T, path string, o *SalvageOptions) (SalvageReport, map[string]string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	r, err := Salvage(t.Context(), path, to, o)
	must(t, err)
	d, err := Open(t.Context(), to, nil)
	must(t, err)
	defer d.Close()
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
	rows, err := allRows(d)
	must(t, err)
	if len(rows) != r.Rows {
		t.Errorf("%d rows, %+v", len(rows), r)
	}
	return r, rows
}

// wrecked is the database of these tests, and its rows.
var wrecked struct {
	once sync.Once
	data []byte
	want map[string]string
}

// wreckDB is the bytes of that database, which is written once, and its rows.
func wreckDB(t *testing.T) (data []byte, want map[string]string) {
	t.Helper()
	wrecked.once.Do(func() {
		path := filepath.Join(t.TempDir(), "db")
		repairDB(t, path)
		d, err := Open(t.Context(), path, nil)
		must(t, err)
		if wrecked.want, err = allRows(d); err == nil {
			err = d.Close()
		}
		must(t, err)
		if wrecked.data, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	})
	if wrecked.want == nil {
		t.Fatal("the database could not be written")
	}
	return wrecked.data, wrecked.want
}

func write(t *testing.T, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "damaged")
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

// same reports the rows that are not as they were.
func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	wrong := 0
	for key, row := range want {
		if got[key] != row {
			wrong++
		}
	}
	if wrong > 0 || len(got) != len(want) {
		t.Errorf("%d of %d rows are not as they were, %d came out", wrong, len(want), len(got))
	}
}

// TestSalvageSecondCopies damages what is in the file twice: an index is built
// as the copy of its manifest says, and the state before the last commit has the
// catalog.
func TestSalvageSecondCopies(t *testing.T) {
	t.Parallel()
	data, want := wreckDB(t)
	path := write(t, data)
	at, n := blockPlace(t, path, layout.BucketMeta, "dense", "trees", codec.KindManifest, 0)
	flipAt(t, path, at+int64(n)/2)
	r, got := salvaged(t, path, nil)
	if len(r.Indexes) != 3 || len(r.NotBuilt) != 0 || r.Searched != nil {
		t.Errorf("without a manifest: %+v", r)
	}
	same(t, got, want)

	path = write(t, data)
	d, err := Open(t.Context(), path, nil)
	must(t, err)
	err = d.Update(t.Context(), func(b *Tx) error { return b.Collection("words").Delete([]byte("key-7")) })
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	w := surveyed(t, path)
	p := w.blocks[string(layout.BucketMeta)+string(layout.CatalogKey[:])]
	flipAt(t, path, p.at+int64(p.n)/2)
	r, got = salvaged(t, path, &SalvageOptions{NoIndexes: true})
	if r.Lost != 0 || r.Searched != nil || len(r.Revived) != 0 {
		t.Errorf("without the last catalog: %+v", r)
	}
	same(t, got, want)
}

// TestSalvageSearches damages catalogs, meta pages and the tree's root: all rows
// are found by searching, those deleted stay so. Without any catalog nothing is.
func TestSalvageSearches(t *testing.T) {
	t.Parallel()
	data, want := wreckDB(t)
	begin := codec.Encode(layout.CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, nil)[:8]
	// Every catalog that was ever written and is still in the file.
	catalogs := func(data []byte) (places []int) {
		for at := 0; ; {
			n := bytes.Index(data[at:], layout.CatalogKey[:])
			if n < 0 {
				return places
			}
			if at += n + len(layout.CatalogKey); bytes.HasPrefix(data[at:], begin) {
				places = append(places, at)
			}
		}
	}
	size := int(latestOf(t, data).PageSize)
	cases := map[string]func(data []byte) (lost bool){
		"catalogs": func(data []byte) bool {
			for _, at := range catalogs(data) {
				data[at+codec.HeaderSize] ^= 1
			}
			return true
		},
		"meta pages": func(data []byte) bool {
			data[40] ^= 1
			data[size+40] ^= 1
			return false
		},
		"roots": func(data []byte) bool {
			metas := state.ReadMetas(bytes.NewReader(data))
			for _, m := range metas.Valid() {
				data[m.Offset(m.Root)+8] ^= 0xff
			}
			return false
		},
		"everything": func(data []byte) bool {
			clear(data[:2*size])
			for _, at := range catalogs(data) {
				data[at] ^= 1
			}
			return true
		},
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			damaged := slices.Clone(data)
			if damage(damaged) {
				path := write(t, damaged)
				if _, err := Salvage(t.Context(), path, path+".new", nil); !errors.Is(err, ErrCorrupt) {
					t.Errorf("without a catalog: %v", err)
				}
				return
			}
			r, got := salvaged(t, write(t, damaged), &SalvageOptions{NoIndexes: true})
			if r.Lost != 0 || !errors.Is(r.Searched, ErrCorrupt) || len(r.Revived) != 2 {
				t.Errorf("%+v", r)
			}
			same(t, got, want)
		})
	}
	t.Run("nothing left", func(t *testing.T) {
		path := write(t, make([]byte, len(data)))
		if _, err := Salvage(t.Context(), path, path+".new", nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}

// TestSalvageCut cuts the file off and clears pages at random, those of the
// catalog among them: what comes out under a key is what was put under it, if
// deleted rows may come back.
func TestSalvageCut(t *testing.T) {
	t.Parallel()
	data, want := wreckDB(t)
	puts := map[string][]string{}
	for key, row := range want {
		_, key, _ := strings.Cut(key, "/")
		puts[key] = append(puts[key], row)
	}
	rng := rand.New(rand.NewPCG(1, 7))
	for _, share := range []float64{1, 0.95, 0.6} {
		damaged := slices.Clone(data[:int(share*float64(len(data)))])
		for range 3 {
			page := rng.IntN(len(damaged) / layout.PageSize)
			clear(damaged[page*layout.PageSize : (page+1)*layout.PageSize])
		}
		clear(damaged[:2*layout.PageSize])
		path := write(t, damaged)
		if _, err := Salvage(t.Context(), path, path+".new", &SalvageOptions{NoIndexes: true}); share < 0.9 && errors.Is(err, ErrCorrupt) {
			continue // every catalog is in what was cut off
		}
		r, got := salvaged(t, path, &SalvageOptions{NoIndexes: true})
		right := 0
		for key, row := range got {
			_, key, _ := strings.Cut(key, "/")
			switch {
			case slices.Contains(puts[key], row):
				right++
			case puts[key] != nil:
				t.Errorf("%.0f %% of the file: key %s has %.80s", 100*share, key, row)
			}
		}
		t.Logf("%.0f %% of the file: %d rows of %d are as they were, %d came out, %d are known to be lost", 100*share, right, len(want), len(got), r.Lost)
		if right == 0 && share > 0.9 {
			t.Errorf("nothing came out of %.0f %% of the file", 100*share)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	path := write(t, data)
	if _, err := Salvage(ctx, path, path+".new", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A compaction writes keys, labels and payloads before vectors and indexes, so most rows whose vectors are
// in a file that has lost its end are saved.
func TestSalvageCutCompacted(t *testing.T) {
	t.Parallel()
	const n, dim = 3000, 256
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(t.Context(), path, &Options{NoSync: true})
	must(t, err)
	must(t, create(t.Context(), d, "c", Schema{Dim: dim}))
	rng := rand.New(rand.NewPCG(1, 2))
	_, err = d.Collection("c").Load(t.Context(), func(yield func(Row, error) bool) {
		for i := range n {
			r := Row{Key: fmt.Append(nil, i), Vector: make([]float32, dim), Labels: []string{fmt.Sprint(i % 7)}}
			for j := range r.Vector {
				r.Vector[j] = rng.Float32()
			}
			if !yield(r, nil) {
				return
			}
		}
	}, nil)
	must(t, err)
	must(t, d.Compact(t.Context(), nil))
	want, err := allRows(d)
	must(t, err)
	must(t, d.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	_, got := salvaged(t, write(t, data[:len(data)*6/10]), nil)
	for key, row := range got {
		if want[key] != row {
			t.Errorf("%s is not as it was", key)
		}
	}
	if len(got) < n*2/5 {
		t.Errorf("%d of %d rows came out of 60 %% of the file", len(got), n)
	}
}

// surveyedFile is the catalog of a file, and the places of its values by bucket and key.
type surveyedFile struct {
	cat    *layout.Catalog
	blocks map[string]valuePlace
}

// valuePlace is the offset of a value in the file, and its length.
type valuePlace struct {
	at int64
	n  int
}

// surveyed reads the pages of the latest state of a file.
func surveyed(t *testing.T, path string) surveyedFile {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	metas := state.ReadMetas(bytes.NewReader(data))
	m, err := metas.Latest()
	must(t, err)
	s := surveyedFile{blocks: map[string]valuePlace{}}
	w := page.NewWalker(t.Context(), bytes.NewReader(data), int64(len(data)), m, page.Visitor{
		Pair: func(bucket, key, value []byte, at int64) {
			s.blocks[string(bucket)+string(key)] = valuePlace{at, len(value)}
			if string(bucket) != string(layout.BucketMeta) || string(key) != string(layout.CatalogKey[:]) {
				return
			}
			catalog, err := layout.DecodeBlock("", key, value, true)
			if err == nil {
				s.cat, err = layout.DecodeCatalog(catalog)
			}
			must(t, err)
		},
		Report: func(_ uint64, err error) { t.Fatal(err) },
	})
	w.Buckets(func(b page.Bucket) { w.Walk(b, page.Values) })
	return s
}
