package sample_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"

	"github.com/anndb/anndb/db/internal/dbtest"
)

// sampleBed is a collection of rows near a few lines, which queries between the lines are unlike.
type sampleBed struct {
	*testing.T
	d   *db.DB
	rng *rand.Rand
}

const sampleDim = 24

func newSampleBed(t *testing.T, rows int) *sampleBed {
	b := &sampleBed{T: t, rng: rand.New(rand.NewPCG(5, 6))}
	b.open(filepath.Join(t.TempDir(), "db"), 200)
	b.must(dbtest.Create(t.Context(), b.d, "c", db.Schema{Dim: sampleDim}))
	dbtest.Fill(t, b.d, "c", 0, rows, func(i int) db.Row {
		return db.Row{Key: fmt.Append(nil, i), Vector: b.row()}
	})
	dbtest.Builds(t, b.d, "c", "main", nil)
	return b
}

func (b *sampleBed) must(err error) {
	b.Helper()
	dbtest.Must(b, err)
}

func (b *sampleBed) open(path string, sample int) {
	b.Helper()
	d, err := dbtest.Open(context.Background(), path, &db.Options{NoSync: true, SampleQueries: sample})
	b.must(err)
	b.d = d
	b.Cleanup(func() { d.Close() })
}

func (b *sampleBed) row() []float32 {
	x := make([]float32, sampleDim)
	for i := range x {
		x[i] = float32(b.rng.NormFloat64())
	}
	x[b.rng.IntN(sampleDim)] += 12
	return x
}

// queries returns queries that are far from all rows.
func (b *sampleBed) queries(n int) (out [][]float32) {
	for range n {
		x := make([]float32, sampleDim)
		for i := range x {
			x[i] = float32(6 * b.rng.NormFloat64())
		}
		out = append(out, x)
	}
	return out
}

func (b *sampleBed) ask(queries [][]float32, o *db.SearchOptions) (far int) {
	b.Helper()
	for _, q := range queries {
		res, err := b.d.Collection("c").Search(b.Context(), db.Query{Vector: q}, o)
		b.must(err)
		if res.Stats.Far {
			far++
		}
	}
	return far
}

func (b *sampleBed) maintain() (actions []string) {
	b.Helper()
	steps, err := b.d.Maintain(b.Context(), 0, nil)
	b.must(err)
	for _, s := range steps {
		actions = append(actions, s.Action)
	}
	return actions
}

// measured returns the number of queries of users on which the recall was measured.
func (b *sampleBed) measured() int {
	b.Helper()
	info, err := b.d.Collection("c").Index("main")
	b.must(err)
	return info.Curve.Sampled
}

