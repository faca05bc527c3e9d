// Package kind is the seam between package db and the kinds of index. A kind implements Kind and
// reads a collection through Source. The kinds are the packages below this one, which
// db/indexoptions.go registers.
package kind

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Kind is a kind of index. Package db builds, stores, opens, searches, maintains, checks and
// repairs indexes through this interface and those below; a new kind is a package with an
// implementation, and an entry in the table of db.
type Kind interface {
	// Traits describes the kind.
	Traits() Traits
	// Detail returns an empty detail for decoding.
	Detail() Detail
	// Build learns a segment. It returns fail.Empty if all of its rows are deleted.
	Build(ctx context.Context, job *Job) (Built, error)
	// Open loads an index.
	Open(ctx context.Context, st Source, m *Manifest) (Opened, error)
}

// Traits are the properties of a kind.
type Traits struct {
	// Dense and Sparse collections can have indexes of the kind.
	Dense, Sparse bool
	// Predicts is set if its indexes predict labels instead of finding rows.
	Predicts bool
	// Composes is set if an index can have several segments, whose answers are put together. Otherwise
	// it has one, and is rebuilt once enough rows have changed.
	Composes bool
	// Options has the type of the options of the kind, and may be a nil pointer: searches ask for traits.
	Options index.Options
}

// Suits reports whether sparse, or dense, collections can have indexes of the kind.
func (t Traits) Suits(sparse bool) bool { return sparse && t.Sparse || !sparse && t.Dense }

// Measurer is a kind whose segments have settings that depend on what users ask.
type Measurer interface {
	// Measure returns the manifest of an index with settings that were measured again, nil if there is
	// no reason to.
	Measure(ctx context.Context, st Source, m *Manifest, timer *Timer) (*Manifest, error)
}

// Collection describes a collection in one generation.
type Collection struct {
	Name   string
	Sparse bool
	// Dim is the number of coordinates, or of feature numbers in use.
	Dim    int
	Metric vector.Metric
	// Rows is the number of allocated row numbers, Live the number of rows that are not deleted.
	Rows, Live uint32
	// Indexes are the names of the indexes, ascending.
	Indexes []string
	// Sampled is the sample of the queries that users have asked, nil if none is kept.
	Sampled *sample.Reservoir
	// Vectors is the number of coordinates of the vectors that rows have next to the features, 0 if they
	// have none.
	Vectors int
	// BM25 has K1 and B of a collection of texts, whose values are counts of terms; nil for others.
	BM25 *postings.BM25
}

// ScanName is the name of the exact scan in place of an index.
const ScanName = "flat"

// Source is a kind's access to a collection in one generation.
type Source interface {
	// Collection returns the description of the collection.
	Collection() *Collection
	// Rows and Sparse return all rows of a dense or sparse collection, ReadRows those of either.
	Rows(ctx context.Context) (*query.View, error)
	Sparse(ctx context.Context) (*SparseSet, error)
	// LabelReader returns a function that reads the labels of a row. It keeps what it has decoded
	// for the following rows and is not safe for concurrent use.
	LabelReader() func(row uint32) ([]string, error)
	// Relabelled returns the rows whose labels were changed since an index with this main object
	// was made; some of them may be deleted. It returns nil if there are none.
	Relabelled(object uint64) (*roaring.Bitmap, error)
	// CachedLabel returns the rows that have a label, also deleted ones; nil if no row ever had it.
	CachedLabel(label string) (*roaring.Bitmap, error)
	// Key returns the key of a row.
	Key(row uint32) ([]byte, error)
	// ManifestNamed returns the manifest of an index of the collection, nil if there is no such index,
	// and OpenNamed an index.
	ManifestNamed(name string) (*Manifest, error)
	OpenNamed(ctx context.Context, name string) (Opened, error)
	// Arrays returns a reader of the stored arrays of an index.
	Arrays(ctx context.Context, name string, object uint64) *arrays.Reader
	// Shared returns the state that all generations of an index with this main object share: what
	// the first caller gave.
	Shared(object uint64, empty any) any
	// Guard, deferred where mapped memory is read as
	//
	//	defer st.Guard(debug.SetPanicOnFault(true), &err)
	//
	// converts the effects of a damaged or truncated file to an error.
	Guard(old bool, err *error)
}

// Job is the input of a build: options, rows [First, End), and generations of a collection.
type Job struct {
	Coll string
	Name string // of the index
	// Given are the options as the user gave them, which the build resolves for the present rows.
	Given index.Options
	// Before is the index that is rebuilt, nil for a build by the user. What its tuner chose, and only
	// that, is taken from its resolved options instead of Given: a rebuild repeats no cross-validation.
	Before *Manifest
	// Labels are the names of the labels that Before predicts, by number; nil if they are unknown.
	Labels     []string
	First, End int
	// Data, if not nil, has the rows and labels of the build, which then reads none: those of a member of a
	// model of several kinds. It may leave rows out, and no build changes it.
	Data *LabelledRows
	// Base is the index that a segment of later rows is built for, nil if all rows are built. The segment
	// may use what its first segment has learned; Source.OpenNamed opens it.
	Base  *Manifest
	Timer *Timer
	// Latest runs f on the latest generation, in which the collection has the index Base, unless that
	// is nil. Mapped memory must not be used after f returns.
	Latest func(f func(st Source) error) error
}

