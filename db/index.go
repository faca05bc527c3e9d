package db

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// KindAuto as BuildOptions.Kind lets the tuner choose the learner and the
// depth by what reaches TargetRecall fastest on held-out rows.
const KindAuto forest.Kind = "auto"

// BuildOptions says how DB.Build learns an index. The zero value is a good
// general index: k-d trees over PCA-rotated coordinates with sketches and
// label hops, tuned on held-out rows.
type BuildOptions struct {
	// Kind is the forest learner, forest.KD when empty, or KindAuto; for a
	// sparse collection KindPostings, which is then the default. KindLCIF,
	// KindSBT, KindPT and KindAT take both.
	Kind forest.Kind
	// TargetRecall is the recall at which KindAuto compares forests, 0.95 when
	// zero.
	TargetRecall float64
	// Trees is the number of trees. Zero means 2 where there are label tables,
	// sketches and label lists, 16 otherwise.
	Trees int
	// Depth is the number of levels of a tree; zero picks the depth at which a
	// leaf holds three and a half to seven rows, where the natural classifier
	// works best, or one less where Trees is 2 by default. A depth
	// that would make more than two leaves a row is lowered.
	Depth int
	// LabelsK is how many nearest rows (the row itself first) are a training
	// point's labels, at most 4,096; fewer rows than that lower it. Zero means 8
	// where Trees is 2 by default, 50 otherwise.
	LabelsK int
	// Labels says how the nearest rows are found: LabelsExact,
	// LabelsApproximate, or empty for exact ones where that is a matter of
	// seconds and approximate ones elsewhere. The labels of TrainingQueries
	// are always exact.
	Labels LabelSource `json:",omitempty"`
	// Rotate is the number of principal coordinates the axis-aligned learners
	// (kd, kd-chrono, rf) split on, at most the dimension. Zero means the learner's
	// default: 64, or the dimension where that is less, for kd and auto, none
	// otherwise. A negative number means none.
	Rotate int
	// SketchBytes is the width of a row's sketch: 64, 128, zero for 64, or
	// negative for none.
	SketchBytes int
	// HopLabels is how many neighbours a row keeps for beams and hops along
	// label lists, at most 1,024; fewer rows than that lower it. Zero means 24,
	// negative means none.
	HopLabels int
	// Quantize stores an 8-bit copy of float32 rows as a filter before the
	// exact distances. Rows stored as whole numbers 0..255 need none.
	Quantize bool
	// Members also stores which rows lie in each leaf, for voting and lookup.
	Members bool
	// NoNatural leaves the label-proportion tables out (voting and lookup only).
	NoNatural bool
	// Density, Candidates, Subsample and MinVotes are passed to the learner;
	// zero means the learner's default (see forest.Params). Candidates is at most
	// the dimension.
	Density    float64
	Candidates int
	Subsample  int
	MinVotes   int
	// Seed makes the build reproducible: equal rows, options and seed give an
	// equal index at any number of workers.
	Seed uint64
	// Workers is the number of goroutines, all processors when zero. It is not
	// stored: an index that is built again asks the machine that it is on.
	Workers int `json:"-"`
	// NoTune skips the tuner: queries must then name their parameters. Fewer
	// than 10 rows are too few for the tuner: searches of such an index are exact
	// scans, and DB.Maintain builds it again, with the tuner and by the options as
	// they were given, once there are 10.
	NoTune bool
	// TuneK is the k of the tuner's queries, 10 when zero. Where fewer rows are
	// left than that, it is their number (see Curve.K), and where it is more than
	// half of the rows, searches are exact scans.
	TuneK int
	// Holdout is how many rows the tuner holds out as queries, 1000 when zero
	// and at most 100,000. A tenth of the rows lowers it. Rows that are equal are held out
	// together and asked once, so that there are fewer queries where many are.
	Holdout int
	// TrainingQueries, when given, are learned from instead of the rows
	// themselves (the paper's separate training query set, section 3), and a
	// part of them is held out for the tuner. At least 10.
	TrainingQueries [][]float32 `json:"-"`
	// Postings are the options of KindPostings, which uses no other, and of the
	// inverted index of a KindLCIF over a sparse collection.
	Postings PostingsOptions `json:",omitzero"`
	// LCIF are the options of KindLCIF, which uses Seed and Workers besides.
	LCIF LCIFOptions `json:",omitzero"`
	// Budget are the options of KindSBT, KindPT and KindAT, which use Seed and
	// Workers besides.
	Budget BudgetOptions `json:",omitzero"`
}

