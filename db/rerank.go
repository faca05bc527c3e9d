package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/fusion"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/vector"
)

// reranks reports whether hits are ordered by Hit.Score instead of their distances.
func reranks(o *rank.Options) bool { return len(o.Boosts) > 0 || o.Diversity > 0 || o.PerGroup > 0 }

// checkRank checks the options by which rows are ranked.
func checkRank(st *state.Collection, a *rowAsk, o *rank.Options) error {
	switch {
	case o.Reciprocal && o.Weight != 0:
		return fmt.Errorf("%w: a weight, and the fusion is by ranks", fail.Option)
	case o.Depth < 0:
		return fmt.Errorf("%w: depth %d of a search, want 0 or more", fail.Option, o.Depth)
	case !(o.Diversity >= 0 && o.Diversity < 1):
		return fmt.Errorf("%w: diversity %g, want 0 to less than 1", fail.Option, o.Diversity)
	case o.Diversity > 0 && a.k == 0:
		return fmt.Errorf("%w: a diversity without K, the number of hits", fail.Option)
	case o.PerGroup < 0 || (o.PerGroup > 0) != (o.GroupBy != ""):
		return fmt.Errorf("%w: %d hits a group by attribute %q, want 1 or more and an attribute", fail.Option,
			o.PerGroup, o.GroupBy)
	case o.PerGroup > 0:
		if err := st.Comparable(o.GroupBy, attribute.NoType); err != nil {
			return fmt.Errorf("%w: a group: %w", fail.Option, err)
		}
	}
	return layout.CheckWeight(o.Weight)
}

// boost is a rank.Boost of one search: the rows, and the origin as a number.
type boost struct {
	*rank.Boost
	passing where.Passing
	origin  float64
}

// boostsOf checks boosts and resolves them.
func boostsOf(ctx context.Context, st *state.Collection, boosts []rank.Boost) ([]boost, error) {
	out := make([]boost, len(boosts))
	for i := range out {
		b := &out[i]
		b.Boost = &boosts[i]
		if err := b.resolve(ctx, st); err != nil {
			return nil, fail.Wrapf(err, "boost %d", i)
		}
	}
	return out, nil
}

func (b *boost) resolve(ctx context.Context, st *state.Collection) (err error) {
	finite := b.Factor >= 0 && !math.IsInf(b.Factor, 1) && math.Abs(b.Add) <= math.MaxFloat64
	decay := b.Attribute != ""
	switch {
	case !finite:
		return fmt.Errorf("%w: factor %g and summand %g, want finite ones, and the factor not below 0",
			fail.Option, b.Factor, b.Add)
	case decay && (b.Factor != 0 || b.Add != 0):
		return fmt.Errorf("%w: a factor or summand, and a decay by attribute %q, which is one", fail.Option,
			b.Attribute)
	case decay && !(b.Half > 0 && b.Half <= math.MaxFloat64):
		return fmt.Errorf("%w: decay by attribute %q to a half within %g, want more than 0", fail.Option,
			b.Attribute, b.Half)
	case !decay && (b.Half != 0 || b.Origin != nil || b.Linear):
		return fmt.Errorf("%w: a decay without an attribute", fail.Option)
	case decay:
		if err := b.resolveOrigin(st); err != nil {
			return err
		}
	}
	b.passing, err = passingRows(ctx, st, b.Where)
	return err
}

// resolveOrigin sets the origin of a decay.
func (b *boost) resolveOrigin(st *state.Collection) error {
	of := attribute.NumberType
	if r := st.Entry.Attribute(b.Attribute); r != nil && r.Type == attribute.TimeType {
		of = r.Type
	}
	if err := st.Comparable(b.Attribute, of); err != nil {
		return fmt.Errorf("%w: a decay is by a number or a time: %w", fail.Option, err)
	}
	origin := b.Origin
	switch {
	case origin != nil:
	case of == attribute.TimeType:
		origin = time.Now()
	default:
		origin = 0
	}
	v, err := attribute.Normalize(origin)
	if err != nil || attribute.TypeOf(v) != of {
		return fmt.Errorf("%w: origin %v of a decay by attribute %q, want a %s", fail.Option, b.Origin,
			b.Attribute, of)
	}
	b.origin, _ = attribute.NumberOf(attribute.AppendKey(nil, v))
	return nil
}

// apply returns the score of a row after the boost.
func (b *boost) apply(st *state.Collection, x *candidate) (float64, error) {
	if b.passing.Set != nil && !b.passing.Set.Contains(x.row) {
		return x.score, nil
	}
	if ok, err := st.Accepts(b.passing, x.row); err != nil || !ok {
		return x.score, err
	}
	factor := cmp.Or(b.Factor, 1)
	if b.Attribute != "" {
		key, err := st.AttributeKey(b.Attribute, x.row)
		if err != nil {
			return 0, err
		}
		v, has := attribute.NumberOf(key)
		far := math.Abs(v-b.origin) / b.Half
		switch {
		case !has:
			return x.score, nil
		case b.Linear:
			factor = max(0, 1-far/2)
		default:
			factor = math.Exp2(-far)
		}
	}
	score := x.score * factor
	if x.score < 0 {
		score = x.score / factor
	}
	return min(max(score+b.Add, -math.MaxFloat32), math.MaxFloat32), nil
}

