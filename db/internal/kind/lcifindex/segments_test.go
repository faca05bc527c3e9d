package lcifindex_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// changing is a collection whose rows change at random.
type changing struct {
	*db.DB
	t interface {
		dbtest.TB
		Context() context.Context
	}
	rng   *rand.Rand
	dense bool
	width int // number of features
	names int // number of labels
	next  int // the first key that no row had
}

// row draws a row with a key and labels. Later labels come first in the alphabet.
func (c *changing) row(key int) db.Row {
	r := db.Row{Key: fmt.Append(nil, key), Labels: c.labels()}
	q := c.query()
	r.Sparse, r.Vector = q.Sparse, q.Vector
	return r
}

func (c *changing) labels() (set []string) {
	for range c.rng.IntN(4) {
		if name := fmt.Sprint("l", 90-c.rng.IntN(c.names)); !slices.Contains(set, name) {
			set = append(set, name)
		}
	}
	return set
}

// query draws a vector of the collection, with values of which many are equal, and some are negative if they
// may be.
func (c *changing) query() db.Query {
	x := dbtest.RandomSparse(c.rng, c.rng.IntN(8), c.width)
	for i := range x.Value {
		x.Value[i] = float32(1 + c.rng.IntN(3))
	}
	if !c.dense {
		return db.Query{Sparse: x}
	}
	q := db.Query{Vector: make([]float32, c.width)}
	for i, f := range x.Index {
		q.Vector[f] = x.Value[i] * float32(1-2*c.rng.IntN(4)/3)
	}
	return q
}

// change writes new rows or, less often, also replaces, deletes and relabels some or many.
func (c *changing) change() {
	if c.names += c.rng.IntN(3); !c.dense {
		c.width += c.rng.IntN(5)
	}
	replaced, deleted, relabelled := 0, 0, 0
	if c.rng.IntN(3) == 0 {
		replaced, deleted, relabelled = c.rng.IntN(20), c.rng.IntN(2)*c.rng.IntN(40), c.rng.IntN(40)
	}
	dbtest.Must(c.t, c.Update(c.t.Context(), func(b *db.Tx) error {
		x := b.Collection("s")
		var failed []error
		for range c.rng.IntN(20) {
			failed = append(failed, x.Put(c.row(c.next)))
			c.next++
		}
		for range replaced {
			failed = append(failed, x.Put(c.row(c.rng.IntN(c.next))))
		}
		for range deleted {
			failed = append(failed, x.Delete(fmt.Append(nil, c.rng.IntN(c.next))))
		}
		for range relabelled {
			err := x.SetLabels(fmt.Append(nil, c.rng.IntN(c.next)), c.labels()...)
			if !errors.Is(err, db.ErrNotFound) {
				failed = append(failed, err)
			}
		}
		return errors.Join(failed...)
	}))
}

// compare compares the predictions of two models, with all scores or only the labels.
func (c *changing) compare(a, b string, p *lcif.Params) {
	for range 12 {
		q := c.query()
		params := *p
		params.Top = c.rng.IntN(6)
		var got [2][]db.Prediction
		for i, index := range []string{a, b} {
			o := &db.PredictOptions{Index: index, Params: &params}
			var err error
			got[i], _, err = dbtest.Predict(c.t.Context(), c.Collection("s"), q, o)
			dbtest.Must(c.t, err)
		}
		same := slices.EqualFunc(got[0], got[1], func(x, y db.Prediction) bool {
			return x.Label == y.Label && math.Float32bits(x.Score) == math.Float32bits(y.Score)
		})
		if !same {
			c.t.Fatal(fmt.Sprintf("query %v: %s predicts %v, %s %v", q, a, got[0], b, got[1]))
		}
	}
}

// samePredictions compares the predictions of a model for two queries.
func (c *changing) samePredictions(model string, a, b db.Query, p *lcif.Params) {
	var got [2][]db.Prediction
	for i, q := range []db.Query{a, b} {
		var err error
		got[i], _, err = dbtest.Predict(c.t.Context(), c.Collection("s"), q, &db.PredictOptions{Index: model, Params: p})
		dbtest.Must(c.t, err)
	}
	if !slices.Equal(got[0], got[1]) {
		c.t.Fatal(fmt.Sprintf("%v predicts %v, %v %v", a, got[0], b, got[1]))
	}
}