// LabelSource says how a build finds the nearest rows of every row.
type LabelSource string

// The label sources.
const (
	// LabelsExact compares every row with every other one.
	LabelsExact LabelSource = "exact"
	// LabelsApproximate refines lists of neighbours and measures their recall
	// (labels.ApproximateNeighbors).
	LabelsApproximate LabelSource = "approximate"
)

// exactWork is the rows² · dim up to which labels are exact by default: some
// seconds on two cores.
const exactWork = 1e11

// LabelReport is what was measured of approximate labels.
type LabelReport struct {
	// K is how many rows a list holds, the row itself among them.
	K int
	// Sample is on how many rows the recall was measured.
	Sample int
	// Recall is the mean share of the K-1 nearest rows that a list holds,
	// HeadRecall that of the nearest 10.
	Recall, HeadRecall float64
	// Rounds is the number of rounds of refinement on exact distances.
	Rounds int
}

// Progress is what a long call reports: a stage's name and how far it is.
// Total is 0 where the end is not known.
type Progress struct {
	Stage string
	Done  int
	Total int
}

// IndexInfo describes a published index.
type IndexInfo struct {
	// Name is the index's name in its collection.
	Name string
	// Options are the resolved build options.
	Options BuildOptions
	// Rows is the number of row numbers the index covers; later rows are
	// scanned by every query until maintenance or the next build.
	Rows int
	// Created is when the index was built, Maintained when maintenance last
	// changed it, zero if it never did.
	Created    time.Time
	Maintained time.Time `json:",omitzero"`
	// BuildSeconds is the wall time of the build by stage.
	BuildSeconds map[string]float64
	// BuildMemory is the most memory in bytes that the process held at the end
	// of a stage, whatever else it did included; maps of files are not.
	BuildMemory int64 `json:",omitempty"`
	// Bytes is the stored size by section.
	Bytes map[string]int64
	// Curve is what the tuner measured on held-out rows, cheapest first; nil
	// without tuning.
	Curve *query.Curve
	// LabelCurve is what the tuner of a label model measured by
	// cross-validation; nil for other indexes and without tuning.
	LabelCurve *query.LCIFCurve `json:",omitempty"`
	// LabelWeights are the weightings that the tuner tried, with the best that it
	// found with each.
	LabelWeights []LabelWeight `json:",omitempty"`
	// Tree describes budgeted trees; nil for other indexes.
	Tree *budget.Stats `json:",omitempty"`
	// TreeTrials is what the cross-validation of budgeted trees measured, in the
	// order of the grid; nil for other indexes and without one.
	TreeTrials []budget.Trial `json:",omitempty"`
	// TrainingPoints is how many points the forest was learned from.
	TrainingPoints int
	// Labels is how good approximate labels are; nil where all are exact.
	Labels *LabelReport `json:",omitempty"`
}

// TotalBytes is the stored size of the index.
func (i IndexInfo) TotalBytes() int64 {
	var n int64
	for _, b := range i.Bytes {
		n += b
	}
	return n
}

