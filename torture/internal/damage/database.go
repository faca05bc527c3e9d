package damage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Build writes a database of about 20 MB with every kind of collection and
// index: sealed chunks of bytes and of floats, rows not sealed yet, tombstones,
// forests with neighbor lists and sketches, one of them maintained, texts with vectors,
// inverted indexes in segments, label models, trees of all kinds, and pages that
// were freed.
func Build(path string, seed uint64) error {
	d, err := db.Open(context.Background(), path, &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	b := &builder{d: d, rng: rand.New(rand.NewPCG(seed, 99))}
	err = b.build()
	if err == nil {
		err = d.Check(context.Background(), nil, nil)
	}
	return errors.Join(err, d.Close())
}

type builder struct {
	d       *db.DB
	rng     *rand.Rand
	centres map[string][][]float32
}

func (b *builder) build() error {
	ctx := context.Background()
	forests := func(o *index.Forest) index.Options {
		o.Trees, o.LeafNeighbors, o.ListNeighbors, o.NoTune, o.Seed = 4, 10, 12, true, 7
		return o
	}
	thresholds := &labels.Thresholds{Single: 0.2, KeepTop: true}
	model := index.LCIF{Params: &lcif.Params{K: 8, Lambda: 0.6, Beta: 1.5, Thresholds: thresholds}}
	weighed := model
	weighed.Weight = "tfidf"
	trees := func(kind string) *index.Trees {
		return &index.Trees{Kind: kind, Params: budget.Params{BAC: budget.BACParams{Budget: 6, Rounds: 3, Iterations: 100}}}
	}
	var err error
	do := func(step error) { err = errors.Join(err, step) }
	create := func(name string, s db.Schema) {
		_, e := b.d.Create(ctx, name, s)
		do(e)
	}
	build := func(coll, name string, o index.Options) {
		if err == nil {
			_, e := b.d.Collection(coll).Build(ctx, name, o, nil)
			do(e)
		}
	}
	create("images", db.Schema{Dim: 784})
	create("vectors", db.Schema{Dim: 300, Metric: vector.Cosine})
	create("points", db.Schema{Dim: 16, Metric: vector.InnerProduct})
	create("terms", db.Schema{Sparse: true})
	create("words", db.Schema{Named: true})
	create("texts", db.Schema{Dim: 24, Text: &text.Schema{Analyzer: "english"}})
	create("gone", db.Schema{Dim: 784})
	do(b.put("images", 0, 1500))
	do(b.put("vectors", 0, 1500))
	do(b.put("points", 0, 400))
	do(b.put("terms", 0, 1200))
	do(b.put("words", 0, 200))
	do(b.put("texts", 0, 400))
	do(b.put("gone", 0, 400))
	build("images", "kd", forests(&index.Forest{Coordinates: 16, Members: true}))
	build("images", "rp", forests(&index.Forest{Learner: "rp", NoSketches: true, Members: true}))
	build("vectors", "pca", forests(&index.Forest{Learner: "pca"}))
	build("vectors", "gone", forests(&index.Forest{Learner: "rp", Members: true}))
	build("points", "rf", forests(&index.Forest{Learner: "rf", Members: true}))
	build("points", "labels", &model)
	build("points", "pt", trees("pt"))
	build("terms", "rows", &index.Postings{})
	build("terms", "labels", &weighed)
	build("terms", "at", trees("at"))
	build("terms", "linear", &index.LabelTree{})
	build("words", "rows", &index.Postings{})
	build("words", "labels", &model)
	build("words", "sbt", trees("sbt"))
	build("texts", "kd", forests(&index.Forest{Members: true}))
	build("texts", "rows", &index.Postings{})
	build("texts", "labels", &model)
	build("texts", "auto", &index.Auto{LCIF: &index.LCIF{Params: model.Params}, LabelTree: &index.LabelTree{}})
	// Rows that came after the indexes, and deleted ones: covered where
	// maintenance follows, fresh where it does not.
	for _, coll := range []string{"images", "terms", "texts"} {
		do(b.put(coll, 1100, 1220))
		do(b.remove(coll, 20))
	}
	if err == nil {
		_, e := b.d.Maintain(ctx, 0.01, nil)
		do(e)
	}
	for _, coll := range []string{"images", "vectors", "points", "terms", "words", "texts"} {
		do(b.put(coll, 100, 110))
		do(b.remove(coll, 5))
	}
	do(b.d.Collection("vectors").DropIndex(ctx, "gone"))
	do(b.d.Drop(ctx, "gone"))
	return err
}

func (b *builder) put(coll string, from, to int) error {
	return b.d.Update(context.Background(), func(batch *db.Tx) error {
		for i := from; i < to; i++ {
			if err := batch.Collection(coll).Put(b.row(coll, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *builder) remove(coll string, n int) error {
	return b.d.Update(context.Background(), func(batch *db.Tx) error {
		for i := range n {
			if err := batch.Collection(coll).Delete(key(coll, 31*i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func key(coll string, i int) []byte { return fmt.Appendf(nil, "%s-%06d", coll, i) }

// row makes a row near one of forty centres; its labels follow the centre, so
// that there is something to learn.
func (b *builder) row(coll string, i int) db.Row {
	const centres = 40
	c := b.rng.IntN(centres)
	r := db.Row{Key: key(coll, i), Labels: []string{fmt.Sprint("topic-", c%7)},
		Attributes: map[string]any{"topic": c % 7, "name": fmt.Sprint("name ", i)}}
	if c%3 == 0 && coll != "words" { // one label a row there, for trees of kind sbt
		r.Labels = append(r.Labels, fmt.Sprint("kind-", c%4))
	}
	if coll == "images" {
		r.Payload = make([]byte, b.rng.IntN(4000))
		for j := range r.Payload {
			r.Payload[j] = byte(b.rng.Uint32())
		}
	}
	dims := map[string]int{"images": 784, "vectors": 300, "points": 16, "texts": 24, "gone": 784}
	if dim := dims[coll]; dim > 0 {
		if b.centres == nil {
			b.centres = map[string][][]float32{}
		}
		for len(b.centres[coll]) < centres {
			x := make([]float32, dim)
			for j := range x {
				x[j] = 128 + 40*float32(b.rng.NormFloat64())
			}
			b.centres[coll] = append(b.centres[coll], x)
		}
		r.Vector = make([]float32, dim)
		for j, y := range b.centres[coll][c] {
			r.Vector[j] = max(0, y+12*float32(b.rng.NormFloat64()))
			if coll == "images" || coll == "gone" { // stored as bytes
				r.Vector[j] = float32(int(max(0, min(255, r.Vector[j]))))
			}
		}
		if coll != "texts" || i%5 == 0 {
			return r
		}
		if i%5 == 1 {
			r.Vector = nil
		}
	}
	seen := map[uint32]float32{}
	for range 40 + b.rng.IntN(60) {
		f := uint32(b.rng.IntN(1500))
		if b.rng.IntN(2) == 0 {
			f = uint32(c*37 + b.rng.IntN(40)) // words of the topic
		}
		seen[f] = float32(1 + b.rng.IntN(4))
	}
	for f := range uint32(centres*37 + 40) {
		v, ok := seen[f]
		switch {
		case !ok:
		case coll == "texts":
			r.Text += strings.Repeat(fmt.Sprintf("word%04d ", f), int(v))
		case coll == "words":
			r.Features = append(r.Features, vector.Feature{Name: fmt.Sprintf("word-%04d", f), Value: v})
		default:
			r.Sparse.Index = append(r.Sparse.Index, f)
			r.Sparse.Value = append(r.Sparse.Value, v)
		}
	}
	return r
}
