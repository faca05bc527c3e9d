package lcif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// A sweep scores the held-out rows in one pass for settings that differ only in k, λ and the share of
// the cut: they have the same feature scores, and their sums over neighbors grow with k.
type sweep struct {
	t        *trials
	settings []Setting // to be measured
	job      []int     // the index in jobs of each
	jobs     []*sweepJob
	byK      []*sweepJob // ascending
	deep     int         // the largest k of an instance score
	keep     int         // the number of labels of a row whose scores are kept
	features scoreRows   // nil if no setting needs them
	second   bool
}

// sweepJob holds the scores of the settings that differ only in their cuts: of each row, those of its
// best labels.
type sweepJob struct {
	k      int
	lambda float64
	// The labels of row r, ascending, and their scores begin at r times sweep.keep.
	label []uint32
	value []float32
	count []int // by row
}

const (
	// A threshold for all labels is derived from the scores of at least keptLabels labels of a row, the
	// best ones, thresholds by label from those of at least keptByLabel.
	keptLabels, keptByLabel = 16, 256
	// sweepScores is the maximum number of scores that a sweep of several jobs keeps.
	sweepScores = 1 << 24
)

// newSweep returns a sweep for as many of the settings, from the first one on, as fit into it.
func (t *trials) newSweep(settings []Setting) *sweep {
	first := settings[0]
	s := &sweep{t: t, second: first.SecondOrder > 0}
	for i, x := range settings {
		if x.Alpha != first.Alpha || x.Beta != first.Beta || x.SecondOrder != first.SecondOrder ||
			x.Cut.PerLabel != first.Cut.PerLabel {
			break
		}
		keep := max(s.keep, t.keep(x.Cut))
		job := slices.IndexFunc(s.jobs, func(j *sweepJob) bool { return j.k == x.K && j.lambda == x.Lambda })
		if job < 0 {
			if job = len(s.jobs); job > 0 && (job+1)*t.truth.Rows()*keep > sweepScores {
				break
			}
			s.jobs = append(s.jobs, &sweepJob{k: x.K, lambda: x.Lambda})
		}
		s.job, s.settings, s.keep = append(s.job, job), settings[:i+1], keep
		if x.Lambda > 0 {
			s.deep = max(s.deep, x.K)
		}
	}
	s.byK = slices.Clone(s.jobs)
	slices.SortStableFunc(s.byK, func(a, b *sweepJob) int { return cmp.Compare(a.k, b.k) })
	return s
}

// run scores all rows.
func (s *sweep) run(ctx context.Context, progress func(done, total int)) error {
	for p := range s.t.data.Parts {
		if s.second && s.t.data.Parts[p].View.Graph == nil {
			return fmt.Errorf("%w: part %d has no graph for second-order scores", query.ErrMethod, p)
		}
	}
	if err := s.t.neighbors(ctx, s.deep, progress); err != nil {
		return err
	}
	if slices.ContainsFunc(s.jobs, func(j *sweepJob) bool { return j.lambda < 1 }) {
		var err error
		if s.features, err = s.t.features(ctx, cmp.Or(s.settings[0].Beta, 1)); err != nil {
			return err
		}
	}
	n := s.t.truth.Rows()
	for _, j := range s.jobs {
		j.label, j.value, j.count = make([]uint32, n*s.keep), make([]float32, n*s.keep), make([]int, n)
	}
	starts := make([]int, len(s.t.data.Parts)+1)
	for p := range s.t.data.Parts {
		starts[p+1] = starts[p] + s.t.data.Parts[p].Queries.Rows()
	}
	return eachRow(ctx, n, s.t.workers, func() func(int) {
		w := newSweeper(s)
		return func(at int) {
			part, exact := slices.BinarySearch(starts, at)
			if !exact {
				part--
			}
			for starts[part+1] == at { // empty parts
				part++
			}
			w.row(part, at-starts[part], at)
		}
	})
}

// scores returns the kept scores of a job.
func (s *sweep) scores(j *sweepJob) *vector.CSR {
	total := 0
	for _, n := range j.count {
		total += n
	}
	m := &vector.CSR{
		Ptr: make([]uint64, 1, len(j.count)+1), Index: make([]uint32, 0, total), Value: make([]float32, 0, total),
		Cols: s.t.truth.Labels(),
	}
	for r, n := range j.count {
		from := r * s.keep
		m.Append(vector.Sparse{Index: j.label[from : from+n], Value: j.value[from : from+n]})
	}
	return m
}

// sweeper is one worker of a sweep.
type sweeper struct {
	s *sweep

	all     []uint32 // every label; equally the place of each among all
	met     []uint64
	place   []uint32 // places of the row's labels among them
	label   []uint32 // labels of the row that may have a score, ascending
	sum     []float64
	inst    []float32
	feature []float32
	blended []float32
	tally   tally
	second  vector.Sparse
	sorted  []float32
}

