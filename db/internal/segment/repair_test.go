package segment_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// TestRepairKinds damages blocks of indexes of several kinds: repair names them and rebuilds them, and the
// file is valid then; also without a manifest, unless its copy is lost, too.
func TestRepairKinds(t *testing.T) {
	ctx, pristine := t.Context(), filepath.Join(t.TempDir(), "db")
	d, err := dbtest.Open(ctx, pristine, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 9))
	var dense, words []db.Row
	for i := range 300 {
		r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}}
		w := r
		w.Features = []vector.Feature{
			{Name: fmt.Sprint("f", i%11), Value: 1}, {Name: fmt.Sprint("g", i%13), Value: 2},
		}
		for range 20 {
			r.Vector = append(r.Vector, float32(rng.NormFloat64()))
		}
		dense, words = append(dense, r), append(words, w)
	}
	dbtest.Must(t, errors.Join(
		dbtest.Create(ctx, d, "dense", db.Schema{Dim: 20}), dbtest.Create(ctx, d, "words", db.Schema{Named: true}),
		dbtest.Put(d, "dense", dense...), dbtest.Put(d, "words", words...),
	))
	dbtest.Builds(t, d, "dense", "trees", &index.Forest{NoTune: true, Trees: 4, LeafNeighbors: 10})
	dbtest.Builds(t, d, "words", "lists", nil)
	dbtest.Builds(t, d, "words", "labels", &index.LCIF{Params: &lcif.Params{K: 5, Alpha: 1, Beta: 1, Lambda: 0.5}})
	dbtest.Must(t, d.Close())
	data, err := os.ReadFile(pristine)
	dbtest.Must(t, err)
	for _, c := range []struct {
		coll, index string
		bucket      []byte
		kind        codec.Kind
		number      uint32
		lost        bool
	}{
		{"dense", "trees", layout.BucketBlocks, codec.KindLeaves, 0, false},
		{"dense", "trees", layout.BucketBlocks, codec.KindNeighbors, 0, false},
		{"words", "lists", layout.BucketBlocks, codec.KindPostings, dbtest.Any, false},
		{"words", "labels", layout.BucketBlocks, codec.KindSimilarity, dbtest.Any, false},
		{"words", "labels", layout.BucketBlocks, codec.KindLabelMatrix, dbtest.Any, false},
		{"words", "lists", layout.BucketMeta, codec.KindManifest, 0, false},
		{"dense", "trees", layout.BucketMeta, codec.KindManifest, 0, false},
		{"words", "labels", layout.BucketMeta, codec.KindManifest, 0, false},
		{"words", "lists", layout.BucketBlocks, codec.KindManifest, 0, false},
		{"words", "lists", layout.BucketMeta, codec.KindManifest, 0, true},
	} {
		t.Run(fmt.Sprintf("%s %v", c.index, c.kind), func(t *testing.T) {
			path := dbtest.WriteFile(t, data)
			flip := func(bucket []byte) {
				p := dbtest.Block(t, path, bucket, c.coll, c.index, c.kind, c.number)
				dbtest.Flip(t, path, p.At+int64(codec.HeaderSize+len(p.Value))/2)
			}
			if flip(c.bucket); c.lost {
				flip(layout.BucketBlocks)
			}
			d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
			dbtest.MustBeCorrupt(t, "check", dbtest.Check(d))
			found, err := d.Repair(ctx, nil)
			if len(found) != 1 || found[0].Index != c.index || !errors.Is(found[0].Damage, db.ErrCorrupt) {
				t.Errorf("found %v", found)
			}
			if c.lost {
				if !errors.Is(err, db.ErrCorrupt) || found[0].Err == nil {
					t.Errorf("repair without a manifest: %v", err)
				}
				err = d.Collection(c.coll).DropIndex(ctx, c.index)
			}
			dbtest.Must(t, errors.Join(err, dbtest.Check(d)))
			if again, err := d.Repair(ctx, nil); err != nil || len(again) != 0 {
				t.Errorf("repair again: %v, %v", again, err)
			}
		})
	}
}
