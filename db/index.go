package db

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// KindAuto as BuildOptions.Kind selects the learner and the depth that reach TargetRecall
// fastest on held-out rows.
const KindAuto forest.Kind = "auto"

// BuildOptions configures how Collection.Build learns an index. The zero value is a good general index:
// k-d trees over PCA-rotated coordinates with sketches and neighbor lists, tuned on held-out
// rows.
type BuildOptions struct {
	// Kind is the forest learner, forest.KD when empty, or KindAuto. For a sparse collection it
	// is KindPostings, also when empty. KindLCIF, KindSBT, KindPT and KindAT apply to both.
	Kind forest.Kind
	// TargetRecall is the recall at which KindAuto compares forests, 0.95 when
	// zero.
	TargetRecall float64
	// Trees is the number of trees. Zero means 2 if the index has label tables, sketches and
	// neighbor lists, 16 otherwise.
	Trees int
	// Depth is the number of levels of a tree. Zero selects the depth at which a leaf holds
	// three and a half to seven rows, where the natural classifier works best, or one level
	// less if Trees is 2 by default. A depth that would make more than two leaves per row is
	// lowered.
	Depth int
	// LabelsK is the number of nearest rows (the row itself first) that are the labels of a
	// training point, at most 4,096; it is lowered to the number of rows. Zero means 8 if Trees
	// is 2 by default, 50 otherwise.
	LabelsK int
	// Labels selects how the nearest rows are found: LabelsExact, LabelsApproximate, or empty
	// for exact ones if that takes only seconds and approximate ones otherwise. The labels of
	// TrainingQueries are always exact.
	Labels LabelSource `json:",omitempty"`
	// Rotate is the number of principal coordinates that the axis-aligned learners (kd,
	// kd-chrono, rf) split on, at most the dimension. Zero means the learner's default: 64, or
	// the dimension if it is lower, for kd and auto, none otherwise. A negative number means
	// none.
	Rotate int
	// SketchBytes is the width of a row's sketch: 64, 128, zero for 64, or
	// negative for none.
	SketchBytes int
	// HopLabels is the number of neighbors in a row's neighbor list, which beams and hops
	// follow, at most 1,024; it is lowered to the number of other rows. Zero means 24, negative
	// means none.
	HopLabels int
	// Quantize stores an 8-bit copy of float32 rows as a filter before the exact distances.
	// Rows stored as integers 0..255 need none.
	Quantize bool
	// Members also stores the rows of each leaf, for voting and lookup.
	Members bool
	// NoNatural omits the label-proportion tables (voting and lookup only).
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
	// NoTune skips the tuner: queries must then specify their parameters. Fewer than 10 rows
	// are too few for the tuner: searches of such an index are exact scans, and DB.Maintain
	// rebuilds it with the tuner and the original options once there are 10.
	NoTune bool
	// TuneK is the k of the tuner's queries, 10 when zero. It is lowered to the number of rows
	// that remain (see Curve.K). If it is more than half of the rows, searches are exact scans.
	TuneK int
	// Holdout is the number of rows that the tuner holds out as queries, 1000 when zero, at
	// most 100,000 and at most a tenth of the rows. Equal rows are held out together and
	// queried once, so that many equal rows reduce the number of queries.
	Holdout int
	// TrainingQueries, if given, are the training points instead of the rows (the paper's
	// separate training query set, section 3), and a part of them is held out for the tuner. At
	// least 10.
	TrainingQueries [][]float32 `json:"-"`
	// Postings are the options of KindPostings, which uses no others, and of the inverted index
	// of a KindLCIF over a sparse collection.
	Postings PostingsOptions `json:",omitzero"`
	// LCIF are the options of KindLCIF, which also uses Seed.
	LCIF LCIFOptions `json:",omitzero"`
	// Budget are the options of KindSBT, KindPT and KindAT, which also use Seed.
	Budget BudgetOptions `json:",omitzero"`
}

// LabelSource selects how a build finds the nearest rows of every row.
type LabelSource string

// The label sources.
const (
	// LabelsExact compares every row with every other row.
	LabelsExact LabelSource = "exact"
	// LabelsApproximate refines approximate neighbor lists and measures their recall
	// (labels.ApproximateNeighbors).
	LabelsApproximate LabelSource = "approximate"
)

// exactWork is the largest rows² · dim for which labels are exact by default: some seconds on
// two cores.
const exactWork = 1e11

// LabelReport holds the measurements of approximate labels.
type LabelReport struct {
	// K is the number of rows in a list, including the row itself.
	K int
	// Sample is the number of rows on which the recall was measured.
	Sample int
	// Recall is the mean share of the K-1 nearest rows that a list holds, HeadRecall the share
	// of the nearest 10.
	Recall, HeadRecall float64
	// Rounds is the number of refinement rounds on exact distances.
	Rounds int
}

