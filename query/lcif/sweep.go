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

// A sweep scores the held-out rows with many settings in one pass. Shared values are computed
// once per row: the labels that may have a score, the feature scores by β, and the sums over
// the neighbours, which grow with k. Only the few scores that a threshold can depend on are
// kept.
type sweep struct {
	t      *trials
	jobs   []*sweepJob
	groups []sweepGroup
	betas  []scoreRows // feature scores of all rows, for each requested β
	bare   []*sweepJob // jobs without instance scores
	deep   int         // the largest k
}

// sweepJob is one setting of a sweep and its result.
type sweepJob struct {
	setting Setting
	beta    int // index in sweep.betas; -1: no feature scores
	at      int // index in sweep.jobs
	// Scores below least are omitted, except for the best of a row. There are as many scores of
	// at least sure as the thresholds need; those between least and sure show where the next
	// lower scores are. leastOf, if not nil, holds the limits of labels in place of least.
	least, sure float32
	leastOf     []float32
	// decide, if set, are the thresholds: the predicted labels are kept in place of scores.
	decide *labels.Thresholds

	rows      []keptRow
	parts     []*keptScores // by worker
	precision [3]float64
	above     int // number of kept scores of at least sure, without the best of rows
}

// keptRow locates the scores of a row.
type keptRow struct {
	worker int32
	from   uint32
	n      uint32
}

// keptScores holds the scores that one worker kept for one job.
type keptScores struct {
	label []uint32
	value []float32
	hits  [3]int
	above int
	count []uint32 // sampling: number of scores by their upper bits, without the best of rows
	of    []uint32 // number of scores by label and labelBucket
}

// demand is what thresholds need of the scores: the largest ones, about want of them, and if perLabel
// those of each label that its share of the training rows is decided by.
type demand struct {
	want     float64
	perLabel bool
}

// sweepGroup holds the settings whose sums over neighbours have the same weights.
type sweepGroup struct {
	alpha, second float64
	steps         []sweepStep // ascending by k
}

type sweepStep struct {
	k    int
	jobs []*sweepJob
}

const (
	// countShift reduces a positive float32 to its exponent and five more bits, which order
	// scores well enough for a sample.
	countShift = 18
	counts     = 1 << (31 - countShift)
	// Of a score of one label, labelBucket keeps the exponent and two more bits, from leastBucket on.
	labelShift   = 21
	leastBucket  = (127 - 31) << 2
	labelBuckets = 127<<2 - leastBucket + 1
	// sampleRows is the approximate number of rows in the sample that determines the limits.
	sampleRows = 1024
	// sweepJobs is the maximum number of settings in one sweep, sweepKept the approximate
	// maximum number of scores they keep.
	sweepJobs = 64
	sweepKept = 1 << 20
)

// newSweep prepares the settings; λ determines which scores a setting needs.
func (t *trials) newSweep(ctx context.Context, settings []Setting,
	progress func(done, total int)) (*sweep, error) {
	s := &sweep{t: t}
	var betas []float64
	for i, x := range settings {
		j := &sweepJob{setting: x, beta: -1, at: i}
		s.jobs = append(s.jobs, j)
		if x.Lambda < 1 {
			if j.beta = slices.Index(betas, x.Beta); j.beta < 0 {
				j.beta = len(betas)
				betas = append(betas, x.Beta)
			}
		}
		if x.Lambda == 0 {
			s.bare = append(s.bare, j)
			continue
		}
		s.deep = max(s.deep, x.K)
		s.group(j)
	}
	for i := range s.groups {
		slices.SortFunc(s.groups[i].steps, func(a, b sweepStep) int { return cmp.Compare(a.k, b.k) })
		for p := range t.data.Parts {
			if s.groups[i].second > 0 && t.data.Parts[p].View.Graph == nil {
				return nil, fmt.Errorf("%w: part %d has no graph for second-order scores", query.ErrMethod, p)
			}
		}
	}
	if s.deep > 0 {
		if err := t.neighbors(ctx, s.deep, progress); err != nil {
			return nil, err
		}
	}
	for _, beta := range betas {
		m, err := t.features(ctx, beta)
		if err != nil {
			return nil, err
		}
		s.betas = append(s.betas, m)
	}
	return s, nil
}

