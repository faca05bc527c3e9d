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

// manifest is the stored description of an index: what the arrays in the blocks of
// object Object mean. It is kept as JSON inside a checksummed block, because it is
// cold, small and wants to be read by people.
type manifest struct {
	Info   IndexInfo
	Object uint64
	Metric vector.Metric
	Dim    int // of the collection
	// Requested are the options as they were given, where there were too few rows
	// for the tuner: what the index is built again with once there are enough.
	Requested *BuildOptions `json:",omitempty"`
	// Detail is the part that belongs to the kind of Info.Options, own that part
	// decoded.
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
			return wrapf(err, "put manifest")
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
		return wrapf(err, "delete manifest")
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