// candidate is a row that a search has found.
type candidate struct {
	row        uint32
	distance   float32 // as hits have it
	score      float64 // by which rows are ordered
	fusion.Row         // of queries with two parts
}

// order compares rows by their scores as users see them, the best first, then by distance and number.
func order(x, y candidate) int {
	return cmp.Or(cmp.Compare(float32(y.score), float32(x.score)), cmp.Compare(x.distance, y.distance),
		cmp.Compare(x.row, y.row))
}

// moreDepth is how much deeper a search becomes if groups leave too few hits.
const moreDepth = 4

// ranking is a search that ranks what one part of a query finds, or both.
type ranking struct {
	st     *state.Collection
	a      *rowAsk
	o      *SearchOptions
	s      *kind.Search
	fusion fusion.By
	boosts []boost
	seen   []uint32 // the rows of the pages before
	k      int      // of further hits
}

// ranked sets the result of a search whose rows are ranked by both parts of the query, by boosts, diversity
// and groups, or that continues another one.
func ranked(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, s *kind.Search, res *Result,
) (err error) {
	ask, options := *a, *o // those of the caller stay on the stack
	r := &ranking{
		st: st, a: &ask, o: &options, s: s,
		fusion: fusion.Of(&o.Rank, st.Entry.Weight), k: cmp.Or(a.k, math.MaxInt),
	}
	if r.boosts, err = boostsOf(ctx, st, o.Rank.Boosts); err != nil {
		return err
	}
	if r.seen, err = rowsOf(st, o.After); err != nil {
		return err
	}
	depth := a.depth(o)
	var hits []candidate
	for {
		all, more, err := r.find(ctx, depth, res)
		if err == nil {
			hits, err = r.pick(ctx, all)
		}
		if err != nil {
			return err
		}
		if len(hits) == r.k || !more {
			break
		}
		depth = min(depth, math.MaxInt/moreDepth) * moreDepth
	}
	return r.result(ctx, hits, res)
}

// depth returns the number of rows that each part of a search finds.
func (a *rowAsk) depth(o *SearchOptions) int {
	if a.k == 0 {
		return math.MaxInt
	}
	k := a.k + len(o.After)
	if !reranks(&o.Rank) && !a.both() {
		return k
	}
	return fusion.Depth(&o.Rank, k)
}

