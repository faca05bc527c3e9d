package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// KindLCIF as BuildOptions.Kind learns to predict the labels of a collection's
// rows from nearest rows and from features (Feremans et al. 2020, LCIF). Of a
// sparse collection it keeps an inverted index of its own, whose rows may be
// weighed and thinned, so it does not answer SearchSparse. In a dense one it
// finds neighbours by a forest of the collection, or by scanning; their
// similarity is the cosine, and features are the coordinates: feature scores, not
// similarities, take a coordinate below zero as zero, in rows and queries alike.
const KindLCIF forest.Kind = "lcif"

// LabelWeight is the best that the tuner of a label model found with a weighting.
type LabelWeight struct {
	Weight Weighting
	Best   query.LCIFPoint
}

// LCIFOptions are the options of KindLCIF.
type LCIFOptions struct {
	// Weight selects how values are weighed; a build puts in what it chose. Scaled
	// columns are tried unasked only where rows are scanned for neighbors anyway.
	Weight Weighting
	// Params, when given, are used as they are, so that without Thresholds and Cut
	// each row gets its best label only; otherwise the tuner chooses them by
	// cross-validation on the rows themselves. IndexInfo has those in use.
	Params *query.LCIFParams
	// Cut, beside Params without Thresholds, makes the thresholds of the scores that
	// a cross-validation with Params gives the rows: so a setting that was tuned on
	// one collection (LCIFPoint.Cut) serves another.
	Cut *query.LCIFCut `json:",omitempty"`
	// AllowEmpty lets the tuner choose thresholds that leave rows without labels.
	// Otherwise each row has at least its best label.
	AllowEmpty bool `json:",omitempty"`
	// Search selects how settings are searched; query.PaperProtocol does what the
	// paper does, with values as they are unless Weight is given.
	Search query.LCIFSearch `json:",omitempty"`
	// Objective is the measure the tuner chooses by, micro F1 when empty.
	Objective query.LCIFObjective
	// Folds is the number of folds, 10 when zero and at most 1,000; fewer rows than
	// that lower it. TuneRows is how many rows are tried at most over all folds,
	// 10,000 when zero, as in the paper.
	Folds, TuneRows int
	// FeatureShares are the shares of the features, those of highest entropy,
	// among which the tuner chooses; all features when empty. Sparse collections
	// only.
	FeatureShares []float64
	// Neighbors names what finds neighbours in a dense collection: a tuned
	// forest, asked for recall 0.95, or Flat. Empty means the first tuned forest
	// by name, or Flat when there is none; a build puts in what it found. A model
	// cannot replace the forest that finds its neighbours. If the forest is dropped
	// or replaced by another kind of index later, rows are scanned.
	Neighbors string `json:",omitempty"`
	// SecondOrders are the weights of second-order scores, 0 to 1, among which the
	// tuner chooses; 0, none, when empty.
	SecondOrders []float64 `json:",omitempty"`
	// Graph is how many nearest other rows of each row second-order scores use,
	// MaxGraph at most; 10 when zero, if Params or SecondOrders ask for such scores.
	// A model that uses them stores the list of these rows; a build puts in 0 for
	// others. Rows written or deleted since count in second-order scores after
	// maintenance, which makes the list of all rows anew: a search for each row.
	Graph int `json:",omitempty"`

	labels []string // those that Params.Thresholds.PerLabel are of, if the model is learned anew
	// relearn says that the options are those of a stored model, which maintenance,
	// Compact or Repair rebuilds.
	relearn bool
}

// MaxGraph is the most nearest rows of a row that second-order scores can use.
const MaxGraph = 1000

// resolveGraph fills in the number of nearest rows that second-order scores use.
func (o *LCIFOptions) resolveGraph() error {
	wanted := o.Params != nil && o.Params.SecondOrder > 0
	for _, w := range o.SecondOrders {
		if !(w >= 0 && w <= 1) {
			return fmt.Errorf("%w: weight %g of second-order scores, want 0 to 1", ErrOption, w)
		}
		wanted = wanted || o.Params == nil && w > 0
	}
	switch {
	case o.Graph < 0 || o.Graph > MaxGraph:
		return fmt.Errorf("%w: second-order scores by %d nearest rows, want 1 to %d, or 0 for 10", ErrOption, o.Graph, MaxGraph)
	case !wanted && o.Graph > 0 && !o.relearn:
		return fmt.Errorf("%w: %d nearest rows for second-order scores, which have no weight in Params or SecondOrders",
			ErrOption, o.Graph)
	case !wanted:
		o.Graph = 0
	case o.Graph == 0:
		o.Graph = 10
	}
	return nil
}

