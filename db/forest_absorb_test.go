package db_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// recalls are the shares of the rows in truth that an index finds, and the numbers
// of candidates, by query.
func recalls(b *bed, index string, p query.Params, queries [][]float32, truth []map[string]bool) (recall, candidates []float64) {
	for i, q := range queries {
		r, n := recallOf(b, index, p, q, truth[i])
		recall, candidates = append(recall, r), append(candidates, n)
	}
	return recall, candidates
}

func recallOf(b *bed, index string, p query.Params, q []float32, truth map[string]bool) (recall, candidates float64) {
	hits, stats := b.search(q, len(truth), &db.SearchOptions{Index: index, Params: &p})
	for _, h := range hits {
		if truth[string(h.Key)] {
			recall++
		}
	}
	return recall / float64(len(truth)), float64(stats.Candidates)
}

// recallAt is the recall of an index for a query at as many candidates as given,
// those of highest estimate. Where several have the estimate of the last, each has
// the same chance to be taken.
func recallAt(b *bed, index string, p query.Params, q []float32, truth map[string]bool, candidates float64) float64 {
	above, most := recallOf(b, index, p, q, truth)
	if p.Method == query.Lookup || most <= candidates {
		return above
	}
	low, high := p.Tau, 1.0
	below, fewest := 0.0, 0.0 // no estimate is above 1
	for range 20 {
		p.Tau = (low + high) / 2
		if r, n := recallOf(b, index, p, q, truth); n > candidates {
			low, above, most = p.Tau, r, n
		} else {
			high, below, fewest = p.Tau, r, n
		}
	}
	return below + (above-below)*(candidates-fewest)/(most-fewest)
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// TestMaintainForest mixes puts, updates, deletes and maintenance, and compares
// the maintained forest with a new one, by the natural classifier alone,
// with label hops, and by lookup where leaves have members. Both have equally many
// candidates for each query, those of highest estimate. One threshold for all queries
// would not compare rankings: leaves that gained points have smaller proportions a
// vote, so that it leaves queries that come to them with fewer candidates. By inner
// product, where no forest finds nearly all rows, this costs a recall of 0.007 at
// equal means, with and without exact leaf sizes, while rankings are equally good.
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
			pool := mixture(uint64(20+i), 2*n, dim)
			b.put("a", pool[:n])
			c.o.NoTune, c.o.Trees, c.o.LeafNeighbors = true, 10, 30
			c.o.Depth = bits.Len(uint(n / 7)) // so that no threshold is near a whole vote
			built := b.build("kept", &c.o)
			folds := 0
			next := n
			maintain := func() {
				steps, err := b.d.Maintain(context.Background(), 0)
				b.must(err)
				for _, s := range steps {
					if s.Action != "insert" {
						t.Errorf("step %+v, want a fold", s)
					}
					folds++
				}
			}
			for round := range 5 {
				more := rng.IntN(n/100) + n/100
				b.put(fmt.Sprint("b", round, "-"), pool[next:next+more])
				next += more
				for range n / 200 {
					b.drop(fmt.Sprint("a", rng.IntN(n)))
				}
				// Updates: new vectors under old keys.
				b.put("a", pool[next:next+n/200])
				next += n / 200
				maintain()
				if round == 2 {
					b.reopen()
				}
			}
			b.check()
			if folds < 5 {
				t.Errorf("%d folds", folds)
			}
			b.build("fresh", &c.o)
			queries := mixture(uint64(40+i), 150, dim)
			truth := make([]map[string]bool, len(queries))
			for j, q := range queries {
				truth[j] = map[string]bool{}
				for _, w := range b.exact(q, nil)[:k] {
					truth[j][w.key] = true
				}
			}
			gap, cases := 0.0, 0.0
			for _, p := range []query.Params{
				{Tau: 0.005}, {Tau: 0.02, Trees: 6},
				{Tau: 0.02, Trees: 4, Sketch: true, R: 60, Hops: 2, HopKeep: 20},
				{Method: query.Lookup},
			} {
				if p.Method == query.Lookup && !c.o.Members {
					continue
				}
				p.NoWiden = true
				_, usedOf := recalls(b, "kept", p, queries, truth)
				_, ofOf := recalls(b, "fresh", p, queries, truth)
				used, of := mean(usedOf), mean(ofOf)
				kept, fresh := 0.0, 0.0
				for i, q := range queries {
					kept += recallAt(b, "kept", p, q, truth[i], 0.8*of) / float64(len(queries))
					fresh += recallAt(b, "fresh", p, q, truth[i], 0.8*of) / float64(len(queries))
				}
				t.Logf("tau %g, %v, hops %d: %.0f candidates, new %.0f; recall %.4f with 0.8 of these, new %.4f",
					p.Tau, p.Method, p.Hops, used, of, kept, fresh)
				// Labels that were pushed out of lists still count: a threshold
				// takes more candidates than it would of leaves counted rebuilt.
				if used > 1.25*of {
					t.Errorf("%.0f candidates, new %.0f", used, of)
				}
				gap += fresh - kept
				cases++
			}
			if gap /= cases; gap > 0.005 {
				t.Errorf("recall is %.4f below that of a new forest", gap)
			}
			b.must(b.d.Collection("c").DropIndex(context.Background(), "fresh"))
			// Much more of it: the forest is relearned.
			b.put("much", mixture(uint64(60+i), n/4, dim))
			steps, err := b.d.Maintain(context.Background(), 0)
			b.must(err)
			if len(steps) != 1 || steps[0].Action != "relearn" {
				t.Errorf("steps %+v, want one that learns the forest rebuilt", steps)
			}
			b.must(b.d.View(func(s *db.Snapshot) error {
				info, err := s.Collection("c").Index("kept")
				if info.TrainingPoints != len(b.rows) || !info.Created.Equal(built.Created) || info.Maintained.IsZero() {
					t.Errorf("after all: %d points of %d rows, built %v", info.TrainingPoints, len(b.rows), info.Created)
				}
				return err
			}))
		})
	}
}