// TestMaintainedIsRebuilt mixes puts, replacements, deletes, changes of labels, maintenance and reopening at
// random: after maintenance, the predictions of a label model, ties included, are those of one that is built
// from the present rows with the same parameters, bit for bit.
func TestMaintainedIsRebuilt(t *testing.T) {
	t.Parallel()
	path, actions := filepath.Join(t.TempDir(), "db"), map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		ctx := t.Context()
		defer func() { _ = os.Remove(path) }()
		open := func() *db.DB {
			d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
			dbtest.Must(t, err)
			return d
		}
		c := &changing{
			DB: open(), t: t, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
			dense: rapid.IntRange(0, 3).Draw(t, "dense") == 0, width: 60, names: 4,
		}
		defer func() { _ = c.Close() }()
		schema, neighbors := db.Schema{Sparse: true}, ""
		if c.dense {
			schema, neighbors = db.Schema{Dim: c.width}, db.Flat
		}
		dbtest.Must(t, dbtest.Create(ctx, c.DB, "s", schema))
		var rows []db.Row
		for ; c.next < 250; c.next++ {
			rows = append(rows, c.row(c.next))
		}
		dbtest.Must(t, dbtest.Put(c.DB, "s", rows...))
		p := &lcif.Params{
			K: 1 + c.rng.IntN(12), Alpha: []float64{0.5, 1, 1.5}[c.rng.IntN(3)],
			Beta:        []float64{0.5, 1, 1.5, 2, 0.8, 5}[c.rng.IntN(6)],
			Lambda:      []float64{0, 0.4, 1}[c.rng.IntN(3)],
			SecondOrder: []float64{0, 0, 0.3, 1}[c.rng.IntN(4)],
		}
		if c.rng.IntN(2) == 0 {
			p.Thresholds = &labels.Thresholds{Single: 0.2, KeepTop: true}
		}
		o := &index.LCIF{Params: p, Neighbors: neighbors}
		dbtest.Builds(t, c.DB, "s", "kept", o)
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			c.change()
			if c.rng.IntN(4) == 0 {
				dbtest.Must(t, c.Close())
				c.DB = open()
			}
			c.compare("kept", "kept", p) // opens the model before maintenance
			steps, err := c.Maintain(ctx, 0, nil)
			dbtest.Must(t, err)
			for _, s := range steps {
				actions[s.Action]++
			}
			if again, err := c.Maintain(ctx, 0, nil); err != nil || len(again) > 0 {
				t.Fatalf("maintenance at once again: %v, %v", again, err)
			}
			dbtest.Builds(t, c.DB, "s", "rebuilt", o)
			c.compare("kept", "rebuilt", p)
			dbtest.Must(t, c.Collection("s").DropIndex(ctx, "rebuilt"))
		}
		dbtest.Must(t, dbtest.Check(c.DB))
		dbtest.Must(t, dbtest.LeavesNothing(c.DB))
	})
	for _, a := range []string{"segment", "merge", "relearn"} {
		if actions[a] == 0 {
			t.Errorf("no step of kind %q: %v", a, actions)
		}
	}
}

