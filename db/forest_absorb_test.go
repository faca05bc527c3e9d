package db_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// recallOf returns the share of the rows in truth that an index finds.
func recallOf(b *bed, index string, p query.Params, q []float32, truth map[string]bool) (recall float64) {
	hits, _ := b.Search(q, len(truth), &db.SearchOptions{Index: index, Params: &p})
	for _, h := range hits {
		if truth[string(h.Key)] {
			recall++
		}
	}
	return recall / float64(len(truth))
}

// TestMaintainForest mixes puts, updates, deletes and maintenance, and compares the recall of
// the maintained forest with that of a new one: by the natural classifier alone, with hops,
// by beams, and by lookup where leaves have members.
func TestMaintainForest(t *testing.T) {
	t.Parallel()
	n, dim, k := 3000, 32, 10
	if testing.Short() {
		n = 1500
	}
	for i, c := range []struct {
		metric vector.Metric
		o      db.Forest
	}{
		{vector.L2, db.Forest{Members: true, Quantize: true}},
		{vector.Cosine, db.Forest{Learner: "pca"}},
		{vector.InnerProduct, db.Forest{Learner: "rp"}},
		{vector.L2, db.Forest{SketchBytes: 128}},
	} {
		t.Run(c.metric.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			b := newBed(t, c.metric, dim)
			pool := dbtest.Mixture(uint64(20+i), 2*n, dim)
			b.Put("a", pool[:n])
			c.o.NoTune, c.o.Trees, c.o.LeafNeighbors = true, 10, 30
			c.o.Depth = bits.Len(uint(n / 7)) // so that no threshold is near a whole vote
			built := b.Build("kept", &c.o)
			inserts := 0
			next := n
			maintain := func() {
				steps, err := b.D.Maintain(context.Background(), 0, nil)
				b.Must(err)
				for _, s := range steps {
					if s.Action != "insert" {
						t.Errorf("step %+v, want one that inserts", s)
					}
					inserts++
				}
			}
			for round := range 5 {
				more := rng.IntN(n/100) + n/100
				b.Put(fmt.Sprint("b", round, "-"), pool[next:next+more])
				next += more
				for range n / 200 {
					b.Drop(fmt.Sprint("a", rng.IntN(n)))
				}
				// Updates: new vectors under old keys.
				b.Put("a", pool[next:next+n/200])
				next += n / 200
				maintain()
				if round == 2 {
					b.Reopen()
				}
			}
			b.Check()
			if inserts < 5 {
				t.Errorf("%d steps", inserts)
			}
			b.Build("fresh", &c.o)
			queries := dbtest.Mixture(uint64(40+i), 150, dim)
			truth := make([]map[string]bool, len(queries))
			for j, q := range queries {
				truth[j] = map[string]bool{}
				for _, w := range b.Exact(q, nil)[:k] {
					truth[j][w.Key] = true
				}
			}
			for _, p := range []query.Params{
				{Tau: 0.005}, {Tau: 0.02, Trees: 4, Sketch: true, R: 60, Hops: 2, HopKeep: 20},
				{Sketch: true, Beam: 40, R: 40}, {Method: query.Lookup},
			} {
				if p.Method == query.Lookup && !c.o.Members {
					continue
				}
				p.NoWiden = true
				kept, fresh := 0.0, 0.0
				for i, q := range queries {
					kept += recallOf(b, "kept", p, q, truth[i]) / float64(len(queries))
					fresh += recallOf(b, "fresh", p, q, truth[i]) / float64(len(queries))
				}
				t.Logf("tau %g, %v, hops %d, beam %d: recall %.4f, new %.4f", p.Tau, p.Method, p.Hops, p.Beam, kept, fresh)
				if kept < fresh-0.01 {
					t.Errorf("recall %.4f, %.4f of a new forest", kept, fresh)
				}
			}
			b.Must(b.D.Collection("c").DropIndex(context.Background(), "fresh"))
			// Many more rows: the forest is rebuilt.
			b.Put("much", dbtest.Mixture(uint64(60+i), n/4, dim))
			steps, err := b.D.Maintain(context.Background(), 0, nil)
			b.Must(err)
			if len(steps) != 1 || steps[0].Action != "relearn" {
				t.Errorf("steps %+v, want one that rebuilds the forest", steps)
			}
			b.Must(b.D.View(func(s *db.Snapshot) error {
				info, err := s.Collection("c").Index("kept")
				if info.TrainingPoints != len(b.Rows) || !info.Created.Equal(built.Created) || info.Maintained.IsZero() {
					t.Errorf("after all: %d points of %d rows, built %v", info.TrainingPoints, len(b.Rows), info.Created)
				}
				return err
			}))
		})
	}
}

