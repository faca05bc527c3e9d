package hostile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/torture/internal/ask"
	"github.com/anndb/anndb/vector"
)

// did counts what was done with a mutant.
type did struct {
	Answered int // searches that gave an answer
	Compared int // hits whose distance was compared with the row's
	Errors   int // calls that returned an error
}

// searches is the number of searches and predictions of each collection of a mutant.
const searches = 10

// ks are numbers of neighbors, recalls targets of a search.
var (
	ks      = []int{1, 3, 10, 100, 1<<31 - 1, math.MaxInt}
	recalls = []float64{0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1}
)

// answers makes searches and predictions with random options, and compares the hits with the rows.
func (c *caller) answers(s *db.Snapshot) {
	for i := range c.colls {
		coll := &c.colls[i]
		for range searches {
			c.search(s, coll)
		}
		f := c.filter(coll)
		in := s.Collection(coll.Name)
		_ = c.call("count", func() error { _, err := in.Count(c.ctx, f); return err })
		_ = c.call("matching", func() error { _, err := in.Matching(c.ctx, f); return err })
		_ = c.call("matching keys", func() error { _, err := in.MatchingKeys(c.ctx, f); return err })
		for _, x := range coll.Indexes {
			if ask.Predicts(x.Kind) {
				c.predict(s, coll, x)
			}
		}
	}
}

// filter returns a filter of the rows of a collection, nil for half of the calls.
func (c *caller) filter(coll *ask.Collection) *filter.Filter {
	some := []*filter.Filter{
		filter.HasLabel("l0"), filter.Not(filter.HasLabel("l1")), filter.KeyPrefix([]byte("row 1")), filter.Eq("even", true),
		filter.Range("n", 10, 60), filter.Range("half", nil, 20.5), filter.In("name", "name 1", "name 3"), filter.Prefix("name", "name"),
		filter.Exists("n"), filter.Func(func(key []byte) bool { return key[len(key)-1]%2 == 0 }),
	}
	pick := func() *filter.Filter { return some[c.rng.IntN(len(some))] }
	switch c.rng.IntN(6) {
	case 0, 1:
		return pick()
	case 2:
		return filter.And(pick(), filter.Or(pick(), pick()))
	}
	return nil
}

// search makes one search.
func (c *caller) search(s *db.Snapshot, coll *ask.Collection) {
	o := db.SearchOptions{K: ks[c.rng.IntN(len(ks))], Index: db.Flat, Recall: recalls[c.rng.IntN(len(recalls))],
		Where: c.filter(coll), Explain: coll.Dim > 0 && c.rng.IntN(4) == 0}
	name, kind := "search "+coll.Name, ""
	var at []ask.Index
	for _, x := range coll.Indexes {
		if !ask.Predicts(x.Kind) {
			at = append(at, x)
		}
	}
	if len(at) > 0 && c.rng.IntN(5) > 0 {
		x := at[c.rng.IntN(len(at))]
		o.Index, kind = x.Name, x.Kind
		if kind != "postings" && (!x.Tuned || c.rng.IntN(4) == 0) {
			o.Params = c.params(x.Members)
		}
	}
	if c.rng.IntN(4) == 0 {
		o.Radius = &[]float64{1e-9, 0.3, 150, 1e30, math.Inf(1)}[c.rng.IntN(5)]
	}
	queries := coll.Asked(kind)
	if c.rng.IntN(4) == 0 {
		_ = c.call(name+" batch", func() error {
			found, err := s.Collection(coll.Name).SearchBatch(c.ctx, queries, &o)
			for i := range found {
				c.compare(s, coll, queries[i], &o, found[i].Hits)
			}
			return err
		})
		return
	}
	q := queries[c.rng.IntN(len(queries))]
	_ = c.call(name+" "+o.Index, func() error {
		found, err := s.Collection(coll.Name).Search(c.ctx, q, &o)
		if err == nil {
			c.compare(s, coll, q, &o, found.Hits)
		}
		return err
	})
}

// params returns parameters of a search of a forest.
func (c *caller) params(members bool) *query.Params {
	some := []query.Params{
		{Tau: 0.02}, {Tau: 0.05, Sketch: true}, {Sketch: true, Beam: 30, R: 12},
		{Sketch: true, Beam: 20, Gap: 0.2, GapFloor: 1}, {Method: query.NaturalZero, Extra: 2},
		{Method: query.Flat, Sketch: true, R: 20}, {Method: query.Flat}, {Sketch: true, Beam: 1 << 40, R: 1 << 40},
		{Method: query.Voting, Votes: 2}, {Method: query.Lookup},
	}
	if !members {
		some = some[:len(some)-2]
	}
	p := some[c.rng.IntN(len(some))]
	p.NoWiden = c.rng.IntN(2) == 0
	return &p
}

