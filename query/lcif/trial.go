package lcif

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	lists   []*nearLists   // neighbours by part, deep of them per row
	deep    int
	// feature holds the feature scores by β. Few are kept if they are large.
	feature map[float64]*scoreRows
	mu      sync.Mutex
}

// keepScores is the maximum memory in bytes of the cached feature scores of several β. The most
// recently requested scores are kept whatever their size.
const keepScores = 256 << 20

func newTrials(data *HeldOut, workers int) (*trials, error) {
	if len(data.Parts) == 0 || data.Train == nil {
		return nil, fmt.Errorf("%w: nothing held out", query.ErrParams)
	}
	t := &trials{data: data, workers: workers, feature: map[float64]*scoreRows{}}
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
	lists := make([]*nearLists, len(t.data.Parts))
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

// eachPart computes rows of all parts: work receives the part and returns the function that
// appends a row's scores.
func (t *trials) eachPart(ctx context.Context,
	work func(part int) func(tally *tally, row int, dst *vector.Sparse)) (*vector.CSR, error) {
	rows := make([]vector.Sparse, t.truth.Rows())
	at := 0
	for i, p := range t.data.Parts {
		do := work(i)
		err := eachRow(ctx, p.Queries.Rows(), t.workers, func() func(int) {
			tally, dst := new(tally), new(vector.Sparse)
			tally.reset(t.truth.Labels())
			return func(r int) {
				clearSparse(dst)
				do(tally, r, dst)
				rows[at+r] = vector.Sparse{Index: slices.Clone(dst.Index), Value: slices.Clone(dst.Value)}
			}
		})
		if err != nil {
			return nil, err
		}
		at += p.Queries.Rows()
	}
	return stack(rows, t.truth.Labels()), nil
}

// features returns the feature scores of all rows for beta.
func (t *trials) features(ctx context.Context, beta float64) (*scoreRows, error) {
	if m := t.feature[beta]; m != nil {
		return m, nil
	}
	for i, p := range t.data.Parts {
		if p.Counts == nil {
			return nil, fmt.Errorf("%w: part %d has no feature–label counts", query.ErrMethod, i)
		}
	}
	powers, errs := make([]*labels.Powers, len(t.data.Parts)), make([]error, len(t.data.Parts))
	err := eachRow(ctx, len(powers), t.workers, func() func(int) {
		return func(i int) { powers[i], errs[i] = t.data.Parts[i].Counts.Powers(beta) }
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	m, err := t.eachPart(ctx, func(part int) func(*tally, int, *vector.Sparse) {
		return func(tally *tally, row int, dst *vector.Sparse) {
			featureScores(tally, powers[part], beta, t.units[part].Row(row), dst)
		}
	})
	if err != nil {
		return nil, err
	}
	scores := newScoreRows(m)
	total := scores.bytes()
	for _, c := range t.feature {
		total += c.bytes()
	}
	if total > keepScores {
		clear(t.feature)
	}
	t.feature[beta] = scores
	return scores, nil
}

// scoreRows holds the scores of rows: a dense matrix if most labels have one, lists otherwise.
type scoreRows struct {
	labels int
	dense  []float32
	list   *vector.CSR
}

// newScoreRows converts a matrix of scores, which it takes over.
func newScoreRows(m *vector.CSR) *scoreRows {
	if cells := m.Rows() * m.Cols; 2*len(m.Index) < cells {
		return &scoreRows{labels: m.Cols, list: m}
	}
	s := &scoreRows{labels: m.Cols, dense: make([]float32, m.Rows()*m.Cols)}
	for i := range m.Rows() {
		row := m.Row(i)
		for e, l := range row.Index {
			s.dense[i*m.Cols+int(l)] = row.Value[e]
		}
	}
	return s
}

func (s *scoreRows) bytes() int {
	if s.list == nil {
		return 4 * len(s.dense)
	}
	return 8 * len(s.list.Index)
}

// entries returns the number of labels of a row that may have a score.
func (s *scoreRows) entries(row int) int {
	if s.list == nil {
		return s.labels
	}
	return int(s.list.Ptr[row+1] - s.list.Ptr[row])
}

// measure measures a setting with several cuts at once. thresholds[i] are the thresholds of
// cuts[i].
func (t *trials) measure(ctx context.Context, s Setting, cuts []Cut,
	progress func(done, total int)) ([]Measures, []*labels.Thresholds, error) {
	scores, precision, err := t.scores(ctx, s, t.predictedLabels(cuts), progress)
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
	return measures, thresholds, nil
}

// scores returns the scores of one setting that thresholds for want labels depend on.
func (t *trials) scores(ctx context.Context, s Setting, want float64,
	progress func(done, total int)) (*vector.CSR, [3]float64, error) {
	w, err := t.newSweep(ctx, []Setting{s}, progress)
	if err != nil {
		return nil, [3]float64{}, err
	}
	if !math.IsInf(want, 1) {
		if err := w.limits(ctx, want); err != nil {
			return nil, [3]float64{}, err
		}
	}
	if err := w.run(ctx, want); err != nil {
		return nil, [3]float64{}, err
	}
	return w.jobs[0].scores(t.truth.Labels()), w.jobs[0].precision, nil
}

// predictedLabels returns approximately the largest number of labels that the cuts predict.
func (t *trials) predictedLabels(cuts []Cut) float64 {
	share := 0.0
	for _, c := range cuts {
		switch {
		case c.PerLabel:
			return math.Inf(1)
		case c.Steps:
			// The nearest of a few thresholds predicts at most twice as many labels.
			share = max(share, 2*c.Share)
		default:
			share = max(share, c.Share)
		}
	}
	return share * t.data.Train.Cardinality() * float64(t.truth.Rows())
}

// measureAll measures many settings, each with its own cut. Settings that differ only in their
// cuts share their scores.
func (t *trials) measureAll(ctx context.Context, settings []Setting,
	progress func(done, total int)) ([]Measures, error) {
	out := make([]Measures, len(settings))
	// Thresholds by label may depend on any score, others only on the largest ones.
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
	at       []int     // indexes of the requested settings
	job      []int     // index of each of them in settings
	cuts     []Cut
	want     float64 // number of labels that thresholds need
}

// add adds setting s, number i, unless the batch is full.
func (b *measureBatch) add(t *trials, i int, s Setting) bool {
	cut := s.Cut
	s.Cut = Cut{}
	want := max(b.want, t.predictedLabels([]Cut{cut}))
	job := slices.Index(b.settings, s)
	if job < 0 {
		kept := want + float64(t.truth.Rows()) + 1
		if cut.PerLabel {
			kept = float64(t.truth.Rows()) * float64(t.truth.Labels())
		}
		if n := float64(len(b.settings)); n > 0 && (n >= sweepJobs || (n+1)*kept > sweepKept) {
			return false
		}
		job = len(b.settings)
		b.settings = append(b.settings, s)
	}
	b.at, b.job, b.cuts, b.want = append(b.at, i), append(b.job, job), append(b.cuts, cut), want
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
	if !math.IsInf(b.want, 1) {
		if err := w.limits(ctx, b.want); err != nil {
			return err
		}
	}
	if err := w.run(ctx, b.want); err != nil {
		return err
	}
	scores := make([]*vector.CSR, len(b.settings))
	for i, j := range w.jobs {
		scores[i] = j.scores(t.truth.Labels())
	}
	errs := make([]error, len(b.at))
	err = eachRow(ctx, len(b.at), t.workers, func() func(int) {
		return func(i int) {
			m, _, err := t.apply(scores[b.job[i]], b.cuts[i])
			m.Precision = w.jobs[b.job[i]].precision
			out[b.at[i]], errs[i] = m, err
		}
	})
	return errors.Join(append(errs, err)...)
}

// apply derives thresholds from scores and measures their predictions, without precision.
func (t *trials) apply(scores *vector.CSR, c Cut) (m Measures,
	thresholds *labels.Thresholds, err error) {
	if thresholds, err = t.cut(scores, c); err != nil {
		return m, nil, err
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