// IndexInfo describes a published index.
type IndexInfo struct {
	// Name is the index's name in its collection.
	Name string
	// Options are the resolved build options.
	Options BuildOptions
	// Rows is the number of row numbers that the index covers. Queries scan later rows until
	// maintenance or the next build.
	Rows int
	// Created is the time of the build, Maintained the time of the last change by maintenance,
	// zero if there was none.
	Created    time.Time
	Maintained time.Time `json:",omitzero"`
	// BuildSeconds is the wall time of the build by stage.
	BuildSeconds map[string]float64
	// BuildMemory is the largest amount of memory in bytes that the process held at the end of
	// a stage, including memory for other work but not file maps.
	BuildMemory int64 `json:",omitempty"`
	// Bytes is the stored size by section.
	Bytes map[string]int64
	// Curve holds the tuner's measurements on held-out rows, cheapest first; nil without
	// tuning.
	Curve *query.Curve
	// LabelCurve holds the measurements of a label model's tuner by cross-validation; nil for
	// other indexes and without tuning.
	LabelCurve *query.LCIFCurve `json:",omitempty"`
	// LabelWeights are the weightings that the tuner tried, with the best result of each.
	LabelWeights []LabelWeight `json:",omitempty"`
	// Tree describes budgeted trees; nil for other indexes.
	Tree *budget.Stats `json:",omitempty"`
	// TreeTrials holds the measurements of the cross-validation of budgeted trees, in the order
	// of the grid; nil for other indexes and without cross-validation.
	TreeTrials []budget.Trial `json:",omitempty"`
	// TrainingPoints is the number of points that the forest was learned from.
	TrainingPoints int
	// Labels describes the quality of approximate labels; nil if all labels are exact.
	Labels *LabelReport `json:",omitempty"`
}

// TotalBytes returns the stored size of the index.
func (i IndexInfo) TotalBytes() int64 {
	var n int64
	for _, b := range i.Bytes {
		n += b
	}
	return n
}

// manifest is the stored description of an index: the meaning of the arrays in the blocks of
// object Object. It is stored as JSON in a checksummed block, because it is small, rarely read,
// and should be readable by people.
type manifest struct {
	Info   IndexInfo
	Object uint64
	Metric vector.Metric
	Dim    int // of the collection
	// Requested holds the options as given, if there were too few rows for the tuner. The index
	// is rebuilt with them once there are enough.
	Requested *BuildOptions `json:",omitempty"`
	// Detail is the encoded part specific to the kind of Info.Options, own the decoded part.
	Detail json.RawMessage
	own    detail
}

func encodeManifest(m *manifest) ([]byte, error) {
	stored := *m
	var err error
	if stored.Detail, err = json.Marshal(m.own); err != nil {
		return nil, wrapf(err, "index %q: encode manifest", m.Info.Name)
	}
	b, err := json.Marshal(&stored)
	if err != nil {
		return nil, wrapf(err, "index %q: encode manifest", m.Info.Name)
	}
	if err := checkShape(b); err != nil || len(b) > maxManifest {
		return nil, fmt.Errorf(
			"%w: index %q: a description of %d bytes, want at most %d: a label model may have too many labels",
			errFull, m.Info.Name, len(b), maxManifest)
	}
	return b, nil
}

// putManifest writes the manifest of an index, and a copy of it among the blocks, which is
// stored far from it in the file and allows rebuilding a damaged index.
func putManifest(tx *bbolt.Tx, object uint64, data []byte) error {
	key := codec.Key(object, codec.KindManifest, 0)
	value := codec.Encode(key[:], codec.Header{Kind: codec.KindManifest}, data)
	for _, bucket := range [][]byte{bucketMeta, bucketBlocks} {
		if err := tx.Bucket(bucket).Put(key[:], value); err != nil {
			return wrapf(err, "put manifest")
		}
	}
	return nil
}

// retireManifest deletes the manifest of an object that is no longer the main object of an
// index. The copy among the blocks is removed with the object, because removing it now would
// rewrite the blocks next to it.
func retireManifest(tx *bbolt.Tx, object uint64) error {
	key := codec.Key(object, codec.KindManifest, 0)
	if err := tx.Bucket(bucketMeta).Delete(key[:]); err != nil {
		return wrapf(err, "delete manifest")
	}
	return nil
}

// decodeManifest decodes a manifest and refuses shapes that no build can have written, so that
// later arithmetic on them cannot overflow.
func decodeManifest(b []byte) (*manifest, error) {
	var m manifest
	err := checkShape(b)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: index manifest: %w", ErrCorrupt, err)
	}
	if m.Info.Rows < 0 || int64(m.Info.Rows) > math.MaxUint32 {
		err = errors.New("row count")
	} else {
		err = m.decodeDetail()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: index manifest of %q: %w", ErrCorrupt, m.Info.Name, err)
	}
	return &m, nil
}
