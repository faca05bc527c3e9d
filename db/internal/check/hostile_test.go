package check_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// These tests make files that nothing of ours wrote, with right checksums.

// zstdBlock is a block of any kind whose payload is compressed, with a checksum
// that is right.
func zstdBlock(t *testing.T, key [codec.KeySize]byte, payload []byte) []byte {
	t.Helper()
	v, err := codec.EncodeCompressed(key[:], codec.Header{Kind: codec.KindCold}, payload)
	dbtest.Must(t, err)
	_, kind, _ := codec.ParseKey(key[:])
	binary.LittleEndian.PutUint16(v[6:], uint16(kind))
	stored := binary.LittleEndian.Uint64(v[32:])
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Update(crc32.Checksum(key[:], table), table, v[:48]), table, v[codec.HeaderSize:codec.HeaderSize+stored])
	binary.LittleEndian.PutUint32(v[48:], sum)
	return v
}

// hostileBase is a file with the dense collection "d" of n rows in 4 dimensions
// and a sparse one, "s", with two labels; index makes indexes.
func hostileBase(t *testing.T, n int, index func(d *db.DB)) string {
	t.Helper()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
	if err == nil {
		err = errors.Join(dbtest.Create(ctx, d, "d", db.Schema{Dim: 4}), dbtest.Create(ctx, d, "s", db.Schema{Sparse: true}))
	}
	dbtest.Must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	err = d.Update(ctx, func(b *db.Tx) error {
		for i := range n {
			r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%2)}}
			x := r
			for range 4 {
				r.Vector = append(r.Vector, rng.Float32())
			}
			x.Sparse = vector.Sparse{Index: []uint32{uint32(rng.IntN(10)), uint32(10 + rng.IntN(10))}, Value: []float32{1 + rng.Float32(), 1}}
			if err := errors.Join(b.Collection("d").Put(r), b.Collection("s").Put(x)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
	index(d)
	return path
}

// Two segments of one object, and segments that are none, are no index.
func TestHostileSegments(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "s", "p", nil) })
	object, blocks := dbtest.Object(t, path, "s", "p"), dbtest.Blocks(t, path, "s", "p")
	var sparse map[string]any
	for name, segments := range map[string]func() []any{
		"one object twice": func() []any {
			other := maps.Clone(sparse)
			other["Norm"] = 2
			return []any{
				map[string]any{"Object": blocks, "First": 0, "Rows": 59, "Detail": sparse},
				map[string]any{"Object": blocks, "First": 59, "Rows": 1, "Detail": other},
			}
		},
		"the object of the manifest": func() []any {
			return []any{map[string]any{"Object": object, "First": 0, "Rows": 60, "Detail": sparse}}
		},
		"none":       func() []any { return []any{} },
		"no objects": func() []any { return []any{map[string]any{"First": 0, "Rows": 60, "Dead": 60}} },
		"no detail":  func() []any { return []any{map[string]any{"Object": blocks, "First": 0, "Rows": 60}} },
		"no features": func() []any {
			other := maps.Clone(sparse)
			delete(other, "Cols")
			return []any{map[string]any{"Object": blocks, "First": 0, "Rows": 60, "Detail": other}}
		},
	} {
		dbtest.EditJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			if sparse == nil {
				sparse = m["Segments"].([]any)[0].(map[string]any)["Detail"].(map[string]any)
			}
			m["Segments"] = segments()
		})
		dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
			q := vector.Sparse{Index: []uint32{1, 12}, Value: []float32{1, 1}}
			_, _, err := dbtest.Nearest(t.Context(), s.Collection("s"), db.Query{Sparse: q}, 3, &db.SearchOptions{Index: "p"})
			dbtest.MustBeCorrupt(t, name, err)
		})
	}
}

// A number of labels that no leaf has would be an index out of range in maintenance.
func TestHostileLabels(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true}) })
	object := dbtest.Object(t, path, "d", "kd")
	for _, n := range []int{-1, 1 << 20} {
		dbtest.EditJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			m["Segments"].([]any)[0].(map[string]any)["Detail"].(map[string]any)["Trees"].(map[string]any)["Params"].(map[string]any)["LabelsK"] = n
		})
		dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
			_, err := d.Maintain(t.Context(), 0, nil)
			dbtest.MustBeCorrupt(t, fmt.Sprint(n), err)
		})
	}
}

