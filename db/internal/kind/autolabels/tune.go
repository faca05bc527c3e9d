package autolabels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/labeltreeindex"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/internal/descent"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/labeltree"
	"github.com/anndb/anndb/vector"
)

const (
	// Rows are held out by cross-validation of at most crossRows rows; of more, a tenth is held out once, and
	// at most heldRows.
	crossRows, heldRows = 20_000, 6_000
	// Fewer rows than manyFolds have five folds in place of three.
	manyFolds = 2_000
	// A tuner of LCIF scores at most tuneRows rows where a tenth is held out.
	tuneRows = 500
	// Members are asked for deepLabels labels, and deepShare times the mean number of labels of a row more.
	deepLabels, deepShare = 64, 8
	// defaultTime is the time of a build, enoughGain the share of what members explain for which one is added.
	defaultTime, enoughGain = 2 * time.Minute, 0.001
	// Where many rows make trials slow, one whose measure is so far below the best ends those of its kind.
	farBelow = 0.05
)

// tuner chooses the members of a model and their weights.
type tuner struct {
	job             *kind.Job
	opts            index.Auto
	sparse, vectors bool // of the collection
	data            *kind.LabelledRows
	folds           []labels.Fold
	truth           *labels.Matrix // of the held-out rows, by fold
	counts          []int          // rows of each label
	deep            int
	start           time.Time
	trials          []*trial
	earlier         []*trial // of a build that was cut short
	unfinished      bool     // this build was cut short
	failed          error    // of the first trial that failed
}

// trial is a setting of a member that has been measured on the held-out rows.
type trial struct {
	kind    kind.Kind
	asked   string        // the setting before the tuner of the kind
	options index.Options // in which nothing is left to a tuner
	partly  bool          // the tuner of the kind was cut short
	scores  *vector.CSR
	info    index.AutoTrial
	loss    float64 // squared error of the calibrated probabilities
	// model has learned from the rows that are not held out, if these are few, or from all.
	model *learnedModel
	// learning is the time that learning it from all rows takes, estimated.
	learning time.Duration
}

// candidate is a kind of member with the setting to try first, and functions that vary it in one option each.
type candidate struct {
	start index.Options
	vary  []func(index.Options) []index.Options
}

// along returns a function that returns a setting with each of some changes.
func along[O any](changes ...func(*O)) func(index.Options) []index.Options {
	return func(at index.Options) (out []index.Options) {
		for _, change := range changes {
			other := *any(at).(*O)
			change(&other)
			out = append(out, any(&other).(index.Options))
		}
		return out
	}
}

// members returns the kinds of members to try, in the order of their gain for the time that they take: those
// whose options are given, or all.
func (t *tuner) members() (out []string) {
	o := &t.opts
	if o.LCIF == nil && o.LabelTree == nil && o.Trees == nil {
		return []string{labeltreeindex.Name, lcifindex.Name, string(budget.AT)}
	}
	if o.LabelTree != nil {
		out = append(out, o.LabelTree.Name())
	}
	if o.LCIF != nil {
		out = append(out, o.LCIF.Name())
	}
	if o.Trees != nil {
		out = append(out, o.Trees.Name())
	}
	return out
}

