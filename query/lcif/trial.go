package lcif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// trials measures settings on held-out rows. Shared values are computed once: neighbours for
// the largest k (smaller k use the first of them), and the two kinds of scores by their own
// parameters, so that another λ or threshold costs a pass over cached scores.
type trials struct {
	data    *HeldOut
	workers int
	truth   *labels.Matrix // of all parts, concatenated
	units   []*vector.CSR  // unit vectors by part
	lists   [][][]near     // neighbours by part and row, nearest first, deep of them per row
	deep    int
	// feature holds the feature scores by β. Few are kept if they are large.
	feature map[float64]scoreRows
	mu      sync.Mutex
}

// keepScores is the maximum memory in bytes of the cached feature scores of several β. The most
// recently requested scores are kept whatever their size.
const keepScores = 64 << 20

func newTrials(data *HeldOut, workers int) (*trials, error) {
	if len(data.Parts) == 0 || data.Train == nil {
		return nil, fmt.Errorf("%w: nothing held out", query.ErrParams)
	}
	t := &trials{data: data, workers: workers, feature: map[float64]scoreRows{}}
	all := vector.CSR{Ptr: []uint64{0}, Cols: data.Train.Labels()}
	for i, p := range data.Parts {
		if p.View == nil || p.Queries == nil || p.Truth == nil || p.Queries.Rows() != p.Truth.Rows() ||
			p.Truth.Labels() != all.Cols || p.View.Labels.Labels() != all.Cols {
			return nil, fmt.Errorf("%w: part %d does not fit: queries, their labels and the training labels differ",
				query.ErrParams, i)
		}
		for r := range p.Truth.Rows() {
			all.Index = append(all.Index, p.Truth.Row(r)...)
			all.Ptr = append(all.Ptr, uint64(len(all.Index)))
		}
		t.units = append(t.units, unitRows(p.Queries, p.View.Features, p.View.Keep))
	}
	var err error
	t.truth, err = labels.NewMatrix(all)
	return t, err
}

// neighbors searches for the k nearest rows of every query, unless they are cached.
func (t *trials) neighbors(ctx context.Context, k int, progress func(done, total int)) error {
	if t.deep >= k {
		return nil
	}
	lists := make([][][]near, len(t.data.Parts))
	done, total := 0, t.truth.Rows()
	for i, p := range t.data.Parts {
		if p.View.Neighbors == nil {
			return fmt.Errorf("%w: part %d finds no neighbours", query.ErrMethod, i)
		}
		var err error
		lists[i], err = neighborLists(ctx, p.View.Neighbors, p.Queries, t.units[i], k, t.workers,
			func(n, _ int) { progress(done+n, total) })
		if err != nil {
			return err
		}
		done += p.Queries.Rows()
	}
	t.lists, t.deep = lists, k
	return nil
}

// features returns the feature scores of all rows for beta.
func (t *trials) features(ctx context.Context, beta float64) (scoreRows, error) {
	if m := t.feature[beta]; m != nil {
		return m, nil
	}
	t.makeRoom()
	for i, p := range t.data.Parts {
		if p.Counts == nil {
			return nil, fmt.Errorf("%w: part %d has no feature–label counts", query.ErrMethod, i)
		}
	}
	scores := make(scoreRows, t.truth.Rows())
	rows := scores
	for i, p := range t.data.Parts {
		counts, err := p.Counts(ctx)
		if err != nil {
			return nil, err
		}
		powers, err := counts.Powers(beta)
		if err != nil {
			return nil, err
		}
		err = eachRow(ctx, p.Queries.Rows(), t.workers, func() func(int) {
			tally, dst := new(tally), new(vector.Sparse)
			tally.reset(t.truth.Labels())
			return func(r int) {
				clearSparse(dst)
				featureScores(tally, powers, beta, t.units[i].Row(r), dst)
				rows[r] = newScoreRow(*dst, t.truth.Labels())
			}
		})
		if err != nil {
			return nil, err
		}
		rows = rows[p.Queries.Rows():]
	}
	t.feature[beta] = scores
	return scores, nil
}

// makeRoom drops the cached scores if those of one more β would be too many.
func (t *trials) makeRoom() {
	total, largest := 0, 0
	for _, s := range t.feature {
		total += s.bytes()
		largest = max(largest, s.bytes())
	}
	if total+largest > keepScores {
		clear(t.feature)
	}
}