// group adds a job to those that share its sums.
func (s *sweep) group(j *sweepJob) {
	x := &j.setting
	g := slices.IndexFunc(s.groups, func(g sweepGroup) bool {
		return g.alpha == x.Alpha &&
			g.second == x.SecondOrder
	})
	if g < 0 {
		g = len(s.groups)
		s.groups = append(s.groups, sweepGroup{alpha: x.Alpha, second: x.SecondOrder})
	}
	steps := &s.groups[g].steps
	i := slices.IndexFunc(*steps, func(st sweepStep) bool { return st.k == x.K })
	if i < 0 {
		i = len(*steps)
		*steps = append(*steps, sweepStep{k: x.K})
	}
	(*steps)[i].jobs = append((*steps)[i].jobs, j)
}

// limits chooses the limits of every job, such that about want scores pass a threshold: by every
// stride-th row, with a margin for sampling error.
func (s *sweep) limits(ctx context.Context, want float64, stride int) error {
	n := s.t.truth.Rows()
	sampled := (n + stride - 1) / stride
	workers, err := s.pass(ctx, sampled, func(i int) int { return i * stride }, sampling)
	if err != nil {
		return err
	}
	want *= float64(sampled) / float64(max(1, n))
	if stride > 1 {
		want += 0.1*want + 4*math.Sqrt(want)
	}
	want += 2
	for i, j := range s.jobs {
		total := make([]int, counts)
		for _, w := range workers {
			for b, c := range w.kept[i].count {
				total[b] += int(c)
			}
		}
		j.least, j.sure = cutoff(total, want)
	}
	return nil
}

// labelLimits chooses the limits of the labels: with what LabelThresholds needs of a label's scores,
// and of all scores for labels that have none. It reads all rows, since a label may have few.
func (s *sweep) labelLimits(ctx context.Context, want float64) error {
	n := s.t.truth.Rows()
	workers, err := s.pass(ctx, n, func(i int) int { return i }, byLabel)
	if err != nil {
		return err
	}
	for i, j := range s.jobs {
		total := make([]uint32, s.t.truth.Labels()*labelBuckets)
		for _, w := range workers {
			for b, c := range w.kept[i].of {
				total[b] += c
			}
		}
		all := make([]int, labelBuckets)
		for b, c := range total {
			all[b%labelBuckets] += int(c)
		}
		least := labelCutoff(all, want+1)
		j.leastOf = make([]float32, s.t.truth.Labels())
		for l := range j.leastOf {
			own := total[l*labelBuckets:][:labelBuckets]
			j.leastOf[l] = min(least, labelCutoff(own, s.t.data.Train.Density(l)*float64(n)+1))
		}
	}
	return nil
}

// labelBucket returns the bucket of a score above zero of one label; the lowest one is open below.
func labelBucket(x float32) int {
	return min(max(int(math.Float32bits(x)>>labelShift)-leastBucket, 0), labelBuckets-1)
}

// labelCutoff is the least of cutoff for counts by labelBucket.
func labelCutoff[T int | uint32](count []T, want float64) float32 {
	n, reached := 0, false
	for b := len(count) - 1; b > 0; b-- {
		if count[b] > 0 && reached {
			return math.Float32frombits(uint32(b+leastBucket) << labelShift)
		}
		n += int(count[b])
		reached = float64(n) >= want
	}
	return 0
}