// candidate returns what to try of a kind of member, of linear classifiers of many rows little more than
// the defaults.
func (t *tuner) candidate(name string) (c candidate) {
	o := &t.opts
	if given := memberOptions(o, name); given != nil {
		return candidate{start: given}
	}
	switch name {
	case lcifindex.Name:
		neighbors := &index.LCIF{Objective: o.Objective, Seed: o.Seed}
		if o.Objective >= lcif.PrecisionAt1 && o.Objective <= lcif.PrecisionAt5 {
			neighbors.Objective = lcif.NDCGAt5 // the precision of few rows is chance
		}
		if t.once() {
			neighbors.TuneRows = tuneRows
		}
		if c.start = neighbors; t.vectors {
			c.vary = append(c.vary, along(func(o *index.LCIF) { o.Neighbors = "both" }))
		}
	case labeltreeindex.Name:
		linear := &index.LabelTree{Weight: labelled.WeightStandard, Objective: o.Objective, Seed: o.Seed}
		linear.Params.C = labeltree.Params{}.Filled(len(t.data.Names)).C
		if t.sparse {
			linear.Weight = labelled.WeightTFIDF
		}
		cost := func(c float64) func(*index.LabelTree) { return func(o *index.LabelTree) { o.Params.C = c } }
		if c.start = linear; t.once() {
			switch {
			case t.vectors:
				linear.From = "both"
			case !t.sparse: // vectors are learned in little time
				c.vary = append(c.vary, along(cost(1)))
			}
			break
		}
		if t.vectors {
			c.vary = append(c.vary, along(func(o *index.LabelTree) { o.From = "both" },
				func(o *index.LabelTree) { o.From, o.Weight = "vector", "" }))
		}
		c.vary = append(c.vary, along(func(o *index.LabelTree) { o.Weight = labelled.WeightNone }),
			along(cost(0.1), cost(1), cost(3)))
	default:
		trees := &index.Trees{Kind: name, Budget: 300, Seed: o.Seed}
		trees.Params.BAC.C, trees.Params.MinPositive = 1, 3
		if c.start = trees; t.sparse {
			c.vary = append(c.vary, along(func(o *index.Trees) { o.Weight = labelled.WeightTFIDF }))
		}
	}
	return c
}

// once reports whether a part of the rows is held out once.
func (t *tuner) once() bool { return len(t.folds) == 1 }

// prepare divides the rows and counts the labels.
func (t *tuner) prepare() error {
	live, sets := t.data.Live, t.data.Sets
	n := len(live)
	if n < 2 {
		return fmt.Errorf("%w: a model of several kinds holds rows out: want 2 rows or more, not %d",
			fail.ErrUnsuitable, n)
	}
	k := 3
	if n < manyFolds {
		k = min(5, n)
	} else if n > crossRows {
		k = max(10, (n+heldRows-1)/heldRows)
	}
	folds, err := labels.KFoldOf(live, k, t.opts.Seed)
	if err != nil {
		return err
	}
	if n > crossRows {
		folds = folds[:1]
	}
	var rows []int
	for _, f := range folds {
		rows = append(rows, f.Test...)
	}
	t.folds, t.truth = folds, sets.Select(rows)
	t.deep = min(sets.Labels(), deepLabels+int(deepShare*sets.Cardinality()))
	t.counts = labels.LabelRows[int](sets)
	return nil
}

// dead returns the number of deleted rows.
func (t *tuner) dead() int { return t.data.Rows.Rows() - len(t.data.Live) }