func (o LCIFOptions) resolve(live int) (LCIFOptions, error) {
	if o.Folds == 0 {
		o.Folds = 10
	}
	o.Folds = min(o.Folds, live)
	if o.TuneRows == 0 {
		o.TuneRows = 10_000
	}
	switch {
	case o.Weight.check() != nil:
		return o, o.Weight.check()
	case o.Folds < 0 || o.TuneRows < 0:
		return o, fmt.Errorf("%w: a negative count", ErrOption)
	case o.Folds < 2 && (o.Params == nil || o.Cut != nil && !o.relearn):
		return o, fmt.Errorf("%w: %d rows are too few to tune on, give Params without Cut", ErrOption, live)
	case o.Search > query.PaperProtocol:
		return o, fmt.Errorf("%w: search %d", ErrOption, o.Search)
	}
	if o.relearn {
		o.Cut = nil // the stored thresholds stay
	}
	if o.Cut != nil && (o.Params == nil || o.Params.Thresholds != nil) {
		return o, fmt.Errorf("%w: Cut makes the thresholds of Params: give Params without Thresholds", ErrOption)
	}
	if o.Weight == "" && (o.Params != nil || o.Search == query.PaperProtocol) {
		o.Weight = WeightNone
	}
	return o, o.resolveGraph()
}

// lcifLearned is a label model on its way to the file.
type lcifLearned struct {
	sparseLearned // without an index in a dense collection
	dim           int
	metric        vector.Metric
	names         []string
	sets          *labels.Matrix // by row number; deleted rows have no labels
	counts        *labels.FeatureLabels
	power         *labels.Powers  // S to the power of params.Beta
	dead          *roaring.Bitmap // rows that were deleted
	keep          []uint64
	idf           []float32
	scale         *query.Scaling
	graph         *vector.CSR // nearest other rows; nil without second-order scores
	params        query.LCIFParams
	curve         *query.LCIFCurve
	weights       []LabelWeight
}

// lcifManifest is the detail of a label model. Its parameters are in the options.
type lcifManifest struct {
	plainDetail
	Features, Labels int
	// Neighbors is the index of a dense collection that finds neighbours.
	Neighbors string `json:",omitempty"`
	// Scale standardizes the columns of a dense collection, if set.
	Scale *query.Scaling `json:",omitempty"`
	// Graph is how many nearest other rows of each row are stored at most.
	Graph int `json:",omitempty"`
	// Base is the object that has the pairs, where that is another one.
	Base uint64 `json:",omitempty"`
	// Learned is how many rows the model was learned from when maintenance began,
	// zero for as many as it covers; LearnedDead of them were deleted.
	Learned     int `json:",omitempty"`
	LearnedDead int `json:",omitempty"`
	// Segments are the parts of the inverted index, if the rows are sparse, and of
	// the label sets.
	Segments []segmentManifest
}

// lcif is the detail of a label model's manifest.
func (m *manifest) lcif() *lcifManifest { return m.own.(*lcifManifest) }

// params are the parameters of a label model.
func (m *manifest) params() *query.LCIFParams { return m.Info.Options.LCIF.Params }

// fits reports whether there is an inverted index where rows are sparse, and none
// where they are dense.
func (l *lcifManifest) fits(sparse bool) bool { return (l.Segments[0].Index != nil) == sparse }
func (l *lcifManifest) segments() int         { return len(l.Segments) }
func (l *lcifManifest) features() int         { return l.Features }
func (l *lcifManifest) uses() string          { return l.Neighbors }

func (l *lcifManifest) objects() []uint64 {
	out := segmentObjects(l.Segments)
	if l.Base != 0 {
		out = append(out, l.Base)
	}
	return out
}

// check refuses what no build can have written.
func (l *lcifManifest) check(m *manifest) error {
	sparse := len(l.Segments) > 0 && l.Segments[0].Index != nil
	switch {
	case m.params() == nil || l.Labels < 1 || int64(l.Labels) > math.MaxUint32 || l.Learned < 0 || l.LearnedDead < 0:
		return errors.New("label model")
	case l.Graph < 0 || l.Graph > MaxGraph:
		return errors.New("nearest rows of rows")
	case l.Features < 0 || l.Features > MaxFeature+1 || !sparse && (l.Features != m.Dim || m.Dim < 1 || m.Dim > MaxDim):
		return errors.New("features")
	case !validSegments(l.Segments, m.Info.Rows, sparse) || segmentFeatures(l.Segments) > l.Features:
		return errors.New("segments")
	}
	return nil
}

// lcifKind are label models, over sparse and dense collections.
type lcifKind struct{}

func (lcifKind) suits(bool) bool { return true }
func (lcifKind) predicts() bool  { return true }
func (lcifKind) detail() detail  { return &lcifManifest{} }

