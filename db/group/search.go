package group

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/fusion"
	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/db/rank"
)

// Result is the answer to a search.
type Result struct {
	db.Result
	Parts []int // the number of the part of each hit
}

// Search finds the rows nearest to the query in all parts, as db.Collection.Search does in one
// collection that has the rows of all in the order of the parts. Result.Stats has the work of all
// parts.
func (g *Group) Search(ctx context.Context, q db.Query, o *db.SearchOptions) (res Result, err error) {
	if o == nil {
		o = &db.SearchOptions{}
	}
	if g.only != nil {
		res.Result, err = g.only.Search(ctx, q, o)
		res.Parts = make([]int, len(res.Hits))
		return res, err
	}
	s := &search{g: g, o: *o, k: o.K, answers: make([]Answer, len(g.parts))}
	if err := s.prepare(ctx, q); err != nil {
		return res, err
	}
	near, match, err := s.find(ctx)
	if err != nil {
		return res, err
	}
	if s.both {
		return s.result(ctx, o, s.byBoth(near, match))
	}
	return s.result(ctx, o, s.byOne(near, match))
}

// search is a search of all parts.
type search struct {
	query
	g       *Group
	o       db.SearchOptions // those of the parts
	k       int              // of hits, 0 for all within the radius
	both    bool             // the query has a vector and features
	depth   int              // of rows that either part of the query finds in all parts, 0 for all
	answers []Answer
}

// prepare resolves the query and the options.
func (s *search) prepare(ctx context.Context, q db.Query) (err error) {
	o := &s.o
	if len(o.Rank.Boosts) > 0 || o.Rank.Diversity > 0 || o.Rank.PerGroup > 0 {
		return fmt.Errorf("%w: boosts, diversity and groups of hits, and the search is of %d collections",
			fail.Option, len(s.g.parts))
	}
	if s.k < 0 {
		return fmt.Errorf("%w: k is %d in a search of %d collections, want 0 or more", fail.K, s.k, len(s.g.parts))
	}
	if s.query, err = s.g.resolve(ctx, q); err != nil {
		return err
	}
	s.both = s.Vector != nil && s.features()
	if s.k == 0 && o.Radius == nil {
		s.k = grouped.DefaultK
	}
	if s.k != 0 {
		s.depth = s.k + len(o.After)
		if s.both {
			s.depth = fusion.Depth(&o.Rank, s.depth)
		}
		if s.self != nil {
			s.depth++
		}
	}
	o.After = nil
	return nil
}

// A part is asked for few rows first if many are needed: of rows in no order it has about its share.
const (
	fewRows = 32
	spread  = 4 // standard deviations of the number of rows in one of many parts
)

// few returns how many of the best rows a part is asked for first.
func few(depth, parts int) int {
	share := float64(depth) / float64(parts)
	return min(depth, max(fewRows, int(math.Ceil(share+spread*math.Sqrt(share)))))
}