// build chooses and learns the members.
func (t *tuner) build(ctx context.Context) (*learned, error) {
	t.start = time.Now()
	t.opts.Time = cmp.Or(t.opts.Time, defaultTime)
	if err := t.prepare(); err != nil {
		return nil, err
	}
	if t.job.Latest(func(st kind.Source) error { return t.resume(ctx, st) }) != nil {
		t.earlier = nil // damage of an index that is about to be replaced
	}
	err := t.job.Timer.Run("tune", func(func(int, int)) error {
		for _, name := range t.members() {
			if name == string(budget.AT) && len(t.best()) > 0 && t.left() < time.Since(t.start) {
				t.unfinished = true
				continue // the time is for learning what has been tried from all rows
			}
			if err := t.descend(ctx, t.candidate(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var l *learned
	err = t.job.Timer.Run("weights", func(func(int, int)) (err error) {
		l, err = t.choose()
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, t.job.Timer.Run("members", func(report func(int, int)) error { return t.finish(ctx, l, report) })
}

// descend tries the settings of a kind of member, in one pass.
func (t *tuner) descend(ctx context.Context, c candidate) error {
	s := descent.Search[index.Options, string]{Best: c.start, Key: settingOf}
	s.Measure = func(ctx context.Context, o index.Options) (float64, bool, error) {
		x, err := t.try(ctx, o)
		if x == nil {
			return math.Inf(-1), o != c.start, err
		}
		return -x.loss, !t.once() || x.info.Value > t.value()-farBelow, nil
	}
	return s.Descend(ctx, 1, c.vary...)
}

// left returns the time that is left for trials, after what learning the best members from all rows takes,
// and a twentieth of the time for the weights. Rows that were held out once are worth more than one member
// more, if there is time to learn from them at all.
func (t *tuner) left() time.Duration {
	left := t.opts.Time - t.opts.Time/20 - time.Since(t.start)
	for _, best := range t.best() {
		if !t.once() || best.model == nil || left > best.learning {
			left -= best.learning
		}
	}
	return left
}

// best returns the best trial of each kind of member.
func (t *tuner) best() []*trial { return bestOf(t.trials) }

// bestOf returns the best of each kind of some trials, in the order in which kinds were tried.
func bestOf(trials []*trial) (out []*trial) {
	for _, x := range trials {
		i := slices.IndexFunc(out, func(y *trial) bool { return y.info.Kind == x.info.Kind })
		switch {
		case x.scores == nil:
		case i < 0:
			out = append(out, x)
		case x.loss < out[i].loss:
			out[i] = x
		}
	}
	return out
}

// value returns the measure of the best trial, if there is one.
func (t *tuner) value() (value float64) {
	for _, x := range t.best() {
		value = max(value, x.info.Value)
	}
	return value
}

// try measures a setting, unless the time is over or the build is told to stop. What does not suit the rows
// is noted.
func (t *tuner) try(ctx context.Context, o index.Options) (*trial, error) {
	x := &trial{kind: memberKinds[o.Name()], asked: settingOf(o), options: o}
	x.info = index.AutoTrial{Kind: o.Name()}
	if need := t.memory(o); t.opts.Memory > 0 && need > t.opts.Memory {
		x.info.Error = fmt.Sprintf("needs about %d KiB of memory", (need+1023)>>10)
		t.failed = cmp.Or(t.failed, fmt.Errorf("%w: a model of kind %s %s, %d KiB are allowed",
			fail.Option, o.Name(), x.info.Error, t.opts.Memory>>10))
		t.trials = append(t.trials, x)
		return nil, nil
	}
	for _, y := range t.earlier {
		if y.info.Kind == x.info.Kind && y.asked == x.asked {
			t.trials = append(t.trials, y)
			return y, nil
		}
	}
	within, measured := ctx, len(t.best()) > 0
	if measured {
		left := t.left()
		if left <= 0 || kind.Stopped(ctx) {
			t.unfinished = true
			return nil, nil
		}
		var end context.CancelFunc
		within, end = context.WithTimeout(ctx, left)
		defer end()
		within = stopping(within, left, end)
	}
	start := time.Now()
	err := t.measure(within, x)
	x.info.Seconds, x.info.Setting = time.Since(start).Seconds(), settingOf(x.options)
	x.partly = untuned(o) && kind.Stopped(within)
	t.unfinished = t.unfinished || x.partly || within.Err() != nil
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, err
	case kind.Stopped(ctx):
		x.info.Error = "interrupted"
	case within.Err() != nil:
		x.info.Error = "no time left"
	case errors.Is(kind.AsParameter(err), fail.ErrInvalid), errors.Is(kind.AsParameter(err), fail.ErrUnsuitable):
		x.info.Error, t.failed = err.Error(), cmp.Or(t.failed, err)
	default:
		return nil, err
	}
	t.trials = append(t.trials, x)
	if len(t.best()) > 0 {
		t.job.Timer.Report(fmt.Sprintf("settings, best %.3g (%s)", t.value(), x.info.Kind), len(t.trials), 0)
	}
	if x.info.Error != "" {
		return nil, nil
	}
	return x, nil
}

// tuneShare is the share of the time that is left after which a member's own tuner stops.
const tuneShare = 0.6

// stopping returns a context that stops a member's own tuner while there is time to measure the best so far,
// and is cancelled if the whole build is told to stop.
func stopping(ctx context.Context, left time.Duration, cancel func()) context.Context {
	stop := make(chan struct{})
	go func() {
		timer := time.NewTimer(time.Duration(tuneShare * float64(left)))
		defer timer.Stop()
		select {
		case <-kind.StopOf(ctx):
			cancel()
		case <-timer.C:
		case <-ctx.Done():
		}
		close(stop)
	}()
	return kind.WithStop(ctx, stop)
}

// memory returns the memory in bytes that learning a member takes, roughly: copies of the rows, and LCIF's
// sums of pairs of a feature and a label.
func (t *tuner) memory(o index.Options) int64 {
	rows, sets := t.data.Rows, t.data.Sets
	values := int64(len(rows.Index))
	if _, ok := o.(*index.LCIF); !ok {
		return 32 * values
	}
	pairs := min(float64(rows.Cols)*float64(sets.Labels()), float64(values)*sets.Cardinality())
	return 64*values + int64(24*pairs)
}

// measure learns a member from the rows that are not held out, and has it score the others.
func (t *tuner) measure(ctx context.Context, x *trial) error {
	x.scores = nil
	scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: t.truth.Labels()}
	if !t.once() && untuned(x.options) {
		var err error
		if x.model, err = learn(ctx, x.kind, x.options, *t.job, t.data); err != nil {
			return err
		}
		x.options = x.model.options()
	}
	for _, f := range t.folds {
		data := without(t.data, f)
		start := time.Now()
		m, err := learn(ctx, x.kind, x.options, *t.job, data)
		if err != nil {
			return err
		}
		took := time.Since(start).Seconds() - m.tuned
		share := float64(len(data.Live)) / float64(len(t.data.Live))
		x.learning = max(x.learning, time.Duration(took/share*float64(time.Second)))
		found, bytes, err := m.heldOut(ctx, t.job, t.data, f, t.deep)
		if err != nil {
			return err
		}
		for _, row := range found {
			scores.Append(row)
		}
		x.info.Bytes = max(x.info.Bytes, bytes)
		if t.once() {
			x.model, x.options = m, m.options()
		}
	}
	scores.Cols = t.truth.Labels()
	x.scores = scores
	h, err := newHeld(t.truth, t.counts, len(t.data.Live), &t.opts, []*vector.CSR{scores})
	if err != nil {
		return err
	}
	best, err := h.choose([][]int{{0}}, 0)
	x.info.Value, x.loss = best.value, best.loss
	return err
}

// untuned reports whether options leave something to the tuner of their kind.
func untuned(o index.Options) bool {
	switch o := o.(type) {
	case *index.LCIF:
		return o.Params == nil || o.Cut != nil
	case *index.Trees:
		return o.Grid != nil
	}
	return false
}

// settingOf returns a setting on one line.
func settingOf(o index.Options) string {
	s, weight := "", ""
	switch o := o.(type) {
	case *index.LCIF:
		if p := o.Params; p != nil {
			s = lcif.Setting{
				Features: p.Features, K: p.K, Alpha: p.Alpha, Beta: p.Beta, Lambda: p.Lambda, SecondOrder: p.SecondOrder,
			}.Parameters()
		}
		if weight = o.Weight; o.Neighbors != "" {
			s += " neighbors=" + o.Neighbors
		}
	case *index.LabelTree:
		s, weight = fmt.Sprintf("cost=%.2g", o.Params.C), o.Weight
		if o.From != "" && o.From != "text" {
			s += " from=" + o.From
		}
	case *index.Trees:
		p := &o.Params
		s = fmt.Sprintf("budget=%d cost=%g", cmp.Or(o.Budget, p.BAC.Budget), p.BAC.C)
		if weight = o.Weight; p.MinPositive > 0 {
			s += fmt.Sprintf(" min-positive=%d", p.MinPositive)
		}
	}
	if weight != "" {
		s += " weight=" + weight
	}
	return s
}

// choose returns the members with their weights, not yet learned from all rows.
func (t *tuner) choose() (*learned, error) {
	best := t.best()
	if len(best) == 0 {
		return nil, t.failed
	}
	var scores []*vector.CSR
	for _, x := range best {
		scores = append(scores, x.scores)
	}
	h, err := newHeld(t.truth, t.counts, len(t.data.Live), &t.opts, scores)
	if err != nil {
		return nil, err
	}
	choice, err := h.choose(subsets(len(best)), enoughGain)
	if err != nil {
		return nil, err
	}
	l := &learned{
		opts: index.Auto{
			Objective: t.opts.Objective, AllowEmpty: t.opts.AllowEmpty, Time: t.opts.Time, Memory: t.opts.Memory,
			Seed: t.opts.Seed,
		},
		dead: t.dead(), deep: t.deep, rows: labels.LabelRows[uint32](t.data.Sets), unfinished: t.unfinished,
		calibration: choice.calibration, cut: float32(choice.thresholds.Single),
	}
	if l.unfinished {
		l.earlier, l.scores = t.keep()
	}
	for _, m := range choice.members() {
		x := best[m]
		x.info.Chosen, x.info.Weight = true, choice.weights[m]
		l.parts = append(l.parts, part{Kind: x.info.Kind, Curves: &h.curves[m], Weights: &choice.weights[m]})
		l.chosen = append(l.chosen, x)
	}
	for _, x := range t.trials {
		l.trials = append(l.trials, x.info)
	}
	together := index.AutoTrial{Kind: Name, Setting: "together", Value: choice.value, Chosen: true}
	l.trials = append(l.trials, together)
	return l, nil
}

// finish learns the chosen members from all rows. Where a part of many rows was held out once, that is done
// if there is time.
func (t *tuner) finish(ctx context.Context, l *learned, report func(int, int)) error {
	for i, x := range l.chosen {
		report(i, len(l.chosen))
		m := x.model
		if m == nil || t.once() && time.Since(t.start)+x.learning < t.opts.Time {
			var err error
			if m, err = learn(ctx, x.kind, x.options, *t.job, t.data); err != nil {
				return err
			}
		}
		l.add(m)
	}
	return nil
}

// add adds a member that has been learned.
func (l *learned) add(m *learnedModel) {
	l.models, l.uses = append(l.models, m), cmp.Or(l.uses, m.manifest.Uses)
	setMember(&l.opts, m.options())
}

// setMember sets the options of a member.
func setMember(to *index.Auto, o index.Options) {
	switch o := o.(type) {
	case *index.LCIF:
		to.LCIF = o
	case *index.LabelTree:
		to.LabelTree = o
	case *index.Trees:
		to.Trees = o
	}
}

// again learns the members of the model that is rebuilt, whose settings, weights and calibration stay.
func (t *tuner) again(ctx context.Context) (*learned, error) {
	before := t.job.Before
	d := before.Segments[0].Own.(*detail)
	l := &learned{
		opts: *optionsOf(before), dead: t.dead(), deep: d.Deep,
		calibration: t.renamed(before.Info.Calibration), cut: d.Cut, rows: labels.LabelRows[uint32](t.data.Sets),
	}
	return l, t.job.Timer.Run("members", func(report func(int, int)) error {
		for i := range d.Parts {
			p, own := d.Parts[i], *t.job
			own.Before = member(before, p.Kind)
			m, err := learn(ctx, own.Before.Of, own.Before.Options, own, t.data)
			if err != nil {
				return err
			}
			l.add(m)
			l.parts = append(l.parts, part{Kind: p.Kind, Curves: p.Curves, Weights: p.Weights})
			report(i+1, len(d.Parts))
		}
		return nil
	})
}

// renamed returns the calibration of the model that is rebuilt for the labels as they are numbered now.
func (t *tuner) renamed(c *labels.Calibration) *labels.Calibration {
	if c == nil || c.LabelCuts == nil {
		return c
	}
	own := *c
	own.LabelCuts = labels.ByName(c.LabelCuts, t.job.Labels, t.data.Names, c.Cut)
	return &own
}