// again keeps the parameters. Thresholds are of labels by number, which may change,
// so they go with names; without names, which a damaged model does not tell, they
// stay with the numbers.
func (lcifKind) again(ctx context.Context, st source, m *manifest, o *BuildOptions) {
	o.LCIF.relearn = true
	if t := m.params().Thresholds; t != nil && t.PerLabel != nil && st != nil {
		o.LCIF.labels, _ = labelNames(ctx, st, m)
	}
}

// build learns a label model.
func (lcifKind) build(ctx context.Context, job *buildJob) (built, error) {
	var data *labelled
	l, o := &lcifLearned{}, job.opts
	err := job.latest(func(st source) (err error) {
		c := st.entry()
		l.dim, l.metric = c.Dim, c.Metric
		if o.LCIF, err = o.LCIF.resolve(int(c.Live)); err != nil {
			return err
		}
		if err := resolveNeighbors(st, job.name, &o.LCIF); err != nil {
			return err
		}
		err = job.timer.run("read", func(report func(int, int)) error {
			data, l.names, err = readLabelled(ctx, st, nil, report)
			return err
		})
		if err != nil || c.Sparse {
			return err
		}
		// Neighbours are searched for in the map, so the snapshot must last.
		return l.learnDense(ctx, st, data, o, job.timer)
	})
	if err == nil && l.sets == nil {
		err = l.learnSparse(ctx, job.coll, data, o, job.timer)
	}
	return l, err
}

// learnSparse learns the model of a sparse collection.
func (l *lcifLearned) learnSparse(ctx context.Context, coll string, data *labelled, o BuildOptions, timer *stageTimer) error {
	l.n, l.live, l.opts, l.dead = data.rows.Rows(), len(data.live), o, data.dead()
	if err := checkSpread(coll, data.rows.Cols, len(data.rows.Index)); err != nil {
		return err
	}
	var candidates []weighted
	for _, w := range o.LCIF.candidates(WeightTFIDF) {
		own := *data
		if w != WeightNone {
			own.rows = &vector.CSR{
				Ptr: data.rows.Ptr, Index: data.rows.Index, Value: slices.Clone(data.rows.Value), Cols: data.rows.Cols,
			}
		}
		candidates = append(candidates, weighted{weight: w, idf: own.weigh(w), data: &own})
	}
	best, err := l.choose(ctx, candidates, o, timer)
	if err != nil {
		return err
	}
	data, l.idf = best.data, best.idf
	return timer.run("model", func(report func(int, int)) error { return l.learn(ctx, data, o.Workers, report) })
}

// learn makes the model of all rows with the chosen parameters.
func (l *lcifLearned) learn(ctx context.Context, data *labelled, workers int, report func(done, total int)) error {
	view, counts, err := query.BuildLCIF(ctx, data.rows, data.sets, l.params.Features, workers)
	if err != nil {
		return wrapf(err, "label model")
	}
	beta := l.params.Beta
	if beta == 0 {
		beta = 1
	}
	if err := view.AddPower(counts, beta); err != nil {
		return wrapf(err, "label model")
	}
	source, ok := view.Neighbors.(*query.PostingsNeighbors)
	if !ok {
		return fmt.Errorf("db: label model: neighbours by %T", view.Neighbors)
	}
	if p := l.opts.Postings; p.Partition {
		if err := source.Index.AddPartition(ctx, p.params().M); err != nil {
			return wrapf(err, "label model")
		}
	}
	l.lengths = postings.Lengths(data.rows, view.Keep)
	l.index, l.sets, l.counts, l.power, l.keep = source.Index, data.sets, counts, &view.Powers[0], view.Keep
	return l.learnGraph(ctx, view, data.rows, report)
}

// learnGraph lists the nearest rows of each row, if second-order scores use them.
func (l *lcifLearned) learnGraph(ctx context.Context, view *query.LCIFView, rows *vector.CSR, report func(done, total int)) error {
	if l.params.Lambda == 0 || l.params.SecondOrder == 0 {
		l.opts.LCIF.Graph = 0
		return nil
	}
	if err := view.AddGraph(ctx, rows, l.opts.LCIF.Graph, l.opts.Workers, report); err != nil {
		return wrapf(err, "nearest rows of rows")
	}
	l.graph = view.Graph
	return nil
}

func (l *lcifLearned) describe(i *IndexInfo) {
	l.sparseLearned.describe(i)
	i.LabelCurve, i.LabelWeights, i.Options.LCIF.Params = l.curve, l.weights, &l.params
}

// The numbers of a label model's arrays in the sections label-matrix and
// feature-labels (codec/FORMAT.md). They are part of the format.
const (
	arrayLabelPtr uint32 = iota
	arrayLabelIndex
	arrayLabelNames
	arrayLabelDead
)