// manifest is the stored description of an index: what the flat arrays in
// the blocks of object Object mean. It is kept as JSON inside a checksummed
// block, because it is cold, small and wants to be read by people.
type manifest struct {
	Info   IndexInfo
	Object uint64
	Metric vector.Metric
	Dim    int     // dimension of the collection
	Lift   float32 // inner product: the bound M of the lift sqrt(M²-|x|²)

	LCIF   *lcifManifest   `json:",omitempty"` // a label model, with its inverted index if the rows are sparse
	Sparse *sparseManifest `json:",omitempty"` // an inverted index; the rest is of forests
	// Segments are the inverted index in several parts, by rows; nil for one
	// part, of all rows, in this object.
	Segments []segmentManifest `json:",omitempty"`
	Budget   *budgetManifest   `json:",omitempty"` // budgeted trees
	// Runs says which blocks make up the sections of a forest that maintenance
	// has changed; a kind that is missing stands in this object.
	Runs map[codec.Kind][]blockRun `json:",omitempty"`
	// Grown is how many rows the forest covered when its trees were grown, 0 for
	// as many as it does now.
	Grown int `json:",omitempty"`
	// GrownDead is how many of these had been deleted.
	GrownDead int `json:",omitempty"`
	// Requested are the options as they were given, where there were too few rows
	// for the tuner: what the index is built again with once there are enough.
	Requested *BuildOptions `json:",omitempty"`
	Forest    forestManifest
	Rotation  int // rotated coordinates stored, 0 for none

	SketchWidth int
	SketchShift uint
	SketchStep  float32
	SketchSteps []float32 `json:",omitempty"` // packed sketches

	NeighborK     int
	NeighborShift uint

	Lists     bool `json:",omitempty"` // there are label lists
	ListShift uint `json:",omitempty"`

	QuantShift  uint
	QuantOffset float32
	QuantStep   float32
	Quantized   bool
}

// forestManifest holds the scalar fields of a forest.Forest.
type forestManifest struct {
	Params  forest.Params
	Dim     int
	CorpusN int
	Coord   string
	DirW    int
	Points  int // that the trees were grown from
}

func encodeManifest(m *manifest) ([]byte, error) {
	if m.LCIF != nil {
		// Stored once, in LCIF; decodeManifest fills them in.
		stored := *m
		stored.Info.Options.LCIF.Params = nil
		m = &stored
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, wrapf(err, "index %q: encode manifest", m.Info.Name)
	}
	if err := checkShape(b); err != nil || len(b) > maxManifest {
		return nil, fmt.Errorf("%w: index %q: a description of %d bytes, want at most %d: a label model may have too many labels",
			ErrFull, m.Info.Name, len(b), maxManifest)
	}
	return b, nil
}

// putManifest writes the manifest of an index, and a copy of it among the blocks,
// far away in the file, from which a damaged index can be built anew.
func putManifest(tx *bbolt.Tx, object uint64, data []byte) error {
	key := codec.Key(object, codec.KindManifest, 0)
	value := codec.Encode(key[:], codec.Header{Kind: codec.KindManifest}, data)
	for _, bucket := range [][]byte{bucketMeta, bucketBlocks} {
		if err := tx.Bucket(bucket).Put(key[:], value); err != nil {
			return fmt.Errorf("db: put manifest: %w", err)
		}
	}
	return nil
}

// retireManifest deletes the one of an object that is no index's own any more.
// The other goes with the object: where it stands, blocks beside it would be
// written again.
func retireManifest(tx *bbolt.Tx, object uint64) error {
	key := codec.Key(object, codec.KindManifest, 0)
	if err := tx.Bucket(bucketMeta).Delete(key[:]); err != nil {
		return fmt.Errorf("db: delete manifest: %w", err)
	}
	return nil
}