// Given options that name another kind would be given to that kind by maintenance.
func TestHostileGiven(t *testing.T) {
	path := hostileBase(t, 5, func(d *db.DB) { dbtest.Builds(t, d, "d", "kd", &index.Forest{}) })
	object := dbtest.Object(t, path, "d", "kd")
	for _, name := range []string{"postings", "sbt", "none"} {
		dbtest.EditJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			m["Given"].(map[string]any)["Learner"] = name
		})
		dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
			dbtest.Fill(t, d, "d", 0, 40, func(i int) db.Row {
				return db.Row{Key: fmt.Append(nil, "more", i), Vector: []float32{float32(i), 1, 2, 3}}
			})
			_, err := d.Maintain(t.Context(), 0, nil)
			dbtest.MustBeCorrupt(t, name, err)
		})
	}
}

// A small compressed block is no large one: the catalog, manifests and rows not
// yet sealed are never compressed, and no block is decoded beyond what it may
// hold.
func TestHostileCompression(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true}) })
	object := dbtest.Object(t, path, "d", "kd")
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	bomb := bytes.Repeat([]byte("null,"), 32<<20/5)
	row := dbtest.Object(t, path, "d", "")
	for _, c := range []struct {
		name   string
		bucket []byte
		key    [codec.KeySize]byte
	}{
		{"catalog", layout.BucketMeta, layout.CatalogKey},
		{"manifest", layout.BucketMeta, codec.Key(object, codec.KindManifest, 0)},
		{"tail", layout.BucketTail, codec.Key(row, codec.KindTail, 3)},
		{"set", layout.BucketSets, codec.Key(row, codec.KindTombstones, 0)},
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		value := zstdBlock(t, c.key, bomb)
		dbtest.InFile(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(c.bucket).Put(c.key[:], value) })
		var failed error
		used := dbtest.Allocated(func() {
			d, err := dbtest.Open(t.Context(), path, &db.Options{NoSync: true})
			if err != nil {
				failed = err
				return
			}
			defer d.Close()
			_, _, failed = dbtest.Nearest(t.Context(), d.Collection("d"), db.Query{Vector: make([]float32, 4)}, 3,
				&db.SearchOptions{Params: &query.Params{}})
		})
		dbtest.MustBeCorrupt(t, c.name, failed)
		if used > 16<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
	}
}

// A text that is made of tiny objects is refused before any of them is made.
func TestHostileShape(t *testing.T) {
	many := bytes.Repeat([]byte("{},"), 4<<20)
	many = append(append([]byte(`{"Format":1,"Object":1,"Collections":[`), many...), "{}]}"...)
	points := []byte(strings.Replace(string(many), "Collections", "Info\":{\"curve\":{\"points", 1))
	points = append(points[:len(points)-1], "}}}"...)
	var errs [2]error
	used := dbtest.Allocated(func() {
		_, errs[0] = layout.DecodeCatalog(many)
		_, errs[1] = layout.DecodeManifest(points, func(string) kind.Kind { return forestindex.Kind{} })
	})
	for _, err := range errs {
		if !errors.Is(err, db.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
	}
	if used > 1<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}

// A manifest that cannot be decoded is decoded once a generation.
func TestHostileManifestOnce(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true}) })
	key := codec.Key(dbtest.Object(t, path, "d", "kd"), codec.KindManifest, 0)
	dbtest.PutBlock(t, path, layout.BucketMeta, key, append(bytes.Repeat([]byte(" "), 1<<20), "x"...))
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		var first error
		once := func() {
			_, _, err := dbtest.Nearest(t.Context(), s.Collection("d"), db.Query{Vector: make([]float32, 4)}, 3, nil)
			dbtest.MustBeCorrupt(t, "search", err)
			if first == nil {
				first = err
			}
		}
		once()
		if used := dbtest.Allocated(func() {
			for range 100 {
				once()
			}
		}); used > 1<<20 {
			t.Errorf("%d bytes allocated for errors that are known", used)
		}
	})
}

