package db

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// FuzzLabelModel overwrites part of a block of a label model that has followed
// changes and gives it the checksum it then should have: predictions are scores
// from 0 to 1, best first, or they say that the model is damaged.
func FuzzLabelModel(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed.anndb")
	must(f, labelsGolden(seed))
	var blocks []storedBlock
	for _, b := range storedBlocks(f, seed) {
		if b.kind == codec.KindLabelMatrix || b.kind == codec.KindSimilarity {
			blocks = append(blocks, b)
		}
	}
	ctx := context.Background()
	fuzzBlocks(f, seed, blocks, func(t *testing.T, s *Snapshot) {
		for coll, names := range map[string][]string{"counts": {"plain", "weighed"}, "dense": {"plain"}} {
			q := Query{Sparse: vector.Sparse{Index: []uint32{1, 2, 7}, Value: []float32{1, 2, 1}}}
			if coll == "dense" {
				q = Query{Vector: []float32{0, 1, 2, 0, 0, 0, 0, 1, 0}}
			}
			for _, name := range names {
				out, _, err := predict(ctx, s.Collection(coll), q, &PredictOptions{Index: name, Top: 9, Set: true, Explain: true})
				if err != nil {
					if !errors.Is(err, ErrCorrupt) {
						t.Fatalf("%s, %s: untyped error %v", coll, name, err)
					}
					continue
				}
				for i, p := range out {
					if !(p.Score > 0 && p.Score <= 1) || i > 0 && i < 9 && p.Score > out[i-1].Score {
						t.Fatalf("%s, %s: label %d has the score %g", coll, name, i, p.Score)
					}
				}
			}
		}
	})
}