// TestWeighedSegments: a segment has the weights and the selection of features of the first one. Rows that
// leave both as they are then predict as after a rebuild; new features have no weight.
func TestWeighedSegments(t *testing.T) {
	for name, o := range map[string]*index.LCIF{
		"weighed":  {Weight: "tfidf", Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"selected": {Params: &lcif.Params{K: 5, Lambda: 0.5, Features: 20}},
	} {
		for seed := range uint64(3) {
			d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
			c := &changing{DB: d, t: t, rng: rand.New(rand.NewPCG(seed, 1)), width: 40, names: 4}
			dbtest.Must(t, dbtest.Create(t.Context(), d, "s", db.Schema{Sparse: true}))
			var block []db.Row
			for i := range 20 {
				block = append(block, c.row(i))
			}
			put := func(n int) {
				for i := range block {
					block[i].Key = fmt.Append(nil, n, " ", i)
				}
				dbtest.Must(t, dbtest.Put(d, "s", block...))
			}
			for n := range 10 {
				put(n)
			}
			dbtest.Builds(t, d, "s", "kept", o)
			put(10)
			steps, err := d.Maintain(t.Context(), 0, nil)
			if err != nil || len(steps) != 1 || steps[0].Action != "segment" {
				t.Fatalf("%s: steps %v, %v", name, steps, err)
			}
			dbtest.Builds(t, d, "s", "rebuilt", o)
			c.compare("kept", "rebuilt", o.Params)
			c.width = 80
			dbtest.Must(t, dbtest.Put(d, "s", c.row(1), c.row(2), c.row(3)))
			_, err = d.Maintain(t.Context(), 0, nil)
			dbtest.Must(t, err)
			c.width = 40
			for range 12 {
				known := c.query()
				more := db.Query{Sparse: vector.Sparse{Index: slices.Clone(known.Sparse.Index), Value: slices.Clone(known.Sparse.Value)}}
				for f := uint32(40); f < 80; f += 7 {
					more.Sparse.Index, more.Sparse.Value = append(more.Sparse.Index, f), append(more.Sparse.Value, 2)
				}
				c.samePredictions("kept", known, more, o.Params)
			}
			dbtest.Must(t, dbtest.Check(d))
		}
	}
}

// TestMaintainedThresholds keeps each label's threshold its own, whatever numbers labels have after a model
// was rebuilt, by maintenance or because rows were renumbered.
func TestMaintainedThresholds(t *testing.T) {
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	put := func(key, label string, f uint32) error {
		x := vector.Sparse{Index: []uint32{f}, Value: []float32{1}}
		return dbtest.Put(d, "s", db.Row{Key: []byte(key), Sparse: x, Labels: []string{label}})
	}
	limits := &labels.Thresholds{Single: 0.5, PerLabel: []float64{0.1, 3}}
	o := &index.LCIF{Params: &lcif.Params{K: 1, Lambda: 1, Thresholds: limits}}
	dbtest.Must(t, errors.Join(dbtest.Create(t.Context(), d, "s", db.Schema{Sparse: true}),
		put("1", "low", 0), put("2", "high", 1)))
	dbtest.Builds(t, d, "s", "kept", o)
	verify := func() {
		t.Helper()
		for f, want := range []string{"low", "", "new"} {
			q := db.Query{Sparse: vector.Sparse{Index: []uint32{uint32(f)}, Value: []float32{1}}}
			out, _, err := dbtest.Predict(t.Context(), d.Collection("s"), q, nil)
			var got string
			for _, p := range out {
				got += p.Label
			}
			if err != nil || got != want {
				t.Errorf("feature %d: %q, want %q, %v", f, got, want, err)
			}
		}
	}
	// The label of the first row goes and comes back behind the other one.
	dbtest.Must(t, errors.Join(put("1", "low", 0), put("3", "new", 2)))
	steps, err := d.Maintain(t.Context(), 0, nil)
	if err != nil || len(steps) != 1 || steps[0].Action != "relearn" {
		t.Fatalf("steps %v, %v", steps, err)
	}
	verify()
	// Rows get new numbers, the label that was the first comes last.
	dbtest.Must(t, errors.Join(put("2", "high", 1), d.Compact(t.Context(), nil), dbtest.Check(d)))
	verify()
}

// TestHostileSegment: the arrays of a small segment are checked before they are used.
func TestHostileSegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "s", db.Schema{Sparse: true}))
	row := func(i int) db.Row {
		return db.Row{
			Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3), fmt.Sprint("m", i/100)},
			Sparse: vector.Sparse{Index: []uint32{uint32(i % 5), 7}, Value: []float32{1, 2}},
		}
	}
	for i := range 100 {
		dbtest.Must(t, dbtest.Put(d, "s", row(i)))
	}
	dbtest.Builds(t, d, "s", "x", &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}})
	dbtest.Must(t, dbtest.Put(d, "s", row(100), row(101)))
	_, err := d.Maintain(t.Context(), 0, nil)
	small := uint64(0)
	dbtest.Must(t, errors.Join(err, dbtest.Check(d), d.Close()))
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	for _, p := range f.Pairs {
		if object, section, _ := codec.ParseKey(p.Key); section == codec.KindSimilarity {
			small = max(small, object)
		}
	}
	for name, c := range map[string]struct {
		section codec.Kind
		number  uint32
		data    []byte
	}{
		"label beyond":         {codec.KindLabelMatrix, 1, le(4, 2, 4, 3, 9)},
		"labels out of order":  {codec.KindLabelMatrix, 1, le(4, 4, 2, 3, 4)},
		"offsets of labels":    {codec.KindLabelMatrix, 0, le(8, 0, 9, 4)},
		"fewer rows":           {codec.KindLabelMatrix, 0, le(8, 0, 4)},
		"fewer sums":           {codec.KindSimilarity, 2, le(8, 1)},
		"no sums":              {codec.KindSimilarity, 2, make([]byte, 8*7)},
		"sums below zero":      {codec.KindSimilarity, 2, slices.Repeat([]byte{0xff}, 8*7)},
		"sums that overflow":   {codec.KindSimilarity, 2, slices.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 7)},
		"fewer lengths":        {codec.KindSimilarity, 3, le(8, 1, 2)},
		"fewer rows of labels": {codec.KindSimilarity, 4, le(4, 1)},
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		dbtest.PutBlock(t, path, layout.BucketBlocks, codec.Key(small, c.section, c.number), c.data)
		dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
			_, err := s.Collection("s").Predict(t.Context(), db.Query{Key: []byte("5")}, &db.PredictOptions{Index: "x"})
			dbtest.MustBeCorrupt(t, name, err)
		})
	}
}

// le encodes numbers of so many bytes.
func le(width int, numbers ...uint64) (out []byte) {
	for _, x := range numbers {
		for i := range width {
			out = append(out, byte(x>>(8*i)))
		}
	}
	return out
}