// decodeManifest reads a manifest and refuses shapes no build can have
// written, so that later arithmetic on them cannot overflow.
func decodeManifest(b []byte) (*manifest, error) {
	var m manifest
	err := checkShape(b)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: index manifest: %w", ErrCorrupt, err)
	}
	bad := func(what string) error {
		return fmt.Errorf("%w: index manifest of %q: %s", ErrCorrupt, m.Info.Name, what)
	}
	if !m.validRuns() {
		return nil, bad("runs of blocks")
	}
	p := m.Forest.Params
	switch {
	case m.Sparse != nil:
		if m.Info.Rows < 0 || int64(m.Info.Rows) > math.MaxUint32 || !m.Sparse.valid() {
			return nil, bad("inverted index")
		}
		if m.Segments != nil && !validSegments(m.Segments, m.Info.Rows) {
			return nil, bad("segments")
		}
		if l := m.LCIF; l != nil {
			// The segments of a model have the features that there were then.
			wide := m.Segments == nil && l.Features != m.Sparse.Cols
			for _, g := range m.segments() {
				wide = wide || g.Sparse.Cols > l.Features
			}
			if wide || !l.valid() || l.Features > MaxFeature+1 {
				return nil, bad("label model")
			}
		}
	case m.LCIF != nil:
		l := m.LCIF
		if m.Info.Rows < 0 || int64(m.Info.Rows) > math.MaxUint32 || m.Dim < 1 || m.Dim > MaxDim || l.Features != m.Dim || !l.valid() {
			return nil, bad("label model")
		}
		if m.Segments != nil && !validSegments(m.Segments, m.Info.Rows) {
			return nil, bad("segments")
		}
	case m.Budget != nil:
		if m.Info.Rows < 0 || int64(m.Info.Rows) > math.MaxUint32 || !m.Budget.valid() || m.Info.Options.Budget.check(m.Info.Options.Kind) != nil {
			return nil, bad("budgeted trees")
		}
	case m.Info.Rows < 0 || int64(m.Info.Rows) > math.MaxUint32:
		return nil, bad("row count")
	case m.Dim < 1 || m.Dim > MaxDim:
		return nil, bad("dimension")
	case p.Trees < 1 || p.Trees > maxTrees || p.Depth < 0 || p.Depth > maxDepth:
		return nil, bad("forest shape")
	case m.Info.Options.Trees != p.Trees || m.Info.Options.Depth != p.Depth:
		return nil, bad("options of another forest") // they set the work of the next build
	case m.Forest.Dim < 1 || m.Forest.Dim > MaxDim+1:
		return nil, bad("forest dimension")
	case m.Forest.DirW < 0 || m.Forest.DirW > MaxDim+1:
		return nil, bad("direction width")
	case m.Rotation < 0 || m.Rotation > MaxDim+1:
		return nil, bad("rotation")
	case m.SketchWidth < 0 || m.SketchWidth > 4096 || m.SketchShift > 24:
		return nil, bad("sketch shape")
	case slices.ContainsFunc(m.SketchSteps, func(x float32) bool { return !(x > 0) || math.IsInf(float64(x), 1) }):
		return nil, bad("sketch steps")
	case m.NeighborK < 0 || m.NeighborK > 1<<16 || m.NeighborShift > 24:
		return nil, bad("neighbour shape")
	case m.QuantShift > 24:
		return nil, bad("8-bit copy")
	case m.ListShift > 24:
		return nil, bad("label lists")
	case m.Grown < 0 || m.Grown > m.Info.Rows || m.GrownDead < 0 || m.GrownDead > m.Info.Rows:
		return nil, bad("rows grown from")
	}
	if m.LCIF != nil {
		m.Info.Options.LCIF.Params = &m.LCIF.Params
	}
	return &m, nil
}

const (
	maxTrees = 4096
	maxDepth = 24
)

