package db

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// The golden files are databases of the current format. A change that cannot read
// them changes the format; until the first release that is allowed, and they are
// written again by
//
//	go test ./db -run TestGolden -write-golden
var writeGolden = flag.Bool("write-golden", false, "write the golden databases")

const goldenDim = 8192 // 16 rows a chunk

// goldenVector is row i of a golden collection. It uses whole numbers and
// halves only, so that its distances are exact on every machine; three
// coordinates vary, so that distances can be told by hand.
func goldenVector(i, dim int, half float32) []float32 {
	x := make([]float32, dim)
	x[0], x[dim-1] = float32(i%7), float32(i*i%50)+half
	if dim > 2 {
		x[1] = float32(i)
	}
	return x
}

// golden makes the database that the golden files hold.
func golden(path string) (err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	put := func(coll string, from, to, dim int, half float32) error {
		return d.Update(ctx, func(b *Tx) error {
			for i := from; i < to; i++ {
				r := Row{
					Key: fmt.Appendf(nil, "key-%d", i), Vector: goldenVector(i, dim, half),
					Payload: fmt.Appendf(nil, "payload of %d", i), Attributes: map[string]any{"n": i, "third": float64(i%3) / 2},
				}
				if i%3 == 0 {
					r.Labels = []string{"every third", fmt.Sprint("label-", i)}
				}
				if err := b.Collection(coll).Put(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	build := &Forest{Trees: 2, Depth: 2, LeafNeighbors: 3, ListNeighbors: 2, Members: true, NoTune: true, Coordinates: 2, Quantize: true, Seed: 1}
	for _, step := range []func() error{
		func() error { return create(ctx, d, "bytes", Schema{Dim: goldenDim}) },
		func() error {
			return create(ctx, d, "floats", Schema{Dim: 3, Metric: vector.Cosine})
		},
		func() error {
			return create(ctx, d, "products", Schema{Dim: 4, Metric: vector.InnerProduct, Float32: true})
		},
		func() error { return put("bytes", 0, 17, goldenDim, 0) }, // one chunk and a tail row
		func() error { return put("floats", 0, 40, 3, 0.5) },      // all in the tail
		func() error { return put("products", 0, 30, 4, 0) },
		func() error {
			return create(ctx, d, "halves", Schema{Dim: kind.MaxDim, Metric: vector.Cosine})
		},
		func() error { return put("halves", 0, 2, kind.MaxDim, 0.5) }, // one chunk of floats, no tail
		func() error { return put("products", 4, 6, 4, 0.5) },         // replaced, so with tombstones
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				return errors.Join(b.Collection("bytes").Delete([]byte("key-3")), b.Collection("floats").Delete([]byte("key-9")))
			})
		},
		func() error {
			return d.Update(ctx, func(b *Tx) error { // a row of a chunk, and one of the tail
				return errors.Join(b.Collection("bytes").SetLabels([]byte("key-1"), "changed"),
					b.Collection("bytes").SetPayload([]byte("key-6"), []byte("changed")),
					b.Collection("floats").SetLabels([]byte("key-12")))
			})
		},
		func() error { _, err := d.Collection("floats").Build(ctx, "kd", build, nil); return err },
		func() error {
			o := *build
			o.Learner, o.NoRotation, o.Coordinates = "rp", true, 0
			_, err := d.Collection("products").Build(ctx, "rp", &o, nil)
			return err
		},
		func() error { return put("floats", 40, 42, 3, 0.5) }, // not covered by the index
		func() error { return d.Compact(ctx, nil) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// unzipped is the path of a copy of a compressed database.
func unzipped(t *testing.T, name string) string {
	t.Helper()
	data, err := unzip(name)
	must(t, err)
	path := filepath.Join(t.TempDir(), "copy.anndb")
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

// openGolden opens a copy of a golden file, which write makes first where golden
// files are to be written.
func openGolden(t *testing.T, file string, write func(path string) error, o *Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), goldenFile(t, file, write), o)
	must(t, err)
	return d
}

// goldenFile is the path of a copy of a golden file.
func goldenFile(t *testing.T, file string, write func(path string) error) string {
	t.Helper()
	name := filepath.Join("testdata", file)
	if *writeGolden {
		must(t, zipDatabase(filepath.Join(t.TempDir(), "new.anndb"), name, write))
	}
	return unzipped(t, name)
}

// zipDatabase makes a database at path and compresses it.
func zipDatabase(path, zipped string, make func(path string) error) error {
	if err := make(path); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(data)
	return errors.Join(err, z.Close(), os.MkdirAll(filepath.Dir(zipped), 0o755), os.WriteFile(zipped, b.Bytes(), 0o644))
}

func unzip(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(z)
	return out, errors.Join(err, z.Close())
}

// goldenModel is what the golden files hold, told without the database.
func goldenModel() model {
	fill := func(o Schema, n int, half float32) *modelColl {
		c := &modelColl{opts: o, rows: map[string]modelRow{}, indexes: map[string]string{}}
		for i := range n {
			goldenPut(c, i, half)
		}
		return c
	}
	m := model{
		"bytes":    fill(Schema{Dim: goldenDim, Metric: vector.L2}, 17, 0),
		"floats":   fill(Schema{Dim: 3, Metric: vector.Cosine}, 42, 0.5),
		"halves":   fill(Schema{Dim: kind.MaxDim, Metric: vector.Cosine}, 2, 0.5),
		"products": fill(Schema{Dim: 4, Metric: vector.InnerProduct, Float32: true}, 30, 0),
	}
	goldenPut(m["products"], 4, 0.5)
	goldenPut(m["products"], 5, 0.5)
	delete(m["bytes"].rows, "key-3")
	delete(m["floats"].rows, "key-9")
	change := func(coll, key string, f func(r *modelRow)) {
		r := m[coll].rows[key]
		f(&r)
		m[coll].rows[key] = r
	}
	change("bytes", "key-1", func(r *modelRow) { r.labels = []string{"changed"} })
	change("bytes", "key-6", func(r *modelRow) { r.payload = []byte("changed") })
	change("floats", "key-12", func(r *modelRow) { r.labels = nil })
	m["floats"].indexes["kd"], m["products"].indexes["rp"] = string(forest.KD), string(forest.RP)
	return m
}

func goldenPut(c *modelColl, i int, half float32) {
	r := modelRow{vec: goldenVector(i, c.opts.Dim, half), payload: fmt.Appendf(nil, "payload of %d", i)}
	if i%3 == 0 {
		r.labels = []string{"every third", fmt.Sprint("label-", i)}
	}
	c.put(fmt.Sprintf("key-%d", i), r)
}

// TestGolden opens the golden file of dense collections, first read-only, and
// asks it everything.
func TestGolden(t *testing.T) {
	path := goldenFile(t, "dense.anndb.gz", golden)
	for _, readOnly := range []bool{true, false} {
		d, err := Open(t.Context(), path, &Options{ReadOnly: readOnly})
		must(t, err)
		err = d.View(func(s *Snapshot) error { return mustEqual(s, goldenModel(), 12) })
		if err := errors.Join(err, mustCheck(d)); err != nil {
			t.Error(err)
		}
		if err := d.View(goldenAnswers); err != nil {
			t.Error(err)
		}
		attributed{}.verifyRange(t, d, "bytes", "n", attribute.AtMost(int64(16)))
		attributed{}.verifyRange(t, d, "bytes", "third", attribute.Equal(0.5))
		if !readOnly {
			// And it goes on as a database.
			if err := putGolden(d); err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func putGolden(d *DB) error {
	err := d.Update(context.Background(), func(b *Tx) error {
		for i := 17; i < 40; i++ { // seals the chunk that the tail row began
			if err := b.Collection("bytes").Put(Row{Key: fmt.Appendf(nil, "key-%d", i), Vector: goldenVector(i, goldenDim, 0)}); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, mustCheck(d))
}

// goldenAnswers checks answers worked out by hand, with tombstones, labels and
// the tail taken into account.
func goldenAnswers(s *Snapshot) error {
	ctx := context.Background()
	for _, c := range []struct {
		coll string
		q    []float32
		o    SearchOptions
		want string
	}{
		// Rows differ from row 2 = (2, 2, …, 4) in their first, second and last
		// coordinates: 1 by (1, 1, 3), 0 by (2, 2, 4), 8 by (1, 6, 10); 3 is gone.
		{"bytes", goldenVector(2, goldenDim, 0), SearchOptions{}, "key-2 0; key-1 3.3166249; key-0 4.8989797"},
		{"bytes", goldenVector(2, goldenDim, 0), SearchOptions{Where: HasLabel("label-0", "label-3")}, "key-0 4.8989797"},
		// The tail row, 16 = (2, 16, …, 6), and what lies about it.
		{"bytes", goldenVector(16, goldenDim, 0), SearchOptions{Where: KeyPrefix([]byte("key-16"))}, "key-16 0"},
		// Dot products with (0, 1, 0, 0) are row numbers.
		{"products", []float32{0, 1, 0, 0}, SearchOptions{Index: Flat}, "key-29 -29; key-28 -28; key-27 -27"},
		{"products", []float32{0, 1, 0, 0}, SearchOptions{Index: "rp", Params: &query.Params{Method: query.Lookup, Extra: 6, NoWiden: true}}, "key-29 -29; key-28 -28; key-27 -27"},
		// Rows 4 and 5 were replaced by others that end in a half.
		{"products", []float32{0, 0, 0, 1}, SearchOptions{Index: Flat, Where: KeyPrefix([]byte("key-4"))}, "key-4 -16.5"},
	} {
		k := strings.Count(c.want, ";") + 1
		hits, _, err := nearest(ctx, s.Collection(c.coll), Query{Vector: c.q}, k, &c.o)
		if err != nil {
			return fmt.Errorf("search of %q: %w", c.coll, err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, fmt.Sprintf("%s %v", h.Key, h.Distance))
		}
		if strings.Join(got, "; ") != c.want {
			return fmt.Errorf("search of %q with %+v: %q, want %q", c.coll, c.o, got, c.want)
		}
	}
	return nil
}
