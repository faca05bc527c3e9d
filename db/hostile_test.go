package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// These tests make files that nothing of ours wrote, with right checksums.

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

// zstdBlock is a block of any kind whose payload is compressed, with a checksum
// that is right.
func zstdBlock(t *testing.T, key [codec.KeySize]byte, payload []byte) []byte {
	t.Helper()
	v, err := codec.EncodeCompressed(key[:], codec.Header{Kind: codec.KindCold}, payload)
	must(t, err)
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
func hostileBase(t *testing.T, n int, index func(d *DB)) string {
	t.Helper()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(ctx, path, &Options{NoSync: true})
	if err == nil {
		err = errors.Join(create(ctx, d, "d", Schema{Dim: 4}), create(ctx, d, "s", Schema{Sparse: true}))
	}
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	err = d.Update(ctx, func(b *Tx) error {
		for i := range n {
			r := Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%2)}}
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
	must(t, err)
	index(d)
	return path
}

// builds makes an index.
func builds(t *testing.T, d *DB, coll, name string, o IndexOptions) {
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

// Two segments of one object, and segments that are none, are no index.
func TestHostileSegments(t *testing.T) {
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "s", "p", nil) })
	object := objectIn(t, path, "s", "p")
	var sparse map[string]any
	for name, segments := range map[string]func() []any{
		"one object twice": func() []any {
			other := maps.Clone(sparse)
			other["Stride"] = 64
			return []any{
				map[string]any{"Object": object, "First": 0, "Rows": 59, "Index": sparse},
				map[string]any{"Object": object, "First": 59, "Rows": 1, "Index": other},
			}
		},
		"none": func() []any { return []any{} },
		"no lists": func() []any {
			other := maps.Clone(sparse)
			delete(other, "Compact")
			return []any{map[string]any{"Object": object, "First": 0, "Rows": 60, "Index": other}}
		},
	} {
		editJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			d := m["Detail"].(map[string]any)
			if sparse == nil {
				sparse = d["Segments"].([]any)[0].(map[string]any)["Index"].(map[string]any)
			}
			d["Segments"] = segments()
		})
		withFile(t, path, func(_ *DB, s *Snapshot) {
			q := vector.Sparse{Index: []uint32{1, 12}, Value: []float32{1, 1}}
			_, _, err := nearest(t.Context(), s.Collection("s"), Query{Sparse: q}, 3, &SearchOptions{Index: "p"})
			mustBeCorrupt(t, name, err)
		})
	}
}

// A number of labels that no leaf has would be an index out of range in maintenance.
func TestHostileLabels(t *testing.T) {
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "d", "kd", &Forest{NoTune: true}) })
	object := objectIn(t, path, "d", "kd")
	for _, n := range []int{-1, 1 << 20} {
		editJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			m["Detail"].(map[string]any)["Trees"].(map[string]any)["Params"].(map[string]any)["LabelsK"] = n
		})
		withFile(t, path, func(d *DB, _ *Snapshot) {
			_, err := d.Maintain(t.Context(), 0, nil)
			mustBeCorrupt(t, fmt.Sprint(n), err)
		})
	}
}

// Probes that are no rows would be read as such by maintenance.
func TestHostileProbes(t *testing.T) {
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "d", "kd", &Forest{}) })
	object := objectIn(t, path, "d", "kd")
	pristine, err := os.ReadFile(path)
	must(t, err)
	numbers := func(n int, x uint32) []byte {
		return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, x), n)
	}
	for i, data := range [][]byte{numbers(6, 60), numbers(6, 1000), []byte("no set"), numbers(4000, 60)} {
		must(t, os.WriteFile(path, pristine, 0o600))
		putBlock(t, path, layout.BucketBlocks, codec.Key(object, codec.KindProbes, uint32(i)), data)
		withFile(t, path, func(d *DB, _ *Snapshot) {
			err := d.Update(t.Context(), func(b *Tx) error {
				return b.Collection("d").Put(Row{Key: []byte("new"), Vector: make([]float32, 4)})
			})
			must(t, err)
			_, err = d.Maintain(t.Context(), 0, nil)
			mustBeCorrupt(t, fmt.Sprint(i), err)
		})
	}
}