// scoreRows holds the scores of rows. A row without Index has a value for every label.
type scoreRows []vector.Sparse

// newScoreRow copies the scores of a row in the smaller form.
func newScoreRow(s vector.Sparse, labels int) vector.Sparse {
	if 2*s.Len() < labels {
		return vector.Sparse{Index: append(make([]uint32, 0, s.Len()), s.Index...), Value: slices.Clone(s.Value)}
	}
	dense := make([]float32, labels)
	for e, l := range s.Index {
		dense[l] = s.Value[e]
	}
	return vector.Sparse{Value: dense}
}

func (s scoreRows) bytes() int {
	n := 0
	for _, r := range s {
		n += 4*len(r.Index) + 4*len(r.Value)
	}
	return n
}

// measure measures a setting with several cuts at once. thresholds[i] are the thresholds of
// cuts[i].
func (t *trials) measure(ctx context.Context, s Setting, cuts []Cut,
	progress func(done, total int)) ([]Measures, []*labels.Thresholds, error) {
	scores, precision, err := t.scores(ctx, s, t.demand(cuts), progress)
	if err != nil {
		return nil, nil, err
	}
	measures, thresholds := make([]Measures, len(cuts)), make([]*labels.Thresholds, len(cuts))
	errs := make([]error, len(cuts))
	err = eachRow(ctx, len(cuts), t.workers, func() func(int) {
		return func(i int) {
			measures[i], thresholds[i], errs[i] = t.apply(scores, cuts[i])
			measures[i].Precision = precision
		}
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, nil, err
	}
	var b decisions
	for i, th := range thresholds {
		b.add(i, s, th)
	}
	return measures, thresholds, t.decide(ctx, &b, measures, progress)
}

// decisions are settings with thresholds by label, to be measured by what they predict, and where
// the measures go: the order of labels depends on such thresholds.
type decisions struct {
	settings   []Setting
	thresholds []*labels.Thresholds
	at         []int
}

// add adds a setting, unless it has no thresholds by label.
func (d *decisions) add(at int, s Setting, t *labels.Thresholds) {
	if t != nil && t.PerLabel != nil {
		d.settings, d.thresholds, d.at = append(d.settings, s), append(d.thresholds, t), append(d.at, at)
	}
}

// decide measures predictions by thresholds by label.
func (t *trials) decide(ctx context.Context, d *decisions, out []Measures,
	progress func(done, total int)) error {
	if len(d.at) == 0 {
		return nil
	}
	w, err := t.newSweep(ctx, d.settings, progress)
	if err != nil {
		return err
	}
	for i, j := range w.jobs {
		j.decide = d.thresholds[i]
	}
	if err := w.keep(ctx); err != nil {
		return err
	}
	for i, j := range w.jobs {
		sets := j.scores(t.truth.Labels())
		sets.Value = nil
		predicted, err := labels.NewMatrix(*sets)
		if err != nil {
			return err
		}
		r, err := labels.Evaluate(t.truth, predicted)
		if err != nil {
			return err
		}
		m := &out[d.at[i]]
		m.setMeasures(r)
		m.Precision = j.precision
	}
	return nil
}

// scores returns the scores of one setting that thresholds depend on.
func (t *trials) scores(ctx context.Context, s Setting, d demand,
	progress func(done, total int)) (*vector.CSR, [3]float64, error) {
	w, err := t.newSweep(ctx, []Setting{s}, progress)
	if err != nil {
		return nil, [3]float64{}, err
	}
	if err := w.run(ctx, d); err != nil {
		return nil, [3]float64{}, err
	}
	return w.jobs[0].scores(t.truth.Labels()), w.jobs[0].precision, nil
}

// demand returns what the thresholds of the cuts need: approximately the largest number of labels
// that they predict.
func (t *trials) demand(cuts []Cut) demand {
	share, perLabel := 0.0, false
	for _, c := range cuts {
		switch {
		case c.PerLabel:
			share, perLabel = max(share, 1), true
		case c.Steps:
			// The nearest of a few thresholds predicts at most twice as many labels.
			share = max(share, 2*c.Share)
		default:
			share = max(share, c.Share)
		}
	}
	return demand{share * t.data.Train.Cardinality() * float64(t.truth.Rows()), perLabel}
}

// measureAll measures many settings, each with its own cut. Settings that differ only in their
// cuts share their scores.
func (t *trials) measureAll(ctx context.Context, settings []Setting,
	progress func(done, total int)) ([]Measures, error) {
	out := make([]Measures, len(settings))
	// Thresholds by label may depend on small scores, others only on the largest ones.
	for _, perLabel := range []bool{false, true} {
		var b measureBatch
		for i, s := range settings {
			if s.Cut.PerLabel != perLabel {
				continue
			}
			if !b.add(t, i, s) {
				if err := t.measureBatch(ctx, &b, out, progress); err != nil {
					return nil, err
				}
				b = measureBatch{}
				b.add(t, i, s)
			}
		}
		if err := t.measureBatch(ctx, &b, out, progress); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// measureBatch holds settings that are scored together.
type measureBatch struct {
	settings []Setting // distinct settings without cuts
	betas    []float64 // distinct β whose feature scores they need
	at       []int     // indexes of the requested settings
	job      []int     // index of each of them in settings
	cuts     []Cut
	demand   demand
}

// add adds setting s, number i, unless the batch is full.
func (b *measureBatch) add(t *trials, i int, s Setting) bool {
	cut := s.Cut
	s.Cut = Cut{}
	d := t.demand([]Cut{cut})
	d.want = max(d.want, b.demand.want)
	job := slices.Index(b.settings, s)
	if job < 0 {
		cells := t.truth.Rows() * t.truth.Labels()
		kept := d.want + float64(t.truth.Rows()) + 1
		if n := float64(len(b.settings)); n > 0 && (n >= sweepJobs || (n+1)*kept > sweepKept) {
			return false
		}
		if s.Lambda < 1 && !slices.Contains(b.betas, s.Beta) {
			if n := len(b.betas); n > 0 && (n+1)*4*cells > keepScores {
				return false
			}
			b.betas = append(b.betas, s.Beta)
		}
		job = len(b.settings)
		b.settings = append(b.settings, s)
	}
	b.at, b.job, b.cuts, b.demand = append(b.at, i), append(b.job, job), append(b.cuts, cut), d
	return true
}

// measureBatch measures a batch and puts the measures into out.
func (t *trials) measureBatch(ctx context.Context, b *measureBatch, out []Measures,
	progress func(done, total int)) error {
	if len(b.at) == 0 {
		return nil
	}
	w, err := t.newSweep(ctx, b.settings, progress)
	if err != nil {
		return err
	}
	if err := w.run(ctx, b.demand); err != nil {
		return err
	}
	errs, thresholds := make([]error, len(b.at)), make([]*labels.Thresholds, len(b.at))
	err = eachRow(ctx, len(w.jobs), t.workers, func() func(int) {
		return func(job int) {
			j := w.jobs[job]
			scores := j.scores(t.truth.Labels())
			j.rows, j.parts = nil, nil
			for i, at := range b.at {
				if b.job[i] == job {
					out[at], thresholds[i], errs[i] = t.apply(scores, b.cuts[i])
					out[at].Precision = j.precision
				}
			}
		}
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	var d decisions
	for i, at := range b.at {
		d.add(at, b.settings[b.job[i]], thresholds[i])
	}
	return t.decide(ctx, &d, out, progress)
}

// apply derives thresholds from scores and, unless each label has its own, measures their
// predictions, without precision.
func (t *trials) apply(scores *vector.CSR, c Cut) (m Measures,
	thresholds *labels.Thresholds, err error) {
	if thresholds, err = t.cut(scores, c); err != nil {
		return m, nil, err
	}
	if thresholds.PerLabel != nil { // decide measures them
		return m, thresholds, nil
	}
	predicted, err := thresholds.Predict(scores)
	if err != nil {
		return m, nil, err
	}
	r, err := labels.Evaluate(t.truth, predicted)
	if err != nil {
		return m, nil, err
	}
	m.setMeasures(r)
	return m, thresholds, nil
}

// cut derives thresholds from scores.
func (t *trials) cut(scores *vector.CSR, c Cut) (*labels.Thresholds, error) {
	switch {
	case len(scores.Index) == 0:
		// Without scores nothing is predicted, whatever the threshold.
		return &labels.Thresholds{KeepTop: !c.NoTop}, nil
	case c.PerLabel:
		return labels.LabelThresholds(scores, t.data.Train, !c.NoTop)
	case c.Steps:
		return labels.SteppedThreshold(scores, c.Share*t.data.Train.Cardinality(), !c.NoTop)
	}
	return labels.SingleThreshold(scores, c.Share*t.data.Train.Cardinality(), !c.NoTop)
}
