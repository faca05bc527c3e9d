package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/labeltree"
	"github.com/anndb/anndb/vector"
)

// Names are the files that mutants are made of.
var Names = []string{"dense", "sparse", "labels", "tuned", "sketches", "texts"}

// Make makes the sound files in a directory.
func Make(ctx context.Context, dir string) error {
	for _, name := range Names {
		if err := makeFile(ctx, filepath.Join(dir, name), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// A file has rows, then indexes, then more rows and fewer, of which some get other
// labels and payloads; maintenance makes indexes follow. Then some more changes come that
// no index covers.
const (
	firstRows = 120
	moreRows  = 150
	allRows   = 160
)

func makeFile(ctx context.Context, path, name string) (err error) {
	d, err := db.Open(ctx, path, &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, c := range collections[name] {
		schema := db.Schema{Sparse: c.dim == 0, Named: c.named, Dim: c.dim, Metric: c.metric}
		if name == "texts" {
			schema = db.Schema{Dim: c.dim, Metric: c.metric, Text: &text.Schema{}}
		}
		if _, err = d.Create(ctx, c.name, schema); err != nil {
			return err
		}
	}
	if err := put(ctx, d, name, 0, firstRows); err != nil {
		return err
	}
	for _, c := range collections[name] {
		for _, index := range slices.Sorted(maps.Keys(c.indexes)) { // a mutant is the same in each run
			if _, err := d.Collection(c.name).Build(ctx, index, c.indexes[index], nil); err != nil {
				return fmt.Errorf("%s/%s: %w", c.name, index, err)
			}
		}
	}
	if err := put(ctx, d, name, firstRows, moreRows); err != nil {
		return err
	}
	if err := change(ctx, d, name, 0); err != nil {
		return err
	}
	if _, err := d.Maintain(ctx, 0, nil); err != nil {
		return err
	}
	if err := put(ctx, d, name, moreRows, allRows); err != nil {
		return err
	}
	if err := change(ctx, d, name, 1); err != nil {
		return err
	}
	if err := d.Compact(ctx, nil); err != nil {
		return err
	}
	return fixCurves(ctx, d)
}

// collection is one of a file's.
type collection struct {
	name    string
	dim     int // 0 for sparse ones
	metric  vector.Metric
	named   bool // features with names, or texts
	times   int  // rows for one of other collections
	indexes map[string]index.Options
}

var collections = map[string][]collection{
	"dense": {
		{"l2", 12, vector.L2, false, 1, map[string]index.Options{
			"kd": &index.Forest{NoTune: true, Seed: 1, Learner: "kd", Members: true},
			"rp": &index.Forest{NoTune: true, Seed: 1, Learner: "rp", Trees: 3, NoLists: true, NoSketches: true},
			"rf": &index.Forest{NoTune: true, Seed: 1, Learner: "rf", Trees: 2},
		}},
		{"cosine", 6, vector.Cosine, false, 1, map[string]index.Options{"pca": &index.Forest{NoTune: true, Seed: 1, Learner: "pca"}}},
		{"product", 5, vector.InnerProduct, false, 1, map[string]index.Options{"kd": &index.Forest{NoTune: true, Seed: 1}}},
		{"long", 12000, vector.L2, false, 1, nil},
	},
	"sparse": {
		{"counts", 0, 0, false, 1, map[string]index.Options{"p": &index.Postings{}}},
		{"words", 0, 0, true, 1, map[string]index.Options{"p": nil}},
		{"wide", 0, 0, false, 1, map[string]index.Options{"p": &index.Postings{}}},
	},
	"labels": {
		{"counts", 0, 0, false, 1, map[string]index.Options{
			"lcif": &index.LCIF{Weight: "tfidf", Params: &lcif.Params{K: 5, Lambda: 0.5}},
			"at":   small("at"),
			"pt":   small("pt"),
			"2nd":  &index.LCIF{Weight: "none", Params: &lcif.Params{K: 5, Lambda: 0.5, SecondOrder: 0.5}},
			"cv":   &index.LCIF{Folds: 2},
			"line": &index.LabelTree{Seed: 1, Objective: lcif.PropensityAt5, Params: labeltree.Params{Flat: 2}},
			"auto": &index.Auto{
				Seed: 1, LCIF: &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
				LabelTree: &index.LabelTree{Seed: 1}, Trees: small("at"),
			},
		}},
		{"dense", 6, vector.Cosine, false, 1, map[string]index.Options{
			"kd":   &index.Forest{NoTune: true, Seed: 1},
			"lcif": &index.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 5, Lambda: 0.5}},
			"sbt":  small("sbt"),
		}},
	},
	"tuned": {
		{"l2", 12, vector.L2, false, 3, map[string]index.Options{
			"kd": &index.Forest{Seed: 1, Holdout: 30, Members: true},
		}},
		{"product", 6, vector.InnerProduct, false, 2, map[string]index.Options{"rp": &index.Forest{Seed: 1, Holdout: 20, Learner: "rp"}}},
	},
	"sketches": {
		{"groups", 40, vector.L2, false, 3, map[string]index.Options{
			"128": &index.Forest{NoTune: true, Seed: 1, SketchBytes: 128},
			"192": &index.Forest{NoTune: true, Seed: 1, SketchBytes: 192, Coordinates: 8},
			"any": &index.Forest{NoTune: true, Seed: 1, Coordinates: 8},
		}},
		{"cosine", 9, vector.Cosine, false, 1, map[string]index.Options{
			"256": &index.Forest{NoTune: true, Seed: 1, SketchBytes: 256},
			"64":  &index.Forest{NoTune: true, Seed: 1, SketchBytes: 64},
		}},
	},
	"texts": {
		{"alone", 0, 0, true, 1, map[string]index.Options{"p": nil, "at": small("at")}},
		{"both", 6, vector.Cosine, true, 2, map[string]index.Options{
			"kd":   &index.Forest{NoTune: true, Seed: 1},
			"p":    &index.Postings{},
			"lcif": &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
			"line": &index.LabelTree{Seed: 1, From: "both"},
		}},
	},
}

// small are the options of small trees.
func small(kind string) *index.Trees {
	return &index.Trees{
		Kind: kind, Params: budget.Params{BAC: budget.BACParams{Budget: 4, Rounds: 2, Iterations: 20}}, Seed: 1,
	}
}

// put writes rows of all collections and deletes some of the others.
func put(ctx context.Context, d *db.DB, name string, from, to int) error {
	return d.Update(ctx, func(b *db.Tx) error {
		for _, c := range collections[name] {
			for i := from * c.times; i < to*c.times; i++ {
				if c.dim > 1000 && i%50 != 0 {
					continue // each row is a chunk
				}
				if err := b.Collection(c.name).Put(row(c, i)); err != nil {
					return err
				}
			}
			from := from * c.times
			for i := 7; i < from && c.dim < 1000; i += 31 {
				if err := b.Collection(c.name).Delete(key((i + from) % from)); err != nil && !errors.Is(err, db.ErrNotFound) {
					return err
				}
			}
		}
		return nil
	})
}

// change gives some rows other labels and payloads.
func change(ctx context.Context, d *db.DB, name string, from int) error {
	return d.Update(ctx, func(b *db.Tx) error {
		for _, c := range collections[name] {
			for i := from; i < allRows*c.times; i += 9 {
				labels := []string{fmt.Sprint("l", (i+1)%3)}
				err := errors.Join(b.Collection(c.name).SetLabels(key(i), labels...),
					b.Collection(c.name).SetPayload(key(i), fmt.Append(nil, "changed ", i)))
				if err != nil && !errors.Is(err, db.ErrNotFound) {
					return err
				}
			}
		}
		return nil
	})
}

func key(i int) []byte { return fmt.Appendf(nil, "row %d", i) }

// row is row i of a collection.
func row(c collection, i int) db.Row {
	rng := rand.New(rand.NewPCG(uint64(i), uint64(len(c.name)+c.dim)))
	r := db.Row{Key: key(i), Labels: []string{fmt.Sprint("l", i%3)}, Payload: fmt.Append(nil, "payload ", i),
		Attributes: map[string]any{"n": i, "name": fmt.Sprint("name ", i%5), "half": float64(i) / 2, "even": i%2 == 0}}
	if c.dim > 0 && c.name != "dense" || c.dim == 0 {
		r.Labels = append(r.Labels, fmt.Sprint("m", i%5))
	}
	for range c.dim {
		x := float32(rng.IntN(200)) + rng.Float32()*float32(i%2)
		if c.name == "groups" { // rows with near numbers are near each other
			x = x/10 + float32(i/64*30)
		}
		r.Vector = append(r.Vector, x)
	}
	if c.dim > 0 && !c.named {
		return r
	}
	if c.dim > 0 && i%6 == 0 {
		r.Vector = nil
	}
	for f := range 40 {
		if rng.IntN(8) != 0 && f != i%40 {
			continue
		}
		value := float32(1 + rng.IntN(5))
		if c.name == "alone" || c.name == "both" {
			r.Text += strings.Repeat(fmt.Sprint("word", f, " "), int(value))
			continue
		}
		if c.named {
			r.Features = append(r.Features, vector.Feature{Name: fmt.Sprint("word ", f), Value: value})
			continue
		}
		number := uint32(f)
		if c.name == "wide" {
			number *= 1 << 21
		}
		r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, number), append(r.Sparse.Value, value)
	}
	return r
}