// Requested options that name another kind would be given to that kind by maintenance.
func TestHostileRequested(t *testing.T) {
	path := hostileBase(t, 5, func(d *DB) { builds(t, d, "d", "kd", &Forest{}) })
	object := objectIn(t, path, "d", "kd")
	for _, name := range []string{"postings", "sbt", "none"} {
		editJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
			m["Requested"].(map[string]any)["Kind"] = name
		})
		withFile(t, path, func(d *DB, _ *Snapshot) {
			err := d.Update(t.Context(), func(b *Tx) error {
				for i := range 40 {
					r := Row{Key: fmt.Append(nil, "more", i), Vector: []float32{float32(i), 1, 2, 3}}
					if err := b.Collection("d").Put(r); err != nil {
						return err
					}
				}
				return nil
			})
			must(t, err)
			_, err = d.Maintain(t.Context(), 0, nil)
			mustBeCorrupt(t, name, err)
		})
	}
}

// peak runs f and returns by how many bytes the heap grew at most.
func peak(f func()) uint64 {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&now)
	return now.TotalAlloc - before.TotalAlloc
}

// A small compressed block is no large one: the catalog, manifests and rows not
// yet sealed are never compressed, and no block is decoded beyond what it may
// hold.
func TestHostileCompression(t *testing.T) {
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "d", "kd", &Forest{NoTune: true}) })
	object := objectIn(t, path, "d", "kd")
	pristine, err := os.ReadFile(path)
	must(t, err)
	bomb := bytes.Repeat([]byte("null,"), 32<<20/5)
	var row uint64
	withFile(t, path, func(_ *DB, s *Snapshot) { row = s.gen.Collections["d"].Entry.ID })
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
		must(t, os.WriteFile(path, pristine, 0o600))
		value := zstdBlock(t, c.key, bomb)
		inFile(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(c.bucket).Put(c.key[:], value) })
		var failed error
		used := peak(func() {
			d, err := Open(t.Context(), path, &Options{NoSync: true})
			if err != nil {
				failed = err
				return
			}
			defer d.Close()
			failed = d.View(func(s *Snapshot) error {
				_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, 4)}, 3, &SearchOptions{Params: &query.Params{}})
				return err
			})
		})
		mustBeCorrupt(t, c.name, failed)
		if used > 16<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
		if c.name == "catalog" {
			if _, err := Peek(t.Context(), path); !errors.Is(err, ErrCorrupt) {
				t.Errorf("peek: %v", err)
			}
		}
	}
}

// A text that is made of tiny objects is refused before any of them is made.
func TestHostileShape(t *testing.T) {
	many := bytes.Repeat([]byte("{},"), 4<<20)
	many = append(append([]byte(`{"Format":1,"Object":1,"Collections":[`), many...), "{}]}"...)
	points := []byte(strings.Replace(string(many), "Collections", "Info\":{\"Curve\":{\"points", 1))
	points = append(points[:len(points)-1], "}}}"...)
	var errs [2]error
	used := peak(func() {
		_, errs[0] = layout.DecodeCatalog(many)
		_, errs[1] = layout.DecodeManifest(points, kindOf)
	})
	for _, err := range errs {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("error %v", err)
		}
	}
	if used > 1<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}

