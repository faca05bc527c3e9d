package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// watch observes one row during a search.
type watch struct {
	row    uint32
	source string // Explanation.Source
	from   uint32 // row whose list contributed it
	hop    int    // round of the list
	round  int
	beamed bool // contributed by a list that a beam search followed
	found  Explanation
}

// inSegment returns the number of a row in the segment.
func (s *Searcher) inSegment(row uint32) (local uint32, ok bool) {
	local = row - uint32(s.seg.First)
	return local, int64(local) < int64(s.seg.N)
}

// searched records the votes and the estimate of the row in its segment, or in the large one if it is
// in none.
func (w *watch) searched(s *Searcher) {
	row, ok := s.inSegment(w.row)
	if !ok && s.seg.First > 0 || len(s.route) == 0 {
		return
	}
	w.found = Explanation{Leaves: len(s.route)}
	s.explainVotes(&w.found, row)
	if ok && s.p.Sketch && s.seg.Sketch != nil {
		var score [1]float32
		s.estimate(s.seg.Sketch, []uint32{row}, score[:])
		// The sketch omits |q - mean|², which is the same for all rows.
		score[0] += s.fromMean
		w.found.Sketch = &score[0]
	}
}

func (w *watch) scored(ids []uint32, source string) {
	if slices.Contains(ids, w.row) {
		if w.source = source; w.beamed {
			w.source = "hop"
		}
		w.hop = w.round
	}
}

// followed records that a beam search follows a list, before its rows are marked as seen.
func (w *watch) followed(s *Searcher, from uint32, list []uint32) {
	w.round++
	if row, ok := s.inSegment(w.row); ok && s.seen[row] != s.epoch && slices.Contains(list, row) {
		w.from, w.beamed = from+uint32(s.seg.First), true
	}
}

// TreeVote holds the votes of one visited leaf for a row.
type TreeVote struct {
	Tree uint32 `json:"tree"`
	Leaf uint32 `json:"leaf"`
	// Votes is the number of the leaf's training points that have the row as a label; 1 where
	// the leaf holds the row itself and the method reads member lists.
	Votes uint32 `json:"votes"`
	// Points is the total number of training points in the tree's visited leaves: Votes divided
	// by Points is the tree's estimate (equation 4). It is omitted where the method reads
	// member lists.
	Points uint64 `json:"points,omitempty"`
}

// Explanation describes why a row is an answer of a query, or why it is not.
type Explanation struct {
	Row uint32 `json:"row"`
	// Method is the name of Params.Method.
	Method string `json:"method"`
	// Source is the stage that computed the row's exact distance: "forest" (the row was
	// elected, or is newer than the trees), "hop" (from the list of row From in round Hop), "fresh"
	// (newer than the index), "scan" (exact scan); empty if the search never scored it.
	Source string  `json:"source,omitempty"`
	From   *uint32 `json:"from,omitempty"`
	Hop    int     `json:"hop,omitempty"`
	// Distance is the exact internal distance.
	Distance float32 `json:"distance"`
	// Votes lists the visited leaves with votes for the row. Leaves is the number of all
	// visited leaves.
	Votes  []TreeVote `json:"votes,omitempty"`
	Leaves int        `json:"leaves,omitempty"`
	// Sum is the sum of the votes. Estimate is the label probability: the mean over the trees
	// of the votes' share of the points (equation 5), or for Voting and Lookup the share of
	// trees (equation 9). Threshold is the value that Estimate must exceed (equation 8).
	Sum       uint32  `json:"sum"`
	Estimate  float64 `json:"estimate"`
	Threshold float64 `json:"threshold"`
	Elected   bool    `json:"elected"`
	// Sketch is the squared distance in the partition space as the sketches rank it, including
	// the corrections of SketchEncoder; nil without sketches.
	Sketch *float32 `json:"sketch,omitempty"`
}

// LastDistances sets the exact distances of rows below Rows.N to the query of the last search, which
// there must have been, in the metric's internal unit.
func (s *Searcher) LastDistances(of []vector.Neighbor) {
	for _, f := range of[:min(ahead, len(of))] {
		s.exact.prefetch(f.ID)
	}
	for i := range of {
		if i+ahead < len(of) {
			s.exact.prefetch(of[i+ahead].ID)
		}
		of[i].Distance = s.exact.distance(of[i].ID)
	}
}

// ExplainLast repeats the Searcher's last search, whose view and query must still be valid, and
// reports how it treated a row, which need not be an answer. It reuses the results of
// Params.Accept in that search and does not call it again for the same rows. Cost: a search,
// and the votes of its leaves. Errors: those of Search, and ErrParams without a search or for a
// row that does not exist.
func (s *Searcher) ExplainLast(ctx context.Context, row uint32) (*Explanation, error) {
	if s.v == nil {
		return nil, fmt.Errorf("%w: no search to explain", ErrParams)
	}
	v := s.v
	if int64(row) >= int64(v.Rows.N) {
		return nil, fmt.Errorf("%w: row %d of %d", ErrParams, row, v.Rows.N)
	}
	w := &watch{row: row}
	s.watch = w
	s.stats = Stats{}
	_, _, err := s.search(ctx, s.exact.q, vector.Dot(s.exact.q, s.exact.q), nil)
	s.watch = nil
	if err != nil {
		return nil, err
	}
	e := &w.found
	e.Row, e.Method, e.Source = row, s.first.Method.String(), w.source
	e.Distance = s.exact.distance(row)
	if s.unscale != 1 && v.Metric == vector.InnerProduct {
		e.Distance = float32(float64(e.Distance) * s.unscale)
	}
	if w.source == "hop" {
		e.From, e.Hop = &w.from, w.hop
	}
	return e, nil
}

// explainVotes looks a row of the segment up in the leaves of the last election.
func (s *Searcher) explainVotes(e *Explanation, row uint32) {
	natural, votes := !s.p.members(), &s.e
	points := make([]uint64, s.seg.Forest.Trees)
	trees := 0
	for i, t := range votes.tree {
		points[t] += uint64(votes.blocks[i].Points())
		trees = max(trees, int(t)+1)
	}
	weighted := uint32(0)
	for i, l := range s.route {
		of := 1.0
		n, weight := votes.votesIn(i, row)
		if n == 0 {
			continue
		}
		vote := TreeVote{Tree: l.Tree, Leaf: l.Leaf, Votes: n}
		if natural {
			vote.Points = points[l.Tree]
			of = float64(vote.Points)
		}
		e.Votes = append(e.Votes, vote)
		e.Sum += n
		e.Estimate += float64(n) / of / float64(trees)
		weighted += weight
	}
	switch {
	case votes.widened:
	case s.p.Method == Natural:
		e.Threshold = s.p.Tau
	case s.p.Method == Voting:
		e.Threshold = float64(votes.threshold-1) / float64(trees)
	}
	e.Elected = weighted >= votes.threshold
}