// A manifest without the rotation that sketches of new rows would need is refused before it is used.
func TestHostileRotation(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) {
		dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true})
		dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error {
			return b.Collection("d").Put(db.Row{Key: []byte("new"), Vector: make([]float32, 4)})
		}))
	})
	dbtest.EditJSON(t, path, codec.Key(dbtest.Object(t, path, "d", "kd"), codec.KindManifest, 0), func(m map[string]any) {
		m["Segments"].([]any)[0].(map[string]any)["Detail"].(map[string]any)["Rotation"] = nil
	})
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		_, _, err := dbtest.Nearest(t.Context(), s.Collection("d"), db.Query{Vector: make([]float32, 4)}, 3, nil)
		dbtest.MustBeCorrupt(t, "search", err)
	})
}

// TestHostileNorms: a norm that does not fit its row makes wrong distances, which Check finds.
func TestHostileNorms(t *testing.T) {
	const dim, inChunk, forged = 12_000, 16, 3
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	dbtest.Must(t, dbtest.Create(ctx, d, "c", db.Schema{Dim: dim, Metric: vector.Cosine}))
	norms := make([]float32, inChunk)
	dbtest.Fill(t, d, "c", 0, inChunk, func(i int) db.Row {
		x := make([]float32, dim)
		for j := range x {
			x[j] = float32((i+j)%7) + 0.1
		}
		norms[i] = vector.InverseNorm(x)
		return db.Row{Key: []byte{byte(i)}, Vector: x}
	})
	dbtest.Must(t, errors.Join(dbtest.Check(d), d.Close()))
	id := dbtest.Object(t, path, "c", "")
	norm := norms[forged]
	for stored, want := range map[float32]bool{
		norm * (1 + 1e-5): true, // of a kernel that adds in another order
		norm * 1.01:       false, -norm: false, 0: false, float32(math.NaN()): false,
	} {
		norms[forged] = stored
		dbtest.PutBlock(t, path, layout.BucketBlocks, codec.Key(id, codec.KindNorms, 0), codec.Bytes(norms))
		dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
			if err := dbtest.Check(d); (err == nil) != want || err != nil && !errors.Is(err, db.ErrCorrupt) {
				t.Errorf("inverse norm %g, computed %g: %v", stored, norm, err)
			}
		})
	}
}

// One block with a high number costs no more than itself.
func TestHostileBlockNumber(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) { dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true}) })
	const high = 1<<24 - 1
	key := codec.Key(dbtest.Blocks(t, path, "d", "kd"), codec.KindSketch, high)
	dbtest.PutBlock(t, path, layout.BucketBlocks, key, make([]byte, 64*60))
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		used := dbtest.Allocated(func() {
			_, _, err := dbtest.Nearest(t.Context(), s.Collection("d"), db.Query{Vector: make([]float32, 4)}, 3, &db.SearchOptions{Params: &query.Params{}})
			dbtest.MustBeCorrupt(t, "search", err)
		})
		if used > 8<<20 {
			t.Errorf("%d bytes allocated for a block behind %d that are not there", used, high)
		}
	})
}