// A manifest that cannot be decoded is decoded once a generation.
func TestHostileManifestOnce(t *testing.T) {
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "d", "kd", &Forest{NoTune: true}) })
	key := codec.Key(objectIn(t, path, "d", "kd"), codec.KindManifest, 0)
	putBlock(t, path, layout.BucketMeta, key, append(bytes.Repeat([]byte(" "), 1<<20), "x"...))
	withFile(t, path, func(_ *DB, s *Snapshot) {
		var first error
		once := func() {
			_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, 4)}, 3, nil)
			mustBeCorrupt(t, "search", err)
			if first == nil {
				first = err
			}
		}
		once()
		if used := peak(func() {
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
	path := hostileBase(t, 60, func(d *DB) {
		builds(t, d, "d", "kd", &Forest{NoTune: true})
		must(t, d.Update(t.Context(), func(b *Tx) error {
			return b.Collection("d").Put(Row{Key: []byte("new"), Vector: make([]float32, 4)})
		}))
	})
	editJSON(t, path, codec.Key(objectIn(t, path, "d", "kd"), codec.KindManifest, 0), func(m map[string]any) {
		m["Detail"].(map[string]any)["Rotation"] = nil
	})
	withFile(t, path, func(_ *DB, s *Snapshot) {
		_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, 4)}, 3, nil)
		mustBeCorrupt(t, "search", err)
	})
}

// TestHostileNorms: a norm that does not fit its row makes wrong distances, which Check finds.
func TestHostileNorms(t *testing.T) {
	const dim, inChunk, forged = 12_000, 16, 3
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(ctx, path, &Options{NoSync: true})
	must(t, err)
	must(t, create(ctx, d, "c", Schema{Dim: dim, Metric: vector.Cosine}))
	norms := make([]float32, inChunk)
	must(t, d.Update(ctx, func(b *Tx) error {
		for i := range inChunk {
			x := make([]float32, dim)
			for j := range x {
				x[j] = float32((i+j)%7) + 0.1
			}
			norms[i] = vector.InverseNorm(x)
			if err := b.Collection("c").Put(Row{Key: []byte{byte(i)}, Vector: x}); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, errors.Join(mustCheck(d), d.Close()))
	var id uint64
	withFile(t, path, func(_ *DB, s *Snapshot) { id = s.gen.Collections["c"].Entry.ID })
	norm := norms[forged]
	for stored, want := range map[float32]bool{
		norm * (1 + 1e-5): true, // of a kernel that adds in another order
		norm * 1.01:       false, -norm: false, 0: false, float32(math.NaN()): false,
	} {
		norms[forged] = stored
		putBlock(t, path, layout.BucketBlocks, codec.Key(id, codec.KindNorms, 0), codec.Bytes(norms))
		withFile(t, path, func(d *DB, _ *Snapshot) {
			if err := mustCheck(d); (err == nil) != want || err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("inverse norm %g, computed %g: %v", stored, norm, err)
			}
		})
	}
}

// TestHostileRuns reads runs of blocks that are missing.
func TestHostileRuns(t *testing.T) {
	// One block with a high number costs no more than itself.
	path := hostileBase(t, 60, func(d *DB) { builds(t, d, "d", "kd", &Forest{NoTune: true}) })
	object := objectIn(t, path, "d", "kd")
	const high = arrays.MaxRun - 1
	putBlock(t, path, layout.BucketBlocks, codec.Key(object, codec.KindSketch, high), make([]byte, 64*60))
	editJSON(t, path, codec.Key(object, codec.KindManifest, 0), func(m map[string]any) {
		m["Runs"] = map[string]any{fmt.Sprint(uint16(codec.KindSketch)): []any{map[string]any{"Object": object, "From": high, "To": high + 1}}}
	})
	withFile(t, path, func(_ *DB, s *Snapshot) {
		used := peak(func() {
			// The block has no sketch, and one place: it may well be taken.
			_, _, _ = nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, 4)}, 3, &SearchOptions{Params: &query.Params{}})
		})
		if used > 8<<20 {
			t.Errorf("%d bytes allocated for a run behind %d blocks that are not there", used, high)
		}
	})
}

