package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Decoders on arbitrary bytes: each must say no by name, or
// yes to something that it would itself write.

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"Dim":4,"Forest":{"Params":{"Trees":1,"Depth":1},"Dim":4}}`))
	f.Add([]byte(`{"Dim":4,"Rotation":-1,"Forest":{"Params":{"Trees":4096,"Depth":24},"Dim":65537,"DirW":65537}}`))
	path := filepath.Join(f.TempDir(), "seed.anndb")
	for _, b := range indexBlocks(f, path) {
		if b.kind == codec.KindManifest {
			f.Add(b.payload)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := layout.DecodeManifest(data, kindOf)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		// What later arithmetic on the shape needs.
		if m.Of == kind.Kind(forestindex.Kind{}) {
			var d struct {
				Trees struct {
					Params forest.Params
					DirW   int
				}
			}
			must(t, json.Unmarshal(m.Detail, &d))
			p := d.Trees.Params
			if slots := float64(p.Trees) * math.Exp2(float64(p.Depth)); slots*float64(d.Trees.DirW+1)*4 > math.MaxInt64/2 {
				t.Fatalf("a forest of %v nodes", slots)
			}
		}
		if again, err := layout.EncodeManifest(m); err != nil {
			t.Fatal(err)
		} else if _, err := layout.DecodeManifest(again, kindOf); err != nil {
			t.Fatalf("refuses its own encoding: %v", err)
		}
	})
}

// storedBlock is a block and its place in a file.
type storedBlock struct {
	key     []byte
	kind    codec.Kind
	at      int64 // of the value
	payload []byte
}

// indexBlocks makes a small database with indexes of all shapes and lists
// their blocks.
func indexBlocks(tb testing.TB, path string) []storedBlock {
	tb.Helper()
	ctx := context.Background()
	d, err := Open(ctx, path, &Options{NoSync: true})
	if err == nil {
		_, err = d.Create(ctx, "c", Schema{Dim: 4, Metric: vector.InnerProduct})
	}
	if err == nil {
		err = d.Update(ctx, func(b *Tx) error {
			for i := range 40 {
				if err := b.Collection("c").Put(Row{Key: []byte{byte(i + 1)}, Vector: modelVector(uint64(4*i), 4)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, kind := range []forest.Kind{forest.RP, forest.KD, forest.PCATree, forest.RF} {
		o := &Forest{Learner: string(kind), Trees: 2, Depth: 2, LeafNeighbors: 3, ListNeighbors: 2, Members: true, NoTune: true, Quantize: true}
		if err == nil {
			_, err = d.Collection("c").Build(ctx, string(kind), o, nil)
		}
	}
	must(tb, err)
	must(tb, d.Compact(ctx, nil))
	must(tb, d.Close())
	return storedBlocks(tb, path)
}

// storedBlocks lists the blocks of the indexes in a file.
func storedBlocks(tb testing.TB, path string) (out []storedBlock) {
	tb.Helper()
	data, err := os.ReadFile(path)
	must(tb, err)
	walkFile(tb, data, func(bucket, key, value []byte, at int64) {
		_, kind, _ := codec.ParseKey(key)
		if string(bucket) == "meta" && kind == codec.KindManifest || string(bucket) == "blocks" && kind > codec.KindManifest {
			b, err := codec.Parse(value)
			must(tb, err)
			out = append(out, storedBlock{bytes.Clone(key), kind, at, bytes.Clone(b.Payload)})
		}
	})
	return out
}

// walkFile visits every pair of a sound database file.
func walkFile(tb testing.TB, data []byte, pair func(bucket, key, value []byte, at int64)) {
	tb.Helper()
	w, _ := soundWalker(tb, data, pair)
	w.Buckets(func(b page.Bucket) { w.Walk(b, page.Values) })
}

// soundWalker returns a walker over the latest state of a database file, and its
// meta page. Any problem fails the test.
func soundWalker(tb testing.TB, data []byte,
	pair func(bucket, key, value []byte, at int64)) (*page.Walker, page.Meta) {
	tb.Helper()
	m := latestOf(tb, data)
	return page.NewWalker(context.Background(), bytes.NewReader(data), int64(len(data)), m, page.Visitor{
		Pair:   pair,
		Report: func(page uint64, err error) { tb.Fatalf("page %d: %v", page, err) },
	}), m
}

// latestOf returns the meta page of the latest state of a database file of which
// both are sound.
func latestOf(tb testing.TB, data []byte) page.Meta {
	tb.Helper()
	metas := state.ReadMetas(bytes.NewReader(data))
	must(tb, errors.Join(metas.Err[:]...))
	return metas.Valid()[0]
}

// patched is a file with a part of a block overwritten, under the checksum that
// it then should have.
func patched(pristine []byte, b storedBlock, from uint32, patch []byte) []byte {
	data := bytes.Clone(pristine)
	value := data[b.at : b.at+int64(codec.HeaderSize+len(b.payload))]
	copy(value[codec.HeaderSize+int(from)%len(b.payload):], patch)
	sum := crc32.Update(crc32.Checksum(b.key, castagnoli), castagnoli, value[:48])
	binary.LittleEndian.PutUint32(value[48:], crc32.Update(sum, castagnoli, value[codec.HeaderSize:]))
	return data
}

// FuzzIndex overwrites part of an index's block and gives it the checksum it
// then should have, which only a fault of ours or malice can do. Searches may
// find less, but what they find are rows at their true distances; or they say
// that the index is damaged.
func FuzzIndex(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed.anndb")
	blocks := indexBlocks(f, seed)
	ctx := context.Background()
	q := modelVector(8, 4)
	params := []query.Params{
		{Method: query.Natural, Tau: 0.1, Sketch: true, Hops: 2, Extra: 2},
		{Method: query.NaturalZero, Quant: true, NoWiden: true},
		{Method: query.Voting, Votes: 1, Sketch: true},
		{Method: query.Lookup, NoWiden: true},
	}
	fuzzBlocks(f, seed, blocks, func(t *testing.T, s *Snapshot) {
		for _, kind := range []string{"rp", "kd", "pca", "rf"} {
			for _, p := range params {
				hits, _, err := nearest(ctx, s.Collection("c"), Query{Vector: q}, 5, &SearchOptions{Index: kind, Params: &p})
				if err != nil {
					if !errors.Is(err, ErrCorrupt) {
						t.Fatalf("%s, %v: untyped error %v", kind, p.Method, err)
					}
					continue
				}
				for _, h := range hits {
					r, err := s.Collection("c").GetRow(h.Row)
					if err != nil {
						t.Fatalf("%s, %v: a hit that is no row: %v", kind, p.Method, err)
					}
					if want, tol := modelDistance(vector.InnerProduct, q, r.Vector); math.Abs(float64(h.Distance)-want) > tol {
						t.Fatalf("%s, %v: distance %g of row %d, want %g", kind, p.Method, h.Distance, h.Row, want)
					}
				}
			}
		}
	})
}

// fuzzBlocks opens the file with one of its blocks patched, asks it, and checks it.
func fuzzBlocks(f *testing.F, seed string, blocks []storedBlock, ask func(*testing.T, *Snapshot)) {
	pristine, err := os.ReadFile(seed)
	must(f, err)
	for i := range blocks {
		last, middle := uint32(len(blocks[i].payload)-4), uint32(len(blocks[i].payload)/2)
		f.Add(uint16(i), uint32(0), []byte{0xff, 0xff, 0xff, 0xff}) // -1, or not a number
		f.Add(uint16(i), uint32(0), []byte{1, 0, 0, 0})
		f.Add(uint16(i), uint32(9), []byte{1})
		f.Add(uint16(i), middle, []byte{0, 0, 0xc0, 0x7f})             // not a number, float32
		f.Add(uint16(i), middle, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0xff}) // and float64
		f.Add(uint16(i), last, []byte{0xff, 0xff, 0x7f, 0x7f})         // the largest float32
	}
	path := filepath.Join(f.TempDir(), "fuzz.anndb")
	f.Fuzz(func(t *testing.T, block uint16, from uint32, patch []byte) {
		must(t, os.WriteFile(path, patched(pristine, blocks[int(block)%len(blocks)], from, patch), 0o600))
		d, err := Open(t.Context(), path, &Options{ReadOnly: true, MapReserve: 1 << 24})
		must(t, err)
		defer d.Close()
		err = d.View(func(s *Snapshot) error {
			ask(t, s)
			return nil
		})
		must(t, err)
		if err := d.Check(context.Background(), nil, nil); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("check: %v", err)
		}
	})
}

// castagnoli is the table of the checksums in the file.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