func newSweeper(s *sweep) *sweeper {
	l := s.t.truth.Labels()
	w := &sweeper{
		s: s, all: make([]uint32, l), met: make([]uint64, (l+63)/64), place: make([]uint32, l),
		sum: make([]float64, l), inst: make([]float32, l), feature: make([]float32, l),
		blended: make([]float32, l),
	}
	for i := range w.all {
		w.all[i] = uint32(i)
	}
	w.tally.reset(l)
	return w
}

// row scores row r of a part, which is row at of all rows.
func (w *sweeper) row(part, r, at int) {
	view := w.s.t.data.Parts[part].View
	var list []near
	if w.s.deep > 0 {
		list = w.s.t.lists[part][r]
	}
	var scores vector.Sparse
	if w.s.features != nil {
		scores = w.s.features[at]
	}
	w.candidates(view, list[:min(w.s.deep, len(list))], scores)
	n := len(w.label)
	sum, inst, feature := w.sum[:n], w.inst[:n], w.feature[:n]
	clear(sum)
	clear(inst)
	clear(feature)
	for e, l := range scores.Index {
		feature[w.place[l]] = scores.Value[e]
	}
	alpha := cmp.Or(w.s.settings[0].Alpha, 1)
	total, done := 0.0, 0
	for _, j := range w.s.byK {
		near := list[:min(j.k, len(list))]
		switch {
		case j.lambda == 0 || done == len(near):
		case w.s.second:
			w.indirect(view, near, inst)
			done = len(near)
		default:
			// All sums have the order of a single prediction.
			for _, near := range near[done:] {
				weight := labels.Power(float64(near.sim), alpha)
				total += weight
				if !(weight > 0) || int(near.row) >= view.Labels.Rows() {
					continue
				}
				for _, l := range view.Labels.Row(int(near.row)) {
					sum[w.place[l]] += weight
				}
			}
			done = len(near)
			if total > 0 {
				for i, x := range sum {
					inst[i] = float32(x / total)
				}
			}
		}
		w.take(j, at, w.blend(j.lambda, inst, feature))
	}
}

// candidates finds the labels that may have a score and their places. If most labels seem to have one,
// it lists all of them.
func (w *sweeper) candidates(view *View, list []near, features vector.Sparse) {
	met := float64(len(list)) * w.s.t.data.Train.Cardinality() // at most, by the neighbors
	if 2*features.Len() >= len(w.all) || met >= float64(len(w.all)) || w.s.second {
		w.label = w.all
		copy(w.place, w.all)
		return
	}
	mark := func(set []uint32) {
		for _, l := range set {
			w.met[l/64] |= 1 << (l % 64)
		}
	}
	mark(features.Index)
	for _, n := range list {
		if int(n.row) < view.Labels.Rows() {
			mark(view.Labels.Row(int(n.row)))
		}
	}
	if cap(w.label) == 0 || &w.label[:1][0] == &w.all[0] {
		w.label = make([]uint32, 0, len(w.all))
	}
	w.label = w.label[:0]
	for i, word := range w.met {
		w.met[i] = 0
		for ; word != 0; word &= word - 1 {
			l := uint32(i*64 + bits.TrailingZeros64(word))
			w.place[l] = uint32(len(w.label))
			w.label = append(w.label, l)
		}
	}
}

// indirect computes the instance scores of second order.
func (w *sweeper) indirect(view *View, list []near, inst []float32) {
	x := &w.s.settings[0]
	clearSparse(&w.second)
	instanceScores(&w.tally, view, list, cmp.Or(x.Alpha, 1), x.SecondOrder, &w.second)
	clear(inst)
	for e, l := range w.second.Index {
		inst[w.place[l]] = w.second.Value[e]
	}
}

// blend returns the combined scores (definition 9).
func (w *sweeper) blend(lambda float64, inst, feature []float32) []float32 {
	switch lambda {
	case 0:
		return feature
	case 1:
		return inst
	}
	out := w.blended[:len(inst)]
	for i, x := range inst {
		out[i] = float32(lambda*float64(x) + (1-lambda)*float64(feature[i]))
	}
	return out
}

// take keeps the best scores of a row, by the labels of w.label; of equal ones those of smaller labels.
func (w *sweeper) take(j *sweepJob, at int, scores []float32) {
	positive := 0
	for _, x := range scores {
		if x > 0 {
			positive++
		}
	}
	least, equal := float32(math.SmallestNonzeroFloat32), w.s.keep // equal is how many of least are kept
	if positive > w.s.keep {
		w.sorted = append(w.sorted[:0], scores...)
		lo := 0
		least, lo = labels.NthBest(w.sorted, w.s.keep-1)
		equal = w.s.keep - lo
	}
	from, n := at*w.s.keep, 0
	for i, x := range scores {
		if x < least || x == least && equal == 0 {
			continue
		}
		if x == least {
			equal--
		}
		j.label[from+n], j.value[from+n] = w.label[i], x
		n++
	}
	j.count[at] = n
}