// A catalog that claims billions of rows costs Salvage nothing but a line.
func TestHostileSalvage(t *testing.T) {
	path := hostileBase(t, 60, func(*db.DB) {})
	for _, live := range []uint32{60, 1<<31 - 1} {
		dbtest.EditJSON(t, path, layout.CatalogKey, func(m map[string]any) {
			c := m["Collections"].([]any)[0].(map[string]any)
			c["Rows"], c["Live"] = uint32(1<<31-1), live
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		lines := 0
		to := filepath.Join(t.TempDir(), "to")
		r, err := rescue.Salvage(ctx, path, to, &rescue.Options{Lost: func(l rescue.LostRow) {
			if lines++; l.Rows < 1 || !errors.Is(l.Err, db.ErrCorrupt) {
				t.Errorf("%v", l)
			}
		}})
		if err != nil || r.Rows < 60 || lines > 2 {
			t.Errorf("%d live: %+v, %d lines, %v", live, r, lines, err)
		}
	}
}

// Damage that only a decoder sees is ErrCorrupt like any other, and found, not
// stumbled on.
func TestHostileArrays(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) {
		dbtest.Builds(t, d, "d", "kd", &index.Forest{NoTune: true, Learner: "rp"})
		lcif := &index.LCIF{Weight: "tfidf", Params: &lcif.Params{K: 3, Lambda: 0.5}}
		dbtest.Builds(t, d, "s", "l", lcif)
	})
	dense, model := dbtest.Blocks(t, path, "d", "kd"), dbtest.Blocks(t, path, "s", "l")
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	for _, c := range []struct {
		name string
		key  [codec.KeySize]byte
		data []byte
	}{
		{"nodes of half a node", codec.Key(dense, codec.KindNodes, 0), make([]byte, 50)},
		{"names that are no table", codec.Key(model, codec.KindLabelMatrix, 2), []byte("\xff\xff\xff\xff")},
		{"weights of features that are not there", codec.Key(model, codec.KindSimilarity, 8), make([]byte, 4*5000)},
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		dbtest.PutBlock(t, path, layout.BucketBlocks, c.key, c.data)
		d, err := dbtest.Open(t.Context(), path, &db.Options{NoSync: true})
		dbtest.Must(t, err)
		if c.key[7] == byte(dense) {
			_, _, err = dbtest.Nearest(t.Context(), d.Collection("d"), db.Query{Vector: make([]float32, 4)}, 3,
				&db.SearchOptions{Params: &query.Params{}})
			dbtest.MustBeCorrupt(t, c.name+": search", err)
		}
		err = d.Update(t.Context(), func(b *db.Tx) error {
			return errors.Join(
				b.Collection("d").Put(db.Row{Key: []byte("new"), Vector: make([]float32, 4)}),
				b.Collection("s").Put(db.Row{Key: []byte("new"), Labels: []string{"l0"}, Sparse: vector.Sparse{Index: []uint32{600}, Value: []float32{1}}}))
		})
		dbtest.Must(t, err)
		_, err = d.Maintain(t.Context(), 0, nil)
		dbtest.MustBeCorrupt(t, c.name+": maintain", err)
		dbtest.Must(t, d.Close())
	}
}

// Weights that no build writes would make predictions that are not numbers, and a list of features out of
// order predictions without evidence.
func TestHostileFeatures(t *testing.T) {
	path := hostileBase(t, 60, func(d *db.DB) {
		x := db.Row{Key: []byte("far"), Labels: []string{"l0"}}
		x.Sparse = vector.Sparse{Index: []uint32{30}, Value: []float32{1}}
		dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error { return b.Collection("s").Put(x) }))
		dbtest.Builds(t, d, "s", "at", &index.Trees{Kind: "at"})
		dbtest.Builds(t, d, "s", "weighed", &index.Trees{Kind: "at", Weight: "tfidf"})
		dbtest.Builds(t, d, "s", "linear", &index.LabelTree{})
	})
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	floats := make([]float32, 31)
	floats[7] = float32(math.NaN())
	for _, c := range []struct {
		index string
		kind  codec.Kind
		array uint32
		data  []byte
	}{
		{"at", codec.KindBudget, 22, codec.Bytes([]uint32{9, 3})},
		{"at", codec.KindBudget, 22, codec.Bytes([]uint32{3, 31})},
		{"weighed", codec.KindBudget, 20, codec.Bytes(floats)},
		{"weighed", codec.KindBudget, 20, make([]byte, 4*30)},
		{"linear", codec.KindLabelTree, 9, codec.Bytes(floats)},
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		key := codec.Key(dbtest.Blocks(t, path, "s", c.index), c.kind, c.array)
		dbtest.PutBlock(t, path, layout.BucketBlocks, key, c.data)
		dbtest.WithFile(t, path, func(d *db.DB, s *db.Snapshot) {
			q := db.Query{Sparse: vector.Sparse{Index: []uint32{3, 7}, Value: []float32{1, 1}}}
			_, _, err := dbtest.Predict(t.Context(), s.Collection("s"), q, &db.PredictOptions{Index: c.index})
			dbtest.MustBeCorrupt(t, c.index+": predict", err)
			dbtest.MustBeCorrupt(t, c.index+": check", dbtest.Check(d))
		})
	}
}