// find asks the parts, and returns the rows that the vector of the query finds in all of them and those
// that its features find, the best first.
func (s *search) find(ctx context.Context) (near, match []place, err error) {
	todo, filters := make([]bool, len(s.answers)), s.g.filters(s.o.Where)
	for i := range todo {
		todo[i] = true
	}
	for asked := few(s.depth, len(todo)); ; asked = s.depth {
		err := s.g.each(ctx, func(i int) (err error) {
			if !todo[i] {
				return nil
			}
			o := s.o
			o.K, o.Where = asked, filters[i]
			s.answers[i], err = s.g.parts[i].Search(ctx, s.Query, &o, &s.ask)
			if n := len(s.answers[i].Found); err == nil && n != len(s.answers[i].Hits) {
				err = fmt.Errorf("group: an answer with %d hits and the order of %d", len(s.answers[i].Hits), n)
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		near = s.merge(func(f *Found) (float64, bool) {
			if f.Near == nil {
				return 0, false
			}
			return float64(*f.Near), true
		})
		match = s.merge(func(f *Found) (float64, bool) {
			if f.Match == nil {
				return 0, false
			}
			return -*f.Match, true
		})
		if asked == s.depth {
			return s.cut(near), s.cut(match), nil
		}
		more := false
		for i := range todo {
			todo[i] = s.mayHaveMore(i, asked, near) || s.mayHaveMore(i, asked, match)
			more = more || todo[i]
		}
		if !more {
			return s.cut(near), s.cut(match), nil
		}
	}
}

// merge returns the rows that have an order, the first first.
func (s *search) merge(order func(f *Found) (float64, bool)) (all []place) {
	for part := range s.answers {
		a := &s.answers[part]
		for at := range a.Found {
			if by, found := order(&a.Found[at]); found {
				all = append(all, place{part: part, at: at, row: a.Hits[at].Row, order: by})
			}
		}
	}
	slices.SortFunc(all, place.compare)
	return all
}

// mayHaveMore reports whether a part that was asked for so many rows may have others among the best of
// all: all that it has found are.
func (s *search) mayHaveMore(part, asked int, all []place) bool {
	n := 0
	for _, x := range all[:min(s.depth, len(all))] {
		if x.part == part {
			n++
		}
	}
	return n == asked
}

// cut leaves the best rows.
func (s *search) cut(all []place) []place {
	if s.depth == 0 {
		return all
	}
	return all[:min(s.depth, len(all))]
}

// withoutSelf leaves out the row that the query was read from.
func (s *search) withoutSelf(all []place) []place {
	if s.self == nil {
		return all
	}
	return slices.DeleteFunc(all, func(x place) bool {
		return x.part == s.self.part && bytes.Equal(s.answers[x.part].Hits[x.at].Key, s.self.key)
	})
}

// byOne returns the rows that the only part of the query has found, in the order of their distances as
// users see them: of some that differ by rounding only, the first row comes first.
func (s *search) byOne(near, match []place) []place {
	var all []place
	if len(near) > 0 {
		all = s.withoutSelf(near)
		s.sort(all[:s.most(all)])
	} else {
		s.sort(match)
		all = s.withoutSelf(match)
	}
	return all[:s.most(all)]
}

// byBoth returns the rows that either part of the query has found, in the order of their scores by
// both.
func (s *search) byBoth(near, match []place) (all []place) {
	near = s.withoutSelf(near)
	s.sortByScore(match)
	match = s.withoutSelf(match)
	type id struct{ part, at int }
	at := map[id]int{}
	var rows []fusion.Row
	row := func(x place) *fusion.Row {
		i, known := at[id{x.part, x.at}]
		if !known {
			i = len(rows)
			f := &s.answers[x.part].Found[x.at]
			at[id{x.part, x.at}] = i
			all, rows = append(all, x), append(rows, fusion.Row{
				Places: rank.Places{Distance: f.Distance, Score: f.Score}, HasVector: f.HasVector,
			})
		}
		return &rows[i]
	}
	for i, x := range near {
		row(x).VectorRank = i + 1
	}
	for i, x := range match {
		row(x).TextRank = i + 1
	}
	info := &s.g.infos[0]
	by := fusion.Of(&s.o.Rank, info.Weight)
	fusion.Scale(info.Metric, len(rows), func(i int) *fusion.Row { return &rows[i] })
	for i := range all {
		h := &s.answers[all[i].part].Hits[all[i].at]
		h.Distance, h.Places = -float32(by.Score(&rows[i])), &rows[i].Places
		h.Why = by.Reason(h.Why, &rows[i], -float64(h.Distance))
	}
	s.sort(all)
	return all
}

// most returns the number of the rows that the hits are among, without that of the query.
func (s *search) most(all []place) int {
	switch {
	case s.depth == 0:
		return len(all)
	case s.self != nil:
		return min(s.depth-1, len(all))
	}
	return min(s.depth, len(all))
}

// sort orders rows by their distances as users see them.
func (s *search) sort(all []place) {
	for i := range all {
		x := &all[i]
		x.order = float64(s.answers[x.part].Hits[x.at].Distance)
	}
	slices.SortFunc(all, place.compare)
}

// sortByScore orders rows by the scores of their features as they are compared: rounded.
func (s *search) sortByScore(all []place) {
	text := s.g.infos[0].Text != nil
	for i := range all {
		x := &all[i]
		score := *s.answers[x.part].Found[x.at].Match
		if x.order = float64(float32(-score)); !text {
			x.order = float64(float32(1 - min(score, 1)))
		}
	}
	slices.SortFunc(all, place.compare)
}

// result returns the hits: the first rows that are not on the pages before.
func (s *search) result(ctx context.Context, o *db.SearchOptions, all []place) (res Result, err error) {
	seen := map[string]bool{}
	for i := range o.After {
		seen[string(o.After[i].Key)] = true
	}
	for _, x := range all {
		h := &s.answers[x.part].Hits[x.at]
		if seen[string(h.Key)] {
			continue
		}
		if s.k > 0 && len(res.Hits) == s.k {
			break
		}
		res.Hits, res.Parts = append(res.Hits, *h), append(res.Parts, x.part)
	}
	s.describe(&res.Result)
	return res, s.include(ctx, o.Include, &res)
}

// include reads what the options include of the hits' rows, where the parts have not.
func (s *search) include(ctx context.Context, parts db.Content, res *Result) error {
	at := make([]map[string]*db.Hit, len(s.answers))
	keys := make([][][]byte, len(s.answers))
	for i := range res.Hits {
		h, part := &res.Hits[i], res.Parts[i]
		if s.answers[part].Full || parts == 0 {
			continue
		}
		if at[part] == nil {
			at[part] = map[string]*db.Hit{}
		}
		at[part][string(h.Key)] = h
		keys[part] = append(keys[part], h.Key)
	}
	return s.g.each(ctx, func(i int) error {
		if len(keys[i]) == 0 {
			return nil
		}
		rows, err := s.g.parts[i].Rows(ctx, keys[i])
		for j := range rows {
			if h := at[i][string(rows[j].Key)]; h != nil {
				fill(h, &rows[j], parts)
			}
		}
		return err
	})
}

// fill copies parts of a row to a hit.
func fill(h *db.Hit, r *db.Row, parts db.Content) {
	if parts&db.Labels != 0 {
		h.Labels = r.Labels
	}
	if parts&db.Attributes != 0 {
		h.Attributes = r.Attributes
	}
	if parts&db.Text != 0 {
		h.Text = r.Text
	}
	if parts&db.Payload != 0 {
		h.Payload = r.Payload
	}
}

// describe sums up the work of the parts, of which the first that was searched decides how it was done.
func (s *search) describe(res *db.Result) {
	var index []string
	t := &res.Stats
	for i := range s.answers {
		a := &s.answers[i]
		if !slices.Contains(index, a.Index) {
			index = append(index, a.Index)
		}
		x := &a.Stats
		if t.Way == 0 {
			t.Way, t.Width, t.Recall = x.Way, x.Width, x.Recall
		}
		t.Recall, t.OfScan, t.Far = min(t.Recall, x.Recall), max(t.OfScan, x.OfScan), t.Far || x.Far
		t.Passing, t.Fresh = t.Passing+x.Passing, t.Fresh+x.Fresh
		t.Leaves, t.Labels, t.Candidates = t.Leaves+x.Leaves, t.Labels+x.Labels, t.Candidates+x.Candidates
		t.Sketched, t.Exact = t.Sketched+x.Sketched, t.Exact+x.Exact
		t.Hopped, t.Widened = t.Hopped+x.Hopped, t.Widened+x.Widened
		t.Postings.Add(&x.Postings)
	}
	t.Unknown = unknown(len(s.answers), func(i int) ([]string, bool) { return s.answers[i].Stats.Unknown, true })
	res.Index = strings.Join(index, ", ")
}