const (
	arraySumPtr uint32 = iota
	arraySumLabel
	arraySum
	arraySquare
	arrayLabelRows
	arrayPower
	arrayKeep
	arrayIDF
	arrayPatchPtr
	arrayPatchLabel
	arrayPatchSum
	arrayPatchPower
	arrayFeatureFactor
	arrayLabelFactor
	arrayGraphPtr
	arrayGraphRow
	arrayGraphSimilarity
	similarityArrays // how many there are
)

// emit writes a label model of one segment.
func (l *lcifLearned) emit(object uint64, sink blockSink) (*manifest, error) {
	w := newArrayWriter(object, sink)
	m := &manifest{Info: IndexInfo{Bytes: w.sizes}, Object: object, Metric: l.metric, Dim: l.dim}
	d := &lcifManifest{
		Features: l.dim, Labels: len(l.names), Neighbors: l.opts.LCIF.Neighbors, Scale: l.scale, Graph: l.opts.LCIF.Graph,
	}
	one := segmentManifest{Object: object, Rows: l.n, Dead: l.n - l.live, Bytes: w.sizes}
	if l.index != nil {
		one = l.put(w, one)
		m.Dim, d.Features = l.index.Features(), l.index.Features()
	}
	m.own, d.Segments = d, []segmentManifest{one}
	sets := l.sets.CSR()
	labelSetArrays(w.arrays(codec.KindLabelMatrix), &sets)
	h := &lcifHead{
		names: l.names, dead: l.dead, square: l.counts.Square, rows: l.counts.Rows, powers: l.power, keep: l.keep, idf: l.idf,
		graph: l.graph,
	}
	h.put(w)
	basePairs.put(w, l.counts, l.power)
	return m, w.err
}

// labelSetArrays are the arrays of the label sets of rows.
func labelSetArrays(a *arrays, sets *vector.CSR) {
	array(a, arrayLabelPtr, &sets.Ptr)
	array(a, arrayLabelIndex, &sets.Index)
}

// lcifHead is what a label model has once, however many its segments are and
// wherever its pairs.
type lcifHead struct {
	names  []string
	dead   *roaring.Bitmap
	square []labels.Uint128
	rows   []uint32
	powers *labels.Powers
	keep   []uint64
	idf    []float32
	graph  *vector.CSR // nil without second-order scores
}

// put writes it.
func (h *lcifHead) put(w *arrayWriter) {
	a := w.arrays(codec.KindLabelMatrix)
	a.writeNames(arrayLabelNames, h.names)
	a.writeSet(arrayLabelDead, h.dead)
	once := lcifArrays{rows: h.rows, keep: h.keep, idf: h.idf, feature: h.powers.Feature, label: h.powers.Label, graph: h.graph}
	for _, s := range h.square {
		once.square = append(once.square, s.Hi, s.Lo)
	}
	once.onceArrays(w.arrays(codec.KindSimilarity))
}

// onceArrays are the arrays that a label model has once, but for its pairs.
func (x *lcifArrays) onceArrays(a *arrays) {
	array(a, arraySquare, &x.square)
	array(a, arrayLabelRows, &x.rows)
	array(a, arrayKeep, &x.keep)
	array(a, arrayIDF, &x.idf)
	array(a, arrayFeatureFactor, &x.feature)
	array(a, arrayLabelFactor, &x.label)
	if g := x.graph; g != nil {
		array(a, arrayGraphPtr, &g.Ptr)
		array(a, arrayGraphRow, &g.Index)
		array(a, arrayGraphSimilarity, &g.Value)
	}
}

// pairNumbers are the numbers of the arrays of pairs of features and labels.
type pairNumbers struct{ ptr, label, sum, power uint32 }

var (
	basePairs  = pairNumbers{arraySumPtr, arraySumLabel, arraySum, arrayPower}
	patchPairs = pairNumbers{arrayPatchPtr, arrayPatchLabel, arrayPatchSum, arrayPatchPower}
)

// arrays are the arrays of pairs: their powers, and the sums behind these.
func (n pairNumbers) arrays(a *arrays, powers *vector.CSR, sums *[]int64) {
	array(a, n.ptr, &powers.Ptr)
	array(a, n.label, &powers.Index)
	array(a, n.power, &powers.Value)
	array(a, n.sum, sums)
}

// put writes pairs with their sums and powers.
func (n pairNumbers) put(w *arrayWriter, counts *labels.FeatureLabels, powers *labels.Powers) {
	sums := counts.Sum
	n.arrays(w.arrays(codec.KindSimilarity), &vector.CSR{Ptr: counts.Ptr, Index: counts.Label, Value: powers.S.Value}, &sums)
}
