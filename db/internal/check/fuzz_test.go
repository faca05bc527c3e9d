package check_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/autolabels"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/kind/labeltreeindex"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// kindOf returns the kind of index with a name.
func kindOf(name string) kind.Kind {
	switch name {
	case "kd", "rp", "pca", "rf":
		return forestindex.Kind{}
	case postingsindex.Name:
		return postingsindex.Kind{}
	case lcifindex.Name:
		return lcifindex.Kind{}
	case "sbt", "pt", "at":
		return treeindex.Kind{}
	case labeltreeindex.Name:
		return labeltreeindex.Kind{}
	case autolabels.Name:
		return autolabels.Kind{}
	}
	return nil
}

// FuzzManifest decodes manifests of any content: they are refused as damage, or like what is encoded.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"Dim":4,"Rotation":-1,"Forest":{"Params":{"Trees":4096,"Depth":24},"Dim":65537,"DirW":65537}}`))
	for _, b := range indexBlocks(f, damaged(f)) {
		if _, kind, _ := codec.ParseKey(b.Key); kind == codec.KindManifest {
			block, err := codec.Parse(b.Value)
			dbtest.Must(f, err)
			f.Add(block.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := layout.DecodeManifest(data, kindOf)
		if err != nil {
			if !errors.Is(err, db.ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := layout.EncodeManifest(m)
		dbtest.Must(t, err)
		if _, err := layout.DecodeManifest(again, kindOf); err != nil {
			t.Fatalf("refuses its own encoding: %v", err)
		}
	})
}

// indexBlocks returns the blocks of indexes that are not compressed.
func indexBlocks(f *testing.F, path string) (out []dbtest.Pair) {
	file, err := dbtest.ReadFile(path)
	dbtest.Must(f, err)
	for _, p := range file.Pairs {
		if len(p.Key) != codec.KeySize {
			continue
		}
		_, kind, _ := codec.ParseKey(p.Key)
		if p.Bucket == string(layout.BucketMeta) && kind == codec.KindManifest || p.Bucket == string(layout.BucketBlocks) && kind > codec.KindManifest {
			out = append(out, p)
		}
	}
	return out
}

// FuzzBlocks overwrites part of a block of an index and gives it the checksum it then should have, which only
// a fault of the program or malice can do. Searches may find less, but what they find are rows at their true
// distances, predictions have finite scores; or they say that the index is damaged.
func FuzzBlocks(f *testing.F) {
	seed := damaged(f)
	pristine, err := os.ReadFile(seed)
	dbtest.Must(f, err)
	blocks := indexBlocks(f, seed)
	for i, b := range blocks {
		n := uint32(len(b.Value) - codec.HeaderSize)
		f.Add(uint16(i), uint32(0), []byte{0xff, 0xff, 0xff, 0xff}) // -1, or not a number
		if testing.Short() {
			continue
		}
		f.Add(uint16(i), uint32(9), []byte{1})
		f.Add(uint16(i), n/2, []byte{0, 0, 0xc0, 0x7f, 0, 0, 0xf8, 0xff}) // not a number
		f.Add(uint16(i), n-4, []byte{0xff, 0xff, 0x7f, 0x7f})             // the largest float32
	}
	path := filepath.Join(f.TempDir(), "fuzz.anndb")
	f.Fuzz(func(t *testing.T, block uint16, from uint32, patch []byte) {
		data, b := bytes.Clone(pristine), blocks[int(block)%len(blocks)]
		value, table := data[b.At:b.At+int64(len(b.Value))], crc32.MakeTable(crc32.Castagnoli)
		copy(value[codec.HeaderSize+int(from)%(len(value)-codec.HeaderSize):], patch)
		stored := binary.LittleEndian.Uint64(value[32:])
		sum := crc32.Update(crc32.Checksum(b.Key, table), table, value[:48])
		binary.LittleEndian.PutUint32(value[48:], crc32.Update(sum, table, value[codec.HeaderSize:codec.HeaderSize+stored]))
		dbtest.Must(t, os.WriteFile(path, data, 0o600))
		d, err := dbtest.Open(t.Context(), path, &db.Options{ReadOnly: true, MapReserve: 1 << 24})
		dbtest.Must(t, err)
		defer d.Close()
		for name, row := range damagedRows {
			c, r := d.Collection(name), row(7)
			q := db.Query{Vector: r.Vector, Features: r.Features, Text: r.Text}
			for _, o := range fuzzSearches[name] {
				hits, _, err := dbtest.Nearest(t.Context(), c, q, 5, &o)
				damage(t, o.Index, err)
				for _, h := range hits {
					found, err := c.GetRow(h.Row)
					dbtest.Must(t, err)
					if name != "small" {
						continue
					}
					want := 1 - vector.Dot(r.Vector, found.Vector)*vector.InverseNorm(r.Vector)*vector.InverseNorm(found.Vector)
					if math.Abs(float64(h.Distance-want)) > 1e-4 {
						t.Fatalf("%+v: distance %g of row %d, want %g", o, h.Distance, h.Row, want)
					}
				}
			}
			for _, index := range map[string][]string{"small": {"labels"}, "words": {"labels", "pt", "linear"}}[name] {
				out, _, err := dbtest.Predict(t.Context(), c, q, &db.PredictOptions{Index: index, Top: 9, Set: true, Explain: true})
				damage(t, index, err)
				for _, p := range out {
					if math.IsNaN(float64(p.Score)) || math.IsInf(float64(p.Score), 0) {
						t.Fatalf("%s: %+v", index, p)
					}
				}
			}
		}
		p, err := d.Collection("words").TreePicture("pt", nil)
		if damage(t, "picture", err); err == nil && (p.WriteText(io.Discard) != nil || p.WriteDOT(io.Discard) != nil) {
			t.Fatal("a picture cannot be drawn")
		}
		damage(t, "check", d.Check(t.Context(), nil, nil))
	})
}

// fuzzSearches are the searches of indexes by collection.
var fuzzSearches = map[string][]db.SearchOptions{
	"small": {
		{Index: "kd", Params: &query.Params{Method: query.Natural, Tau: 0.1, Sketch: true, Extra: 2}},
		{Index: "kd", Params: &query.Params{Method: query.NaturalZero, NoWiden: true}},
		{Index: "kd", Params: &query.Params{Method: query.Voting, Votes: 1, Sketch: true, Beam: 20}},
	},
	"texts": {{Index: "terms"}},
	"words": {{Index: "rows"}},
}

// damage fails if an error is none of damage.
func damage(t *testing.T, call string, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, db.ErrCorrupt) {
		t.Fatalf("%s: untyped error %v", call, err)
	}
}