// LabelledRows is what a label model is learned from: rows and label sets by row number, the numbers of the
// live rows, and the names of the labels.
type LabelledRows struct {
	Rows  *vector.CSR
	Sets  *labels.Matrix
	Live  []int
	Names []string
}

// Built is a segment before it is written.
type Built interface {
	// Emit writes the blocks of the segment, and sets its fields Own and Dead.
	Emit(w *arrays.Writer, g *Segment)
	// Describe sets the fields that a build of all rows determines.
	Describe(m *Manifest)
}

// Opened is an index in one generation. It is a Finder, or a LabelPredictor if its kind predicts.
type Opened interface {
	// Check checks that the index's arrays are consistent with each other.
	Check(ctx context.Context) error
}

// LabelPredictor predicts the labels of rows.
type LabelPredictor interface {
	// Names returns the names of the labels, by number.
	Names() []string
	// Predict appends to the labels of an answer, best first, and fills in the rest. With a calibration, it
	// gives all labels that have a score to LabelAsk.Choose.
	Predict(ctx context.Context, x vector.Sparse, o *LabelAsk, a *LabelAnswer) error
}

// GroupPredictor is a label model that predicts together with models of other collections, see package
// grouped.
type GroupPredictor interface {
	// InGroup describes the model, if its sums add up with those of others.
	InGroup() (out grouped.Model, adds bool)
	// Evidence returns what the model says of a query, without names of features. o has Params, Vector and Rows.
	Evidence(ctx context.Context, x vector.Sparse, o *LabelAsk) (grouped.Evidence, error)
	// Version is that of the model, Sums returns what it knows of a feature.
	Version() uint64
	Sums(feature uint32) grouped.Sums
}

// LabelAsk is a prediction: the fields of db.PredictOptions.
type LabelAsk struct {
	// Vector is the vector of a query with features next to it, or without; nil for none.
	Vector  []float32
	Top     int
	Set     bool
	Params  *lcif.Params
	Explain bool
	// Rows, if not nil, holds all rows that may be neighbors of the query. Filtered is set if the user
	// has given a filter, which a model without neighbors refuses.
	Rows     *roaring.Bitmap
	Filtered bool
	// Calibration is that of the model, nil if scores have no probabilities. Limit, if above 0, is the least
	// probability of the labels of the set, in place of the cuts of the calibration; Least that of all labels.
	Calibration  *labels.Calibration
	Limit, Least float32
}

// Ranked is a label with its name and its score; Predicted is set if the model predicts it. Probability is 0
// without a calibration.
type Ranked struct {
	labels.Ranked
	Name        string
	Probability float32
	Predicted   bool
	order       float32 // what Choose orders by
}

// LabelAnswer is the answer to a prediction. The explanations are empty unless LabelAsk.Explain is set.
type LabelAnswer struct {
	Labels    []Ranked
	Stats     lcif.Stats
	Decisions int // of trees
	// Cuts are where the set of the model begins, for each label.
	Cuts []Cut
	// Evidence explains each label by rows and features.
	Evidence []lcif.LabelExplanation
	// Paths has each label's path through a tree, Tree the path that decides the prediction.
	Paths []*TreePath
	Tree  *TreePath
	// Members has the members of a model of several kinds that give each label its score.
	Members [][]MemberShare
}

// Cut is the least probability of a label that is predicted.
type Cut struct {
	Least   float32
	OfScore bool   // it is the least score instead
	Rule    string // what else selects the set, if it has no least value; Best if that is the best label
	Best    bool
}

// MemberShare is the part of a member in the score of a label, Weight · Chance, and its own reason. Chance
// is how probable the member's own Score makes the label.
type MemberShare struct {
	Kind                  string
	Weight, Chance, Score float64
	Evidence              *lcif.LabelExplanation
	Path                  *TreePath
}

// TreePath is a path through a budgeted tree, with the fields of db.TreePath.
type TreePath struct {
	Class       string
	Path        []TreeDecision
	Labels      []string
	Rows, Agree int
	// Linear is set for the classifiers of a label, which Rows training rows have, instead of the way to a leaf.
	Linear bool
}

// TreeDecision is a decision on a path, and the labels that it is about.
type TreeDecision struct {
	budget.Decision
	Label  string
	Always []string
	Vector float64 // what the vector of the query adds to the margin, if it has one next to features
}

// Detail is the part of a segment that is specific to the index's kind. It is stored as JSON.
type Detail interface {
	// Check refuses values that no build can have written, such as features beyond those of the manifest.
	Check(m *Manifest, g *Segment) error
}

// The parts of objects that are checked once, see verified.Checks.
const (
	RoleForest   verified.Role = iota // nodes, leaves and directions
	RolePostings                      // a segment of an inverted index
	RoleLabels                        // a segment of a label model
	RoleTree
	RoleLabelTree
)