// TestMaintainFound inserts rows and searches for each of them, by leaves and by beams: all are found
// by the index itself.
func TestMaintainFound(t *testing.T) {
	t.Parallel()
	const n, fresh, dim = 2000, 100, 32
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, n, dim))
	b.Build("x", &db.Forest{NoTune: true})
	rows := dbtest.Mixture(2, fresh, dim)
	b.Put("new", rows)
	_, err := b.D.Maintain(context.Background(), 0, nil)
	b.Must(err)
	for _, p := range []query.Params{{}, {Sketch: true, Beam: 60, R: 60}} {
		p.NoWiden = true
		for i, x := range rows {
			hits, stats := b.Search(x, 1, &db.SearchOptions{Params: &p})
			if stats.Fresh != 0 || string(hits[0].Key) != fmt.Sprint("new", i) {
				t.Errorf("%+v: new row %d: %d rows are still fresh, found %q", p, i, stats.Fresh, hits[0].Key)
			}
		}
	}
}

// TestMaintainWithoutBeam: an index that no beam can search absorbs nothing, its fresh rows are
// found by scans, and it is rebuilt when a fifth has changed.
func TestMaintainWithoutBeam(t *testing.T) {
	t.Parallel()
	const n, dim = 300, 8
	for name, o := range map[string]*db.Forest{"no lists": {NoLists: true}, "no sketches": {NoSketches: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, vector.L2, dim)
			b.Put("a", dbtest.Mixture(1, n, dim))
			o.NoTune = true
			b.Build("x", o)
			fresh := dbtest.Mixture(2, n/10, dim)
			b.Put("b", fresh)
			steps, err := b.D.Maintain(context.Background(), 0, nil)
			b.Must(err)
			if len(steps) != 0 {
				t.Errorf("steps %+v, want none", steps)
			}
			for i, x := range fresh {
				hits, stats := b.Search(x, 1, &db.SearchOptions{Params: &query.Params{NoWiden: true}})
				if stats.Fresh != len(fresh) || string(hits[0].Key) != fmt.Sprint("b", i) {
					t.Errorf("new row %d: %d rows are fresh, found %q", i, stats.Fresh, hits[0].Key)
				}
			}
			b.Put("c", dbtest.Mixture(3, n/8, dim))
			steps, err = b.D.Maintain(context.Background(), 0, nil)
			b.Must(err)
			if len(steps) != 1 || steps[0].Action != "relearn" {
				t.Errorf("steps %+v, want one that rebuilds the forest", steps)
			}
		})
	}
}

// TestMaintainGraph grows an index of rows without clusters, of which later ones are far out,
// so that they are among the nearest of few, and compares beams with those of a new index.
func TestMaintainGraph(t *testing.T) {
	t.Parallel()
	const n, dim, k, queries = 4000, 24, 10, 100
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine} {
		t.Run(metric.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(metric), 11))
			cloud := func(count int, scale float64) [][]float32 {
				rows := make([][]float32, count)
				for i := range rows {
					rows[i] = make([]float32, dim)
					for j := range rows[i] {
						rows[i][j] = float32(scale * rng.NormFloat64())
					}
				}
				return rows
			}
			b := newBed(t, metric, dim)
			b.Put("a", cloud(n, 1))
			o := &db.Forest{NoTune: true}
			b.Build("kept", o)
			b.Put("b", cloud(n/6, 1.5))
			steps, err := b.D.Maintain(context.Background(), 0, nil)
			b.Must(err)
			if len(steps) != 1 || steps[0].Action != "insert" {
				t.Fatalf("steps %+v, want one that inserts", steps)
			}
			b.Check()
			b.Build("fresh", o)
			p := query.Params{Sketch: true, Beam: 60, R: 60, NoWiden: true}
			var recall [2]float64
			for _, q := range cloud(queries, 1.5) {
				truth := map[string]bool{}
				for _, w := range b.Exact(q, nil)[:k] {
					truth[w.Key] = true
				}
				for i, name := range []string{"kept", "fresh"} {
					recall[i] += recallOf(b, name, p, q, truth) / queries
				}
			}
			t.Logf("recall %.3f, of a new index %.3f", recall[0], recall[1])
			if recall[0] < recall[1]-0.02 {
				t.Errorf("recall %.3f, of a new index %.3f", recall[0], recall[1])
			}
		})
	}
}