// A catalog that claims billions of rows costs Salvage nothing but a line.
func TestHostileSalvage(t *testing.T) {
	path := hostileBase(t, 60, func(*DB) {})
	for _, live := range []uint32{60, 1<<31 - 1} {
		editJSON(t, path, layout.CatalogKey, func(m map[string]any) {
			c := m["Collections"].([]any)[0].(map[string]any)
			c["Rows"], c["Live"] = uint32(1<<31-1), live
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		lines := 0
		to := filepath.Join(t.TempDir(), "to")
		r, err := Salvage(ctx, path, to, &SalvageOptions{Lost: func(l LostRow) {
			if lines++; l.Rows < 1 || !errors.Is(l.Err, ErrCorrupt) {
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
	path := hostileBase(t, 60, func(d *DB) {
		builds(t, d, "d", "kd", &Forest{NoTune: true, Learner: "rp"})
		lcif := &LCIF{Weight: "tfidf", Params: &lcif.Params{K: 3, Lambda: 0.5}}
		builds(t, d, "s", "l", lcif)
	})
	dense, model := objectIn(t, path, "d", "kd"), objectIn(t, path, "s", "l")
	pristine, err := os.ReadFile(path)
	must(t, err)
	for _, c := range []struct {
		name string
		key  [codec.KeySize]byte
		data []byte
	}{
		{"nodes of half a node", codec.Key(dense, codec.KindNodes, 0), make([]byte, 50)},
		{"deleted rows that are no set", codec.Key(model, codec.KindLabelMatrix, arrayLabelDeleted), []byte("\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\xff\xff\x10\x00\x00\x00")},
		{"weights of features that are not there", codec.Key(model, codec.KindSimilarity, arrayFeatureWeight), make([]byte, 4*5000)},
	} {
		must(t, os.WriteFile(path, pristine, 0o600))
		putBlock(t, path, layout.BucketBlocks, c.key, c.data)
		d, err := Open(t.Context(), path, &Options{NoSync: true})
		must(t, err)
		if c.key[7] == byte(dense) {
			err = d.View(func(s *Snapshot) error {
				_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, 4)}, 3, &SearchOptions{Params: &query.Params{}})
				return err
			})
			mustBeCorrupt(t, c.name+": search", err)
		}
		err = d.Update(t.Context(), func(b *Tx) error {
			return errors.Join(
				b.Collection("d").Put(Row{Key: []byte("new"), Vector: make([]float32, 4)}),
				b.Collection("s").Put(Row{Key: []byte("new"), Labels: []string{"l0"}, Sparse: vector.Sparse{Index: []uint32{600}, Value: []float32{1}}}))
		})
		must(t, err)
		_, err = d.Maintain(t.Context(), 0, nil)
		mustBeCorrupt(t, c.name+": maintain", err)
		must(t, d.Close())
	}
}

// A compaction, and a restore, through a link replace what it names, and leave
// the link. The new file is as private as the old one.
func TestLinksAreFollowed(t *testing.T) {
	ctx := t.Context()
	path := hostileBase(t, 60, func(*DB) {})
	backup, link := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "link")
	data, err := os.ReadFile(path)
	if err = errors.Join(err, os.WriteFile(backup, data, 0o644), os.Chmod(path, 0o640), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	same := func(what string) {
		t.Helper()
		l, err1 := os.Lstat(link)
		at, err2 := os.Readlink(link)
		info, err3 := os.Stat(path)
		must(t, errors.Join(err1, err2, err3))
		if l.Mode()&os.ModeSymlink == 0 || at != path || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: link %v to %q, file %v", what, l.Mode(), at, info.Mode())
		}
	}
	d, err := Open(ctx, link, nil)
	must(t, err)
	err = d.Update(ctx, func(b *Tx) error { return b.Collection("d").Put(Row{Key: []byte("new"), Vector: make([]float32, 4)}) })
	must(t, err)
	err = d.Compact(ctx, nil)
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	same("compact")
	withFile(t, path, func(_ *DB, s *Snapshot) {
		if n, err := s.Collection("d").Count(t.Context(), nil); n != 61 || err != nil {
			t.Errorf("%d rows after a compaction, %v", n, err)
		}
	})
	must(t, Restore(ctx, backup, link, true))
	same("restore")
	withFile(t, path, func(_ *DB, s *Snapshot) {
		if n, err := s.Collection("d").Count(t.Context(), nil); n != 60 || err != nil {
			t.Errorf("%d rows after a restore, %v", n, err)
		}
	})
}