// TestMaintainFound folds rows in and asks for each of them: all are found by
// the index itself, as are their neighbours in the lists of others.
func TestMaintainFound(t *testing.T) {
	t.Parallel()
	const n, fresh, dim = 2000, 100, 32
	b := newBed(t, vector.L2, dim)
	b.put("a", mixture(1, n, dim))
	b.build("x", &db.Forest{NoTune: true, LeafNeighbors: 30, Trees: 16})
	rows := mixture(2, fresh, dim)
	b.put("new", rows)
	_, err := b.d.Maintain(context.Background(), 0)
	b.must(err)
	found := 0
	for i, x := range rows {
		hits, stats := b.search(x, 1, &db.SearchOptions{Params: &query.Params{NoWiden: true}})
		if stats.Fresh != 0 {
			t.Fatalf("%d rows are still fresh", stats.Fresh)
		}
		if string(hits[0].Key) == fmt.Sprint("new", i) {
			found++
		}
	}
	if found != fresh {
		t.Errorf("%d of %d rows folded in are found by themselves", found, fresh)
	}
	b.must(b.d.View(func(s *db.Snapshot) error {
		hits, _, err := nearest(context.Background(), s.Collection("c"), db.Query{Vector: rows[0]}, 1, &db.SearchOptions{Params: &query.Params{}, Explain: true})
		if err == nil && !strings.HasPrefix(hits[0].Why.Text, "forest: ") {
			t.Errorf("%+v", hits[0].Why)
		}
		return err
	}))
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
			b.put("a", cloud(n, 1))
			o := &db.Forest{NoTune: true}
			b.build("kept", o)
			b.put("b", cloud(n/6, 1.5))
			steps, err := b.d.Maintain(context.Background(), 0)
			b.must(err)
			if len(steps) != 1 || steps[0].Action != "insert" {
				t.Fatalf("steps %+v, want one that inserts", steps)
			}
			b.check()
			b.build("fresh", o)
			p := query.Params{Sketch: true, Beam: 60, R: 60, NoWiden: true}
			var recall [2]float64
			for _, q := range cloud(queries, 1.5) {
				truth := map[string]bool{}
				for _, w := range b.exact(q, nil)[:k] {
					truth[w.key] = true
				}
				for i, name := range []string{"kept", "fresh"} {
					r, _ := recallOf(b, name, p, q, truth)
					recall[i] += r / queries
				}
			}
			t.Logf("recall %.3f, of a new index %.3f", recall[0], recall[1])
			if recall[0] < recall[1]-0.02 {
				t.Errorf("recall %.3f, of a new index %.3f", recall[0], recall[1])
			}
		})
	}
}
