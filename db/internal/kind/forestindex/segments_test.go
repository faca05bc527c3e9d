package forestindex_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// maintain makes all steps of maintenance, each of which makes a segment.
func maintain(b *dbtest.Bed) {
	b.T.Helper()
	steps, err := b.D.Maintain(b.T.Context(), 0, nil)
	b.Must(err)
	for _, s := range steps {
		if s.Action != "segment" && s.Action != "merge" {
			b.T.Errorf("step %+v", s)
		}
	}
}

// An index that grows by puts, updates and deletes finds as much with every setting as a new one, and becomes
// one segment when a fifth has changed.
func TestGrow(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, dim, k = 1500, 32, 10
	for i, c := range []struct {
		metric vector.Metric
		o      index.Forest
	}{
		{vector.L2, index.Forest{Members: true}},
		{vector.Cosine, index.Forest{Learner: "pca", NoSketches: true}},
		{vector.InnerProduct, index.Forest{Learner: "rp"}},
		{vector.L2, index.Forest{SketchBytes: 128}},
	} {
		t.Run(c.metric.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			b := dbtest.NewBed(t, c.metric, dim)
			pool := dbtest.Mixture(uint64(20+i), 2*n, dim)
			b.Put("a", pool[:n])
			c.o.NoTune, c.o.Trees, c.o.LeafNeighbors = true, 10, 30
			c.o.Depth = bits.Len(uint(n / 7)) // so that no threshold is near a whole vote
			built := b.Build("kept", &c.o)
			next := n
			for round := range 4 {
				more := n/100 + rng.IntN(n/100)
				b.Put(fmt.Sprint("b", round, "-"), pool[next:next+more])
				next += more
				for range n / 200 {
					b.Drop(fmt.Sprint("a", rng.IntN(n)))
				}
				b.Put("a", pool[next:next+n/200]) // new vectors under old keys
				next += n / 200
				if maintain(b); round == 2 {
					b.Reopen()
				}
			}
			b.Check()
			b.Build("fresh", &c.o)
			queries := dbtest.Mixture(uint64(40+i), 100, dim)
			for _, p := range []query.Params{
				{Tau: 0.005}, {Tau: 0.02, Trees: 4, Sketch: true, R: 60},
				{Sketch: true, Beam: 40, R: 40}, {Method: query.Lookup},
			} {
				if p.Method == query.Lookup && !c.o.Members {
					continue
				}
				p.NoWiden = true
				kept := b.Recall(queries, k, &db.SearchOptions{Index: "kept", Params: &p})
				fresh := b.Recall(queries, k, &db.SearchOptions{Index: "fresh", Params: &p})
				if kept < fresh-0.01 {
					t.Errorf("%+v: recall %.4f, %.4f of a new forest", p, kept, fresh)
				}
			}
			b.Must(b.D.Collection("c").DropIndex(t.Context(), "fresh"))
			b.Put("much", dbtest.Mixture(uint64(60+i), n/4, dim))
			steps, err := b.D.Maintain(t.Context(), 0, nil)
			b.Must(err)
			info, err := b.D.Collection("c").Index("kept")
			b.Must(err)
			if len(steps) != 1 || info.Segments != 1 || info.TrainingPoints != len(b.Rows) ||
				!info.Created.Equal(built.Created) || info.Maintained.IsZero() {
				t.Errorf("steps %+v, %d segments, %d points of %d rows", steps, info.Segments, info.TrainingPoints, len(b.Rows))
			}
		})
	}
}

// The rows of each segment are found by the index itself, by leaves, by beams, and by the settings of the
// tuner; also where a segment has too few rows to be tuned, and where all of its rows were deleted.
func TestFoundInSegments(t *testing.T) {
	t.Parallel()
	const n, dim = 1200, 24
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine} {
		b := dbtest.NewBed(t, metric, dim)
		b.Put("a", dbtest.Mixture(1, n, dim))
		b.Build("x", nil)
		rows := dbtest.Mixture(2, 120, dim)
		b.Put("b", rows)
		maintain(b)
		b.Put("c", rows[:5])
		b.Drop("c0", "c1", "c2", "c3", "c4")
		maintain(b) // a segment without live rows
		b.Put("d", dbtest.Mixture(3, 5, dim))
		maintain(b)
		b.Reopen()
		info, err := b.D.Collection("c").Index("x")
		b.Must(err)
		if info.Segments != 3 {
			t.Errorf("%d segments", info.Segments)
		}
		for name, o := range map[string]*db.SearchOptions{
			"tuner": {Recall: 0.99}, "leaves": {Params: &query.Params{NoWiden: true}},
			"beam": {Params: &query.Params{NoWiden: true, Sketch: true, Beam: 60, R: 60}},
		} {
			missed := 0
			for key, x := range b.Rows {
				if key[0] == 'a' {
					continue
				}
				hits, stats := b.Search(x, 1, o)
				if stats.Fresh != 0 {
					t.Fatalf("%s: %d rows are still fresh", name, stats.Fresh)
				}
				if string(hits[0].Key) != key {
					missed++
				}
			}
			if missed > 2 {
				t.Errorf("%s: missed %d of 125 rows", name, missed)
			}
			if r := b.Recall(dbtest.Mixture(4, 60, dim), 10, o); o.Recall > 0 && r < 0.97 {
				t.Errorf("%s: recall %.3f", name, r)
			}
		}
		b.Check()
	}
}

// An index that was learned from training queries, which are not stored, is left alone: its fresh rows are
// found by scans.
func TestTrainingQueriesStay(t *testing.T) {
	const dim = 8
	b := dbtest.NewBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 300, dim))
	b.Build("x", &index.Forest{NoTune: true, TrainingQueries: dbtest.Mixture(2, 100, dim)})
	fresh := dbtest.Mixture(3, 100, dim)
	b.Put("b", fresh)
	steps, err := b.D.Maintain(t.Context(), 0, nil)
	b.Must(err)
	if len(steps) != 0 {
		t.Errorf("steps %+v", steps)
	}
	for i, x := range fresh {
		hits, stats := b.Search(x, 1, &db.SearchOptions{Params: &query.Params{NoWiden: true}})
		if stats.Fresh != len(fresh) || string(hits[0].Key) != fmt.Sprint("b", i) {
			t.Errorf("new row %d: %d rows are fresh, found %q", i, stats.Fresh, hits[0].Key)
		}
	}
}