// cutoff returns sure, the lower bound of the smallest bucket with which the count from the top
// reaches want, and least, the lower bound of the next nonempty bucket below it. Both are 0 if
// there is no such bucket.
func cutoff(count []int, want float64) (least, sure float32) {
	n, reached := 0, false
	for i := len(count) - 1; i >= 0; i-- {
		if count[i] == 0 {
			continue
		}
		edge := math.Float32frombits(uint32(i) << countShift)
		if reached {
			return edge, sure
		}
		n += count[i]
		sure, reached = edge, float64(n) >= want
	}
	return 0, 0
}

// run keeps the scores of all rows that are needed. Where the limits from a sample were too high,
// it reads all rows for other ones.
func (s *sweep) run(ctx context.Context, d demand) error {
	work := func(s *sweep, stride int) (err error) {
		if d.perLabel {
			err = s.labelLimits(ctx, d.want)
		} else {
			err = s.limits(ctx, d.want, stride)
		}
		if err != nil {
			return err
		}
		return s.keep(ctx)
	}
	if err := work(s, max(1, s.t.truth.Rows()/sampleRows)); err != nil {
		return err
	}
	var again []*sweepJob
	for _, j := range s.jobs {
		if j.least > 0 && float64(j.above) < d.want+1 {
			again = append(again, j)
		}
	}
	if len(again) == 0 {
		return nil
	}
	settings := make([]Setting, len(again))
	for i, j := range again {
		settings[i] = j.setting
	}
	rest, err := s.t.newSweep(ctx, settings, func(int, int) {})
	if err != nil {
		return err
	}
	if err := work(rest, 1); err != nil {
		return err
	}
	for i, j := range again {
		at := j.at
		*j = *rest.jobs[i]
		j.at = at
	}
	return nil
}

// keep keeps the scores of all rows that are within the jobs' limits.
func (s *sweep) keep(ctx context.Context) error {
	n := s.t.truth.Rows()
	for _, j := range s.jobs {
		j.rows = make([]keptRow, n)
	}
	workers, err := s.pass(ctx, n, func(i int) int { return i }, keeping)
	if err != nil {
		return err
	}
	for i, j := range s.jobs {
		var hits [3]int
		for _, w := range workers {
			kept := &w.kept[i]
			j.parts = append(j.parts, kept)
			j.above += kept.above
			for p, h := range kept.hits {
				hits[p] += h
			}
		}
		for p, k := range [...]int{1, 3, 5} {
			if n > 0 {
				j.precision[p] = float64(hits[p]) / float64(n*k)
			}
		}
	}
	return nil
}

