package autolabels

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// model is a stored model in one generation.
type model struct {
	st        kind.Source
	opts      *index.Auto
	detail    *detail
	members   []opened
	labelRows []uint32 // by label
	names     []string
	pool      sync.Pool // of *scratch
}

// opened is a member in one generation.
type opened struct {
	*part
	kind.Opened
	predictor kind.LabelPredictor
	names     int // number of labels
}

// scratch is the memory of a prediction.
type scratch struct {
	answer kind.LabelAnswer
	place  []int32 // of a label among those found, from 1
	found  []kind.Ranked
	scores []float32 // of the labels found, by member
}

// Open opens a model.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	out := &model{st: st, opts: optionsOf(m), detail: m.Segments[0].Own.(*detail)}
	for i := range out.detail.Parts {
		p := &out.detail.Parts[i]
		sub := member(m, p.Kind)
		x, err := sub.Of.Open(ctx, st, sub)
		if err != nil {
			return nil, err
		}
		one := opened{part: p, Opened: x, predictor: x.(kind.LabelPredictor)}
		names := one.predictor.Names()
		if one.names = len(names); len(names) > len(out.names) {
			out.names = names // LCIF has those of later rows, too
		}
		out.members = append(out.members, one)
	}
	r := st.Arrays(ctx, m.Info.Name, m.Segments[0].Object)
	arrays.Field(r.Section(codec.KindLabelMatrix), arrayLabelRows, &out.labelRows)
	for _, x := range out.members {
		// LCIF may have labels of later rows.
		n := len(out.labelRows)
		r.Need(x.names == n || x.names > n && x.Kind == lcifindex.Name, "labels of member "+x.Kind)
	}
	if r.Err != nil {
		return nil, r.Err
	}
	out.pool.New = func() any { return &scratch{place: make([]int32, len(out.names))} }
	return out, nil
}

// Check checks the members.
func (m *model) Check(ctx context.Context) error {
	for _, x := range m.members {
		if err := x.Opened.Check(ctx); err != nil {
			return fmt.Errorf("member %s: %w", x.Kind, err)
		}
	}
	return nil
}

// Names returns the names of the labels.
func (m *model) Names() []string { return m.names }

// rows returns the number of training rows of a label, 0 for one that is newer.
func (m *model) rows(label uint32) int {
	if int(label) < len(m.labelRows) {
		return int(m.labelRows[label])
	}
	return 0
}

// Predict asks the members, and weighs their probabilities.
func (m *model) Predict(ctx context.Context, x vector.Sparse, o *kind.LabelAsk, a *kind.LabelAnswer) error {
	if o.Params != nil {
		return fmt.Errorf("%w: Params are for label models of kind lcif", fail.Option)
	}
	if o.Filtered && m.detail.partOf(lcifindex.Name) == nil {
		return fmt.Errorf("%w: filters are for neighbors, and this model has none: its members are trees",
			fail.Option)
	}
	s := m.pool.Get().(*scratch) // not returned to the pool if there is an error
	none := true
	var why []map[uint32]kind.MemberShare // by member, of each label
	for i := range m.members {
		at := &m.members[i]
		ask := kind.LabelAsk{Vector: o.Vector, Top: m.detail.Deep, Explain: o.Explain}
		if at.Kind == lcifindex.Name {
			ask.Rows, ask.Filtered = o.Rows, o.Filtered
		}
		s.answer = kind.LabelAnswer{Labels: s.answer.Labels[:0]}
		if err := at.predictor.Predict(ctx, x, &ask, &s.answer); err != nil {
			return err
		}
		if at.Kind == lcifindex.Name {
			a.Stats = s.answer.Stats
		}
		a.Decisions += s.answer.Decisions
		none = none && s.answer.Stats.NoEvidence
		s.take(i, len(m.members))
		if o.Explain {
			why = append(why, reasonsOf(at.Kind, &s.answer))
		}
	}
	a.Stats.NoEvidence = none
	m.weigh(s)
	if c := o.Calibration; c != nil {
		for i := range s.found {
			r := &s.found[i]
			r.Probability = c.Probability(r.Score, m.rows(r.Label))
		}
		a.Labels = o.Choose(a.Labels, s.found, m.rows, func(a, b uint32) bool { return m.names[a] < m.names[b] })
		s.found = s.found[:0]
	}
	for i, r := range s.found {
		r.Predicted = i == 0 && !m.opts.AllowEmpty || r.Score >= m.detail.Cut
		if !o.Wants(i, r.Predicted) {
			break
		}
		a.Labels = append(a.Labels, r)
	}
	if o.Explain {
		o.Cuts(a, func(uint32) kind.Cut { return kind.Cut{Least: m.detail.Cut, OfScore: true} })
		for _, r := range a.Labels {
			a.Members = append(a.Members, m.shares(r.Label, why))
		}
	}
	s.found, s.scores = s.found[:0], s.scores[:0]
	m.pool.Put(s)
	return nil
}

// take notes the scores of a member.
func (s *scratch) take(member, members int) {
	for _, r := range s.answer.Labels {
		if r.Score <= 0 {
			continue
		}
		if s.place[r.Label] == 0 {
			s.found = append(s.found, kind.Ranked{Ranked: labels.Ranked{Label: r.Label}, Name: r.Name})
			s.scores = append(s.scores, make([]float32, members)...)
			s.place[r.Label] = int32(len(s.found))
		}
		s.scores[int(s.place[r.Label]-1)*members+member] = r.Score
	}
}

// weigh sets the scores of the labels found, best first: the weighed probabilities of the members.
func (m *model) weigh(s *scratch) {
	for i := range s.found {
		r := &s.found[i]
		s.place[r.Label] = 0
		sum := float64(0)
		for j := range m.members {
			weight, chance := m.share(j, r.Label, s.scores[i*len(m.members)+j])
			sum += weight * chance
		}
		r.Score = float32(sum)
	}
	slices.SortFunc(s.found, func(a, b kind.Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name))
	})
}

// share returns the part of a member in the score of a label: its weight, and how probable the member's own
// score makes the label.
func (m *model) share(member int, label uint32, score float32) (weight, chance float64) {
	at, rows := &m.members[member], m.rows(label)
	bucket := labels.Bucket(rows)
	weight = at.Weights[bucket]
	if rows == 0 { // only LCIF knows labels of later rows
		weight = 1
	}
	if score <= 0 {
		return weight, 0
	}
	return weight, float64(at.Curves[bucket].At(score))
}

// reasonsOf returns the reasons of an answer of a member by label, without shares.
func reasonsOf(name string, a *kind.LabelAnswer) map[uint32]kind.MemberShare {
	out := map[uint32]kind.MemberShare{}
	for i, r := range a.Labels {
		x := kind.MemberShare{Kind: name, Score: float64(r.Score)}
		if len(a.Paths) > i {
			x.Path = a.Paths[i]
		}
		if len(a.Evidence) > i {
			x.Evidence = &a.Evidence[i]
		}
		out[r.Label] = x
	}
	return out
}

// shares returns the members that give a label a score, the largest share first.
func (m *model) shares(label uint32, why []map[uint32]kind.MemberShare) (out []kind.MemberShare) {
	for j, reasons := range why {
		if x, ok := reasons[label]; ok {
			x.Weight, x.Chance = m.share(j, label, float32(x.Score))
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b kind.MemberShare) int {
		return cmp.Compare(b.Weight*b.Chance, a.Weight*a.Chance)
	})
	return out
}