// predict predicts with random options.
func (c *caller) predict(s *db.Snapshot, coll *ask.Collection, x ask.Index) {
	o := db.PredictOptions{Index: x.Name, Top: c.rng.IntN(4), Set: c.rng.IntN(2) == 0}
	if x.Kind == "lcif" {
		o.Where = c.filter(coll)
		if c.rng.IntN(3) == 0 {
			o.Params = &lcif.Params{K: ks[c.rng.IntN(len(ks))], Lambda: 0.5, Alpha: 1.5, Beta: float64(1 + c.rng.IntN(2))}
		}
	}
	_ = c.call("predict batch", func() error {
		_, err := s.Collection(coll.Name).PredictBatch(c.ctx, coll.Asked(x.Kind), &o)
		return err
	})
}

// compare compares hits with the rows: at most K of them, in the order of their distances, each an
// existing row, once, at its distance. Keys are not compared with the dictionary of keys, which may be
// forged: no search reads it.
func (c *caller) compare(s *db.Snapshot, coll *ask.Collection, q db.Query, o *db.SearchOptions, hits []db.Hit) {
	wrong := func(format string, a ...any) {
		c.w.say("wrong", "%s/%s k %d recall %g: %s", coll.Name, o.Index, o.K, o.Recall, fmt.Sprintf(format, a...))
	}
	if len(hits) > o.K {
		wrong("%d hits", len(hits))
	}
	c.did.Answered++
	rounding := math.Inf(-1)
	if q.Vector == nil || coll.Metric == vector.Cosine {
		rounding = 1e-6 // distances below it are within every radius
	}
	seen := map[uint32]bool{}
	for i, h := range hits {
		if i > 0 && !(hits[i-1].Distance <= h.Distance) {
			wrong("hit %d at %g follows %g", i, h.Distance, hits[i-1].Distance)
		}
		if seen[h.Row] {
			wrong("row %d twice", h.Row)
		}
		seen[h.Row] = true
		if o.Radius != nil && !(float64(h.Distance) <= max(*o.Radius, rounding)) {
			wrong("row %d at %g, outside %g", h.Row, h.Distance, *o.Radius)
		}
		if i >= 20 {
			continue // the others are alike
		}
		r, err := s.Collection(coll.Name).GetRow(h.Row)
		if errors.Is(err, db.ErrNotFound) {
			wrong("row %d does not exist", h.Row)
		}
		if err != nil || q.Text != "" || c.copies(coll) {
			continue // the score of a text depends on all others
		}
		c.did.Compared++
		if d, room := distance(coll, q, &r); math.Abs(d-float64(h.Distance)) > room {
			wrong("row %d at %g, its distance is %g", h.Row, h.Distance, d)
		}
	}
}

// copies reports whether the mutant may contradict itself in what a distance is made of, as no checksum
// shows: the length of a row is stored next to the row, and the number of a feature next to its name.
func (c *caller) copies(coll *ask.Collection) bool {
	changed := func(kinds ...codec.Kind) bool {
		return slices.ContainsFunc(kinds, func(k codec.Kind) bool { return c.mutant.Kinds[k] })
	}
	switch {
	case coll.Dim == 0:
		return c.mutant.Names || changed(codec.KindSparse, codec.KindTail, codec.KindPostings)
	case coll.Metric == vector.Cosine && changed(codec.KindRows, codec.KindTail, codec.KindNorms):
		return true
	}
	return strings.Contains(c.mutant.What, ".Metric is ") // then distances are those of another metric
}

// distance returns the distance of a row, and the room for rounding. The room is infinite where the
// row has values that sums of float32 cannot hold.
func distance(coll *ask.Collection, q db.Query, r *db.Row) (d, room float64) {
	const eps = 1e-4
	var dot, qq, rr, diff float64
	add := func(x, y float64) { dot, qq, rr, diff = dot+x*y, qq+x*x, rr+y*y, diff+(x-y)*(x-y) }
	switch {
	case q.Vector != nil:
		for i := range q.Vector {
			add(float64(q.Vector[i]), float64(r.Vector[i]))
		}
	case coll.Named:
		values := map[string]float64{}
		for _, f := range r.Features {
			values[f.Name] = float64(f.Value)
			add(0, float64(f.Value))
		}
		for _, f := range q.Features {
			dot, qq = dot+float64(f.Value)*values[f.Name], qq+float64(f.Value)*float64(f.Value)
		}
	default:
		values := map[uint32]float64{}
		for i, f := range r.Sparse.Index {
			values[f] = float64(r.Sparse.Value[i])
			add(0, values[f])
		}
		for i, f := range q.Sparse.Index {
			x := float64(q.Sparse.Value[i])
			dot, qq = dot+x*values[f], qq+x*x
		}
	}
	if !(qq+rr < math.MaxFloat32/4) || rr < 1e-30 {
		return 0, math.Inf(1)
	}
	switch {
	case q.Vector == nil || coll.Metric == vector.Cosine:
		return 1 - dot/math.Sqrt(qq*rr), 10 * eps
	case coll.Metric == vector.InnerProduct:
		return -dot, eps * (1 + qq + rr)
	}
	return math.Sqrt(diff), eps * (1 + math.Sqrt(qq+rr))
}