// scores returns the kept scores of a job, by row.
func (j *sweepJob) scores(labels int) *vector.CSR {
	total := 0
	for _, r := range j.rows {
		total += int(r.n)
	}
	m := &vector.CSR{Ptr: make([]uint64, 1, len(j.rows)+1), Index: make([]uint32, 0, total),
		Value: make([]float32, 0, total), Cols: labels}
	for _, r := range j.rows {
		if r.n > 0 {
			p := j.parts[r.worker]
			m.Index = append(m.Index, p.label[r.from:r.from+r.n]...)
			m.Value = append(m.Value, p.value[r.from:r.from+r.n]...)
		}
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return m
}

// passMode is what a pass does with the scores.
type passMode uint8

const (
	keeping  passMode = iota // keeps those within the limits
	sampling                 // counts them
	byLabel                  // counts them by label
)

// pass scores n rows, numbered by row, on all workers.
func (s *sweep) pass(ctx context.Context, n int, row func(i int) int, mode passMode) ([]*sweeper, error) {
	starts := make([]int, len(s.t.data.Parts)+1)
	for p := range s.t.data.Parts {
		starts[p+1] = starts[p] + s.t.data.Parts[p].Queries.Rows()
	}
	var workers []*sweeper
	err := eachRow(ctx, n, s.t.workers, func() func(int) {
		w := newSweeper(s, mode)
		s.t.mu.Lock()
		w.number = int32(len(workers))
		workers = append(workers, w)
		s.t.mu.Unlock()
		return func(i int) {
			at := row(i)
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
	return workers, err
}

// sweeper is one worker of a pass.
type sweeper struct {
	s      *sweep
	number int32
	kept   []keptScores // by job

	all     []uint32 // every label; equally the place of each among all
	met     []uint64
	place   []uint32 // places of the row's labels among them
	label   []uint32 // labels of the row that may have a score, ascending
	sum     []float64
	inst    []float32
	feature [][]float32 // feature scores of the row, by β
	spread  [][]float32 // memory for feature scores that are stored as a list
	blended []float32
	tally   tally
	second  vector.Sparse
	ranked  []labels.Ranked
}

func newSweeper(s *sweep, mode passMode) *sweeper {
	l := s.t.truth.Labels()
	w := &sweeper{
		s: s, kept: make([]keptScores, len(s.jobs)), all: make([]uint32, l),
		met: make([]uint64, (l+63)/64), place: make([]uint32, l),
		sum: make([]float64, l), inst: make([]float32, l), feature: make([][]float32, len(s.betas)),
		spread: make([][]float32, len(s.betas)), blended: make([]float32, l),
	}
	for i := range w.all {
		w.all[i] = uint32(i)
	}
	for i := range s.betas {
		w.spread[i] = make([]float32, l)
	}
	for i := range w.kept {
		switch mode {
		case sampling:
			w.kept[i].count = make([]uint32, counts)
		case byLabel:
			w.kept[i].of = make([]uint32, l*labelBuckets)
		}
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
		list = list[:min(w.s.deep, len(list))]
	}
	place := w.candidates(view, list, at)
	n := len(w.label)
	for b, m := range w.s.betas {
		row := m[at]
		if row.Index == nil {
			w.feature[b] = row.Value
			continue
		}
		w.feature[b] = w.spread[b][:n]
		clear(w.feature[b])
		for e, l := range row.Index {
			w.feature[b][place[l]] = row.Value[e]
		}
	}
	for _, j := range w.s.bare {
		w.take(j, at, w.feature[j.beta])
	}
	for g := range w.s.groups {
		group := &w.s.groups[g]
		sum, inst := w.sum[:n], w.inst[:n]
		clear(sum)
		total, done := 0.0, 0
		for _, step := range group.steps {
			if group.second > 0 {
				w.indirect(view, list[:min(step.k, len(list))], group, place, inst)
			} else {
				// All sums have the order of a single prediction.
				for ; done < min(step.k, len(list)); done++ {
					near := list[done]
					weight := labels.Power(float64(near.sim), group.alpha)
					total += weight
					if !(weight > 0) || int(near.row) >= view.Labels.Rows() {
						continue
					}
					for _, l := range view.Labels.Row(int(near.row)) {
						sum[place[l]] += weight
					}
				}
				if total > 0 {
					for i, x := range sum {
						inst[i] = float32(x / total)
					}
				} else {
					clear(inst)
				}
			}
			for _, j := range step.jobs {
				w.take(j, at, w.blend(j, inst))
			}
		}
	}
}

// candidates returns the places of the labels that may have a score. If most labels seem to have
// one, it lists all of them.
func (w *sweeper) candidates(view *View, list []near, at int) []uint32 {
	entries := 0
	for _, m := range w.s.betas {
		entries = max(entries, len(m[at].Value))
	}
	indirect := slices.ContainsFunc(w.s.groups, func(g sweepGroup) bool { return g.second > 0 })
	met := float64(len(list)) * w.s.t.data.Train.Cardinality() // at most, by the neighbours
	if 2*entries >= len(w.all) || met >= float64(len(w.all)) || indirect {
		w.label = w.all
		return w.all
	}
	mark := func(set []uint32) {
		for _, l := range set {
			w.met[l/64] |= 1 << (l % 64)
		}
	}
	for _, m := range w.s.betas {
		mark(m[at].Index)
	}
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
	return w.place
}

// indirect computes the instance scores of second order.
func (w *sweeper) indirect(view *View, list []near, group *sweepGroup, place []uint32,
	inst []float32) {
	clearSparse(&w.second)
	instanceScores(&w.tally, view, list, group.alpha, group.second, &w.second)
	clear(inst)
	for e, l := range w.second.Index {
		inst[place[l]] = w.second.Value[e]
	}
}

// blend returns the combined scores of a job (definition 9).
func (w *sweeper) blend(j *sweepJob, inst []float32) []float32 {
	if j.beta < 0 {
		return inst
	}
	feature, out := w.feature[j.beta], w.blended[:len(inst)]
	feature = feature[:len(inst)]
	lambda := j.setting.Lambda
	rest := 1 - lambda
	for i, x := range inst {
		out[i] = float32(lambda*float64(x) + rest*float64(feature[i]))
	}
	return out
}

// take counts or keeps the scores of a row, by the labels of w.label.
func (w *sweeper) take(j *sweepJob, at int, scores []float32) {
	label, kept := w.label[:len(scores)], &w.kept[j.at]
	var best float32
	for _, x := range scores {
		if x > best {
			best = x
		}
	}
	switch {
	case !(best > 0):
		return
	case kept.count != nil:
		for _, x := range scores {
			if x > 0 {
				kept.count[math.Float32bits(x)>>countShift]++
			}
		}
		kept.count[math.Float32bits(best)>>countShift]--
		return
	case kept.of != nil:
		for i, x := range scores {
			if x > 0 {
				kept.of[int(label[i])*labelBuckets+labelBucket(x)]++
			}
		}
		return
	}
	if j.decide != nil {
		w.decide(j, at, vector.Sparse{Index: label, Value: scores})
		return
	}
	// Labels that tie with the best are kept: the smallest of them is the best.
	least := min(max(j.least, math.SmallestNonzeroFloat32), best)
	from := len(kept.label)
	for i, x := range scores {
		if j.leastOf != nil {
			least = min(max(j.leastOf[label[i]], math.SmallestNonzeroFloat32), best)
		}
		if x >= least {
			kept.label = append(kept.label, label[i])
			kept.value = append(kept.value, x)
		}
	}
	found := vector.Sparse{Index: kept.label[from:], Value: kept.value[from:]}
	if j.leastOf != nil || found.Len() < 5 && j.least > 0 {
		found = vector.Sparse{Index: label, Value: scores}
	}
	w.ranked = labels.Rank(w.ranked[:0], found, 5)
	for _, x := range kept.value[from:] {
		if x >= j.sure {
			kept.above++
		}
	}
	if best >= j.sure {
		kept.above--
	}
	w.close(j, at, from)
}

// decide keeps the labels of a row that the thresholds predict.
func (w *sweeper) decide(j *sweepJob, at int, scores vector.Sparse) {
	kept := &w.kept[j.at]
	from := len(kept.label)
	kept.label = j.decide.Append(kept.label, scores)
	for range kept.label[from:] {
		kept.value = append(kept.value, 1)
	}
	order := j.decide.Order(nil)
	w.ranked = order.Rank(w.ranked[:0], scores, 5)
	w.close(j, at, from)
}

// close notes what is kept of a row, from an index on, and how many of its ranked labels are right.
func (w *sweeper) close(j *sweepJob, at, from int) {
	kept := &w.kept[j.at]
	j.rows[at] = keptRow{w.number, uint32(from), uint32(len(kept.label) - from)}
	truth := w.s.t.truth.Row(at)
	for place, r := range w.ranked {
		if _, ok := slices.BinarySearch(truth, r.Label); !ok {
			continue
		}
		for p, k := range [...]int{1, 3, 5} {
			if place < k {
				kept.hits[p]++
			}
		}
	}
}