// resolve fills the defaults for n rows of dim coordinates.
func (o BuildOptions) resolve(n, dim int) BuildOptions {
	if o.Kind == "" {
		o.Kind = forest.KD
	}
	if o.TargetRecall == 0 {
		o.TargetRecall = 0.95
	}
	// Where a beam can follow label lists, trees only say where it starts.
	trees, labelsK, leaf := 16, 50, 7
	if o.SketchBytes >= 0 && o.HopLabels >= 0 && !o.NoNatural {
		trees, labelsK, leaf = 2, 8, 14
	}
	if o.Trees == 0 {
		o.Trees = trees
	}
	if o.Depth == 0 {
		o.Depth = max(1, bits.Len(uint(n/leaf)))
	}
	if o.Depth <= maxDepth { // others are refused
		o.Depth = min(o.Depth, bits.Len(uint(n))) // 2^Depth <= 2n
	}
	if o.LabelsK == 0 {
		o.LabelsK = labelsK
	}
	o.LabelsK = min(o.LabelsK, n)
	if o.Labels == "" {
		o.Labels = LabelsExact
		if float64(n)*float64(n)*float64(dim) > exactWork {
			o.Labels = LabelsApproximate
		}
	}
	if o.Rotate == 0 && (o.Kind == forest.KD || o.Kind == KindAuto) {
		o.Rotate = 64
	}
	if o.Rotate > 0 {
		o.Rotate = min(o.Rotate, dim)
	}
	if o.SketchBytes == 0 {
		o.SketchBytes = 64
	}
	if o.HopLabels == 0 {
		o.HopLabels = 24
	}
	if o.HopLabels > 0 {
		o.HopLabels = min(o.HopLabels, max(1, n-1))
	}
	if o.TuneK == 0 {
		o.TuneK = 10
	}
	if o.Holdout == 0 {
		o.Holdout = 1000
	}
	points := n
	if len(o.TrainingQueries) > 0 {
		points = len(o.TrainingQueries)
	}
	o.Holdout = min(o.Holdout, points/heldOutOf)
	return o
}

// heldOutOf is of how many points at most one is held out, and so how many rows
// the tuner needs at least.
const heldOutOf = 10

// tunes reports whether the tuner is to run, by resolved options: whether it was
// not forbidden and there are enough points to hold any out.
func (o BuildOptions) tunes() bool { return !o.NoTune && o.Holdout > 0 }

// validate refuses options that no build can honour.
func (o BuildOptions) validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrOption, fmt.Sprintf(format, a...))
	}
	switch o.Kind {
	case forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF, KindAuto:
	default:
		return bad("unknown forest kind %q (want rp, kd, kd-chrono, pca, rf or auto)", o.Kind)
	}
	switch {
	case o.Kind == KindAuto && (o.NoTune || o.NoNatural):
		return bad("kind auto needs the tuner and label tables")
	case !(o.TargetRecall > 0 && o.TargetRecall <= 1):
		return bad("target recall %g, want above 0 and at most 1", o.TargetRecall)
	case o.Holdout < 0 || o.TuneK < 1 || o.Workers < 0 || o.Candidates < 0 || o.Subsample < 0 || o.MinVotes < 0 || !(o.Density >= 0 && o.Density <= 1):
		return bad("a negative count, or a density outside 0 to 1")
	case len(o.TrainingQueries) > 0 && len(o.TrainingQueries) < 10:
		return bad("%d training queries, want at least 10", len(o.TrainingQueries))
	case o.Trees < 1 || o.Trees > maxTrees:
		return bad("%d trees, want 1 to %d", o.Trees, maxTrees)
	case o.Depth < 1 || o.Depth > maxDepth:
		return bad("depth %d, want 1 to %d", o.Depth, maxDepth)
	case o.Labels != LabelsExact && o.Labels != LabelsApproximate:
		return bad("unknown labels %q (want exact or approximate)", o.Labels)
	case o.LabelsK < 1:
		return bad("%d labels a row, want at least 1", o.LabelsK)
	case o.SketchBytes > 0 && o.SketchBytes != 64 && o.SketchBytes != 128:
		return bad("sketch of %d bytes, want 64 or 128", o.SketchBytes)
	case o.NoNatural && !o.Members:
		return bad("neither label tables nor leaf members asked for")
	case o.Rotate > 0 && (o.Kind == forest.RP || o.Kind == forest.PCATree):
		return bad("rotation applies to axis-aligned learners, not to %s", o.Kind)
	}
	return nil
}