// TestSampleQueries: queries of users that are unlike the rows are measured by maintenance when there
// are enough new ones, and get the recall that they ask for.
func TestSampleQueries(t *testing.T) {
	b := newSampleBed(t, 3000)
	users, others := b.queries(150), b.queries(150)
	for _, o := range []*db.SearchOptions{
		{Index: db.Flat}, {Radius: new(1.0)}, {Where: filter.KeyPrefix([]byte("1"))},
	} {
		b.ask(users[:99], o)
	}
	far := b.ask(users[:99], nil)
	if got := b.maintain(); got != nil || b.measured() != 0 {
		t.Errorf("99 queries: %q, %d measured", got, b.measured())
	}
	if far += b.ask(users[99:], nil); far < 100 {
		t.Errorf("%d of 150 foreign queries are far before they are measured", far)
	}
	if got := b.maintain(); !slices.Equal(got, []string{"measure"}) || b.measured() != 150 {
		t.Errorf("150 queries: %q, %d measured", got, b.measured())
	}
	b.delivers(others, 0.9)
	if far := b.ask(users, nil); far > 1 {
		t.Errorf("%d of 150 measured queries are far", far)
	}
	// 300 queries were asked; the sample holds 200.
	if got := b.maintain(); len(got) != 1 || b.measured() != 200 {
		t.Errorf("150 more queries: %q, %d measured", got, b.measured())
	}
	if got := b.maintain(); got != nil {
		t.Errorf("nothing new: %q", got)
	}
	if err := b.d.Check(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}

// delivers checks the recall of searches for 10 rows.
func (b *sampleBed) delivers(queries [][]float32, least float64) {
	b.Helper()
	c, found := b.d.Collection("c"), 0
	for _, q := range queries {
		want, err := c.Search(b.Context(), db.Query{Vector: q}, &db.SearchOptions{Index: db.Flat})
		b.must(err)
		got, err := c.Search(b.Context(), db.Query{Vector: q}, nil)
		b.must(err)
		for _, h := range got.Hits {
			if h.Distance <= want.Hits[9].Distance {
				found++
			}
		}
	}
	if recall := float64(found) / float64(10*len(queries)); recall < least {
		b.Errorf("recall %.3f, want %g", recall, least)
	}
}

// TestSampleIsStored: queries are measured by a build, and after the file was opened again, by compactions
// that give rows other numbers, and until the collection is dropped.
func TestSampleIsStored(t *testing.T) {
	b := newSampleBed(t, 1500)
	again := func(sample int) {
		b.must(b.d.Close())
		b.open(b.d.Path(), sample)
	}
	b.ask(b.queries(70), nil)
	again(200)
	b.ask(b.queries(50), nil)
	b.must(b.d.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 700 {
			if err := tx.Collection("c").Delete(fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
	b.must(b.d.Compact(t.Context(), nil))
	if b.measured() != 120 {
		t.Errorf("%d queries measured by a compaction", b.measured())
	}
	b.ask(b.queries(30), nil)
	again(200)
	b.must(b.d.Compact(t.Context(), nil))
	again(200)
	dbtest.Builds(t, b.d, "c", "main", nil)
	if got := b.maintain(); got != nil || b.measured() != 150 {
		t.Errorf("after a build: %q, %d measured", got, b.measured())
	}
	b.must(b.d.Check(t.Context(), nil, nil))
	again(-1)
	dbtest.Builds(t, b.d, "c", "main", nil)
	b.ask(b.queries(20), nil)
	again(200)
	if b.measured() != 0 {
		t.Errorf("%d queries measured without a sample", b.measured())
	}
	b.must(b.d.Drop(t.Context(), "c"))
	b.must(dbtest.Create(t.Context(), b.d, "c", db.Schema{Dim: sampleDim}))
	b.must(b.d.Check(t.Context(), nil, nil))
}

// TestSampleOfDiscardedNumbers: a compaction that does not renumber a collection after all, since its label
// model cannot be rebuilt, leaves its queries to no collection that is created later.
func TestSampleOfDiscardedNumbers(t *testing.T) {
	b := newSampleBed(t, 300)
	change := func(f func(c db.TxCollection, key []byte) error) {
		b.must(b.d.Update(t.Context(), func(tx *db.Tx) error {
			for i := range 300 {
				if err := f(tx.Collection("c"), fmt.Append(nil, i)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	change(func(c db.TxCollection, key []byte) error { return c.SetLabels(key, string(key[:1])) })
	dbtest.Builds(t, b.d, "c", "model", &index.LCIF{Neighbors: db.Flat})
	b.ask(b.queries(150), nil)
	change(func(c db.TxCollection, key []byte) error {
		if key[0] < '5' {
			return c.Delete(key)
		}
		return c.SetLabels(key)
	})
	b.must(b.d.Compact(t.Context(), nil))
	b.must(dbtest.Create(t.Context(), b.d, "later", db.Schema{Dim: 7}))
	dbtest.Fill(t, b.d, "later", 0, 300, func(i int) db.Row { return db.Row{Key: fmt.Append(nil, i), Vector: b.row()[:7]} })
	dbtest.Builds(t, b.d, "later", "main", nil)
	b.must(b.d.Check(t.Context(), nil, nil))
}

// TestSampleReadOnly: a file that is open for reading only is not changed by queries.
func TestSampleReadOnly(t *testing.T) {
	b := newSampleBed(t, 300)
	path := b.d.Path()
	b.must(b.d.Close())
	before, err := os.ReadFile(path)
	b.must(err)
	b.d, err = db.Open(t.Context(), path, &db.Options{ReadOnly: true})
	b.must(err)
	b.ask(b.queries(150), nil)
	b.must(b.d.Close())
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestSampleOption: too small and too large samples are refused.
func TestSampleOption(t *testing.T) {
	for _, n := range []int{-2, 1, 99, 10_001} {
		_, err := dbtest.Open(t.Context(), filepath.Join(t.TempDir(), "db"), &db.Options{SampleQueries: n})
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
