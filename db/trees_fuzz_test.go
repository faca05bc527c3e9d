package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/trees/budget"
)

// treeBlocks makes a small database with trees of all kinds and lists their
// blocks.
func treeBlocks(tb testing.TB, path string) []storedBlock {
	tb.Helper()
	ctx := context.Background()
	d, err := Open(ctx, path, &Options{NoSync: true})
	must(tb, err)
	err = errors.Join(
		create(ctx, d, "named", Schema{Named: true}),
		create(ctx, d, "classes", Schema{Dim: 4}),
		d.Update(ctx, func(b *Tx) error {
			for i := range 40 {
				r := Row{Key: []byte{byte(i + 1)}, Features: []Feature{{fmt.Sprint("f", i%5), float32(1 + i%3)}, {fmt.Sprint("g", i%4), 1}}}
				for l := range 3 {
					if i%5 == l || i%4 == l+1 {
						r.Labels = append(r.Labels, fmt.Sprint("label ", l))
					}
				}
				x := modelVector(uint64(4*i), 4)
				x[i%3] += 4
				if err := errors.Join(b.Collection("named").Put(r), b.Collection("classes").Put(Row{Key: r.Key, Vector: x, Labels: []string{fmt.Sprint("class ", i%3)}})); err != nil {
					return err
				}
			}
			return nil
		}))
	must(tb, err)
	o := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}, Folds: 3}}
	for coll, kinds := range map[string][]budget.Kind{"named": {budget.AT, budget.PT}, "classes": {budget.SBT}} {
		for _, kind := range kinds {
			if o.Weight = "tfidf"; kind == budget.SBT {
				o.Weight = "none"
			}
			if _, err := d.Collection(coll).Build(ctx, string(kind), treesOf(kind, o), nil); err != nil {
				tb.Fatal(err)
			}
		}
	}
	must(tb, d.Compact(ctx, nil))
	// Rows that trees do not have.
	err = d.Update(ctx, func(b *Tx) error {
		return errors.Join(
			b.Collection("named").Put(Row{Key: []byte{1}, Features: []Feature{{"f1", 2}}, Labels: []string{"label 0", "label new"}}),
			b.Collection("classes").Put(Row{Key: []byte{2}, Vector: []float32{5, 1, 0, 0}, Labels: []string{"class 0"}}),
			b.Collection("named").Delete([]byte{9}), b.Collection("classes").Delete([]byte{9}))
	})
	must(tb, err)
	must(tb, d.Close())
	return storedBlocks(tb, path)
}

// FuzzTree overwrites part of a stored tree and gives it the checksum it then
// should have. Whatever can be asked of a tree is answered, with finite scores
// and paths that add up, or refused as damage.
func FuzzTree(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed.anndb")
	blocks := treeBlocks(f, seed)
	ctx := context.Background()
	fuzzBlocks(f, seed, blocks, func(t *testing.T, s *Snapshot) {
		ask := func(coll, index string, q Query) error {
			for _, top := range []int{0, 2} {
				out, _, err := predict(ctx, s.Collection(coll), q, &PredictOptions{Index: index, Top: top, Set: true, Explain: true})
				if err != nil {
					return err
				}
				for _, p := range out {
					if math.IsNaN(float64(p.Score)) || math.IsInf(float64(p.Score), 0) {
						t.Fatalf("%s: %+v", index, p)
					}
				}
			}
			path, err := pathThrough(ctx, s.Collection(coll), q, index)
			if err != nil || path == nil { // no feature of the query has a weight
				return err
			}
			if n, err := s.Collection(coll).TreeDecisions(ctx, []Query{q}, index); err != nil || index != string(budget.SBT) && n != float64(len(path.Parts)) {
				t.Fatalf("%s: %g decisions, %d on the path: %v", index, n, len(path.Parts), err)
			}
			p, err := s.Collection(coll).TreePicture(index, &budget.PictureOptions{Nodes: 5})
			if err != nil {
				return err
			}
			if p.WriteText(io.Discard) != nil || p.WriteDOT(io.Discard) != nil || p.WriteSVG(io.Discard) != nil {
				t.Fatal("nothing can go wrong here")
			}
			return nil
		}
		for _, err := range []error{
			ask("named", "at", Query{Features: []Feature{{"f1", 2}, {"g1", 1}}}),
			ask("named", "pt", Query{Features: []Feature{{"f2", math.MaxFloat32 / 4}, {"unknown", 1}}}),
			ask("classes", "sbt", Query{Vector: []float32{1, 0, 5, -1}}),
		} {
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
		}
	})
}