// rowsOf returns the rows with the keys of hits, of those that still exist.
func rowsOf(st *state.Collection, hits []Hit) (rows []uint32, err error) {
	for i := range hits {
		row, exists, err := st.Find(hits[i].Key)
		if err != nil {
			return nil, fail.Wrapf(err, "page after hit %d", i)
		}
		if exists {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// find finds so many rows by each part, the best first, and reports whether there may be more.
func (r *ranking) find(ctx context.Context, depth int, res *Result) (all []candidate, more bool, err error) {
	st, a, s := r.st, r.a, r.s
	if a.both() {
		all, res.Index, err = byParts(ctx, st, a, r.o, s, depth)
		for i := range all {
			x := &all[i]
			x.score = r.fusion.Score(&x.Row)
			x.distance = -float32(x.score)
		}
		byTerms := s.Second()
		more = len(s.Found) >= depth || len(byTerms.Found) >= depth
		res.Stats.Stats, res.Stats.Postings = s.Stats, byTerms.Postings
		res.Stats.Exact += byTerms.Stats.Exact
	} else {
		p := part{features: a.byFeatures, index: r.o.Index, k: depth, explain: r.o.Explain && !a.byFeatures}
		res.Index, err = searchPart(ctx, st, a, r.o, s, p)
		res.Stats.Stats, res.Stats.Postings = s.Stats, s.Postings
		s.Found = visible(st, a, s.Found, depth)
		more = len(s.Found) == depth
		for _, f := range s.Found {
			x := candidate{row: f.ID, distance: f.Distance, score: -float64(f.Distance)}
			if a.metric(st) == vector.Cosine {
				x.score++
			}
			all = append(all, x)
		}
	}
	return all, more, err
}

// boost changes the scores of rows.
func (r *ranking) boost(all []candidate) (err error) {
	for i := range all {
		x := &all[i]
		for j := range r.boosts {
			if x.score, err = r.boosts[j].apply(r.st, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// pick returns the hits among the rows that were found.
func (r *ranking) pick(ctx context.Context, all []candidate) (hits []candidate, err error) {
	best := math.Inf(-1) // before boosts
	for i := range all {
		best = max(best, all[i].score)
	}
	if err := r.boost(all); err != nil {
		return nil, err
	}
	g := groups{r.st, &r.o.Rank, map[string]int{}}
	seen := map[uint32]bool{}
	for _, row := range r.seen {
		seen[row] = true
		if _, err := g.take(row); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(x candidate) bool { return seen[x.row] })
	if r.o.Rank.Diversity > 0 {
		return r.diverse(ctx, all, g, math.Abs(best))
	}
	slices.SortFunc(all, order)
	for i := 0; i < len(all) && len(hits) < r.k; i++ {
		room, err := g.take(all[i].row)
		if err != nil {
			return nil, err
		}
		if room {
			hits = append(hits, all[i])
		}
	}
	return hits, nil
}

// groups counts the hits by their values of the attribute rank.Options.GroupBy.
type groups struct {
	st   *state.Collection
	o    *rank.Options
	hits map[string]int
}

// take counts a hit, and reports whether its group has room for it. Rows without the attribute are in no
// group.
func (g *groups) take(row uint32) (bool, error) {
	if g.o.PerGroup == 0 {
		return true, nil
	}
	key, err := g.st.AttributeKey(g.o.GroupBy, row)
	if err != nil || key == nil {
		return err == nil, err
	}
	if g.hits[string(key)] == g.o.PerGroup {
		return false, nil
	}
	g.hits[string(key)]++
	return true, nil
}

// varied is a candidate for diverse hits: its score is that of the moment.
type varied struct {
	candidate
	parts rowParts
	alone float64 // the score before any hit
	near  float64 // the largest similarity to a hit
}

// diverse returns hits by maximal marginal relevance (Carbonell and Goldstein 1998): each is the row with the
// highest sum of its score and, negated, its largest similarity to the hits before it. best is the best score
// before boosts.
func (r *ranking) diverse(
	ctx context.Context, all []candidate, g groups, best float64,
) (hits []candidate, err error) {
	weight := r.o.Rank.Diversity
	like := likeness{r.st, !r.a.byFeatures && r.st.Entry.Metric == vector.L2}
	unit := best
	if !r.a.both() && r.a.metric(r.st) != vector.InnerProduct {
		unit = 1 // scores are cosines, or negated distances, as similarities are
	}
	rest := make([]varied, len(all))
	for i, x := range all {
		rest[i] = varied{candidate: x, alone: x.score, near: math.Inf(-1)}
		rest[i].score = (1 - weight) * x.score
		if rest[i].parts, err = like.parts(x.row); err != nil {
			return nil, err
		}
	}
	note := func(hit rowParts) {
		for i := range rest {
			x := &rest[i]
			x.near = max(x.near, like.of(x.parts, hit))
			x.score = (1-weight)*x.alone - weight*unit*x.near
		}
	}
	for _, row := range r.seen {
		hit, err := like.parts(row)
		if err != nil {
			return nil, err
		}
		note(hit)
	}
	for len(hits) < r.k && len(rest) > 0 {
		if ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", r.st.Entry.Name)
		}
		at := 0
		for i := range rest {
			if order(rest[i].candidate, rest[at].candidate) < 0 {
				at = i
			}
		}
		x := rest[at]
		rest[at] = rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		room, err := g.take(x.row)
		if err != nil {
			return nil, err
		}
		if room {
			hits = append(hits, x.candidate)
			note(x.parts)
		}
	}
	return hits, nil
}

// rowParts are the parts of a row as similarities need them.
type rowParts struct {
	vector []float32
	sparse vector.Sparse
}

// likeness compares rows: by their vectors if both have one, otherwise by their features. It is the cosine
// or, for a query by a vector alone under vector.L2, the negated distance.
type likeness struct {
	st       *state.Collection
	distance bool
}

func (l *likeness) parts(row uint32) (p rowParts, err error) {
	x, err := l.st.ReadVector(row)
	if p.vector = x.Vector; p.vector != nil && !l.distance {
		vector.Scale(x.Vector, vector.InverseNorm(x.Vector), p.vector)
	}
	kind.UnitSparse(&p.sparse, x.Sparse)
	return p, err
}

func (l *likeness) of(x, y rowParts) float64 {
	switch {
	case x.vector == nil || y.vector == nil:
		return vector.DotSparse(x.sparse, y.sparse)
	case l.distance:
		return -float64(externalDistance(vector.L2, vector.L2Squared(x.vector, y.vector)))
	}
	return float64(vector.Dot(x.vector, y.vector))
}

// result sets the result to the hits.
func (r *ranking) result(ctx context.Context, hits []candidate, res *Result) (err error) {
	st, s := r.st, r.s
	s.Found = s.Found[:0]
	for _, x := range hits {
		s.Found = append(s.Found, vector.Neighbor{ID: x.row, Distance: x.distance})
	}
	if res.Hits, err = hitsOf(ctx, st, r.o, s); err != nil {
		return err
	}
	for i := range res.Hits {
		h, x := &res.Hits[i], &hits[i]
		if reranks(&r.o.Rank) {
			h.Score = float32(x.score) + 0 // not -0, which a negated distance may be
		}
		switch {
		case r.a.both():
			place := x.Places
			h.Places = &place
			if r.o.Explain {
				h.Why, err = reasonOfBoth(st, s.Second(), x, r.fusion)
			}
		case r.o.Explain && r.a.byFeatures:
			h.Why, err = reasonOfTerms(st, s, x.row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
