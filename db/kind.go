package db

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// kind is a kind of index. The rest of the package builds, stores, opens, searches, maintains,
// checks and repairs indexes through this interface and those below; a new kind is an
// implementation in separate files and an entry in kinds.
type kind interface {
	// suits reports whether sparse (or, if sparse is false, dense) collections can have indexes
	// of this kind.
	suits(sparse bool) bool
	// predicts reports whether its indexes predict labels instead of finding rows.
	predicts() bool
	// detail returns an empty detail for decoding.
	detail() detail
	// options returns empty options for decoding.
	options() options
	// build learns an index.
	build(ctx context.Context, job *buildJob) (built, error)
	// open loads an index.
	open(ctx context.Context, st source, m *manifest) (opened, error)
	// absorb returns the next step that inserts fresh rows into an index and removes deleted
	// ones, or reports that the index must be rebuilt. If it returns neither, there is nothing
	// to do.
	absorb(ctx context.Context, st source, m *manifest, timer *stageTimer) (s step, rebuild bool, err error)
	// again returns the options with which an index is rebuilt without tuning. st is nil if
	// the index cannot be read.
	again(ctx context.Context, st source, m *manifest) options
}

// options are the options of an index, as a manifest stores them as JSON.
type options interface {
	// kindName returns the name of the kind, for forests the learner.
	kindName() string
	// limits refuses options that no collection of the dimension can satisfy; dim is 0 for a
	// sparse collection. It is for options that a user gives: stored ones are resolved. Values
	// whose limit depends on the number of rows are lowered instead of refused, since a collection
	// grows and shrinks.
	limits(coll string, dim int) error
	// after returns the options to store after a rebuild without tuning: these, with what the
	// rebuild has resolved anew.
	after(rebuilt options) options
}

// about describes a collection in one generation.
type about struct {
	Name   string
	Sparse bool
	// Dim is the number of coordinates, or of feature numbers in use.
	Dim    int
	Metric vector.Metric
	// Rows is the number of allocated row numbers, Live the number of rows that are not deleted.
	Rows, Live uint32
	// Indexes are the names of the indexes, ascending.
	Indexes []string
	// Renamed is set if features have names, or numbers that differ from those that users see.
	Renamed bool
}

// scanName is the name of the exact scan in place of an index.
const scanName = "flat"

// source is a kind's access to a collection in one generation.
type source interface {
	// about returns what a kind may know of the collection.
	about() *about
	// guard, deferred as `defer st.guard(debug.SetPanicOnFault(true), &err)` where mapped memory is read, converts
	// the effects of a damaged or truncated file to an error.
	guard(old bool, err *error)
	// corrupt returns an error for damage of an index that concerns no single block.
	corrupt(format string, a ...any) error
	// shared returns the state that all generations of an index with this main object share: what
	// the first caller gave.
	shared(object uint64, empty any) any
	// load reads the tables of the rows. The methods down to deleted require it.
	load(ctx context.Context) error
	// denseRow returns a row of a dense collection, in the map or copied to x.
	denseRow(row int, x []float32) []float32
	// sparseRow returns a row of a sparse collection, in the map.
	sparseRow(row uint32) vector.Sparse
	// deletedSet returns the set of deleted rows, nil if there are none.
	deletedSet() *roaring.Bitmap
	deleted(row uint32) bool
	// relabelled returns the rows whose labels were changed since an index with this main object
	// was made; some of them may be deleted. It returns nil if there are none.
	relabelled(object uint64) (*roaring.Bitmap, error)
	// rows and sparse return all rows of a dense or sparse collection.
	rows(ctx context.Context) (*query.View, error)
	sparse(ctx context.Context) (*sparseSet, error)
	// labelReader returns a function that reads the labels of a row. It keeps what it has decoded
	// for the following rows and is not safe for concurrent use.
	labelReader() func(row uint32) ([]string, error)
	key(row uint32) ([]byte, error)
	featureName(number uint32) (string, error)
	// arrays returns a reader of the stored arrays of an index.
	arrays(ctx context.Context, index string, object uint64) *arrays.Reader
	// manifestNamed returns the manifest of an index of the collection, nil if there is none of the
	// name, and openNamed an index.
	manifestNamed(name string) (*manifest, error)
	openNamed(ctx context.Context, name string) (opened, error)
}

// buildJob is the input of a build: options, and generations of a collection.
type buildJob struct {
	coll  string
	name  string // of the index
	opts  options
	timer *stageTimer
	// latest runs f on the latest generation. Mapped memory must not be used after f returns.
	latest func(f func(st source) error) error
}

// product is the result of a build or a step of maintenance before it is written.
type product interface {
	// emit writes every new block to the sink and returns the manifest of the index with them,
	// including its size by section. object is the number of the first new object; the manifest
	// is stored in the last. emit may be called again with other arguments.
	emit(object uint64, sink arrays.Sink) (*manifest, error)
}

// built is the product of a build.
type built interface {
	product
	// describe sets the fields that the product determines.
	describe(*manifest)
}

// step is the result of a step of maintenance before it is written.
type step interface {
	product
	// objects returns the number of objects that the step needs.
	objects() int
	// parts returns the objects that the index keeps in addition to the manifest's. It is valid
	// after emit.
	parts() []uint64
	// garbage returns blocks of these objects that the index no longer needs.
	garbage() []blockRef
	action() string
	rows() int
}

// blockRef identifies a block.
type blockRef struct {
	object uint64
	kind   codec.Kind
	number uint32
}

// wholeStep is the part of a step that writes the complete index as one object.
type wholeStep struct{}

func (wholeStep) objects() int        { return 1 }
func (wholeStep) parts() []uint64     { return nil }
func (wholeStep) garbage() []blockRef { return nil }

// opened is an index in one generation. Depending on its kind and collection, it is a
// rowFinder, a sparseFinder or a labelPredictor.
type opened interface {
	// check checks that the index's arrays are consistent with each other.
	check(ctx context.Context) error
}

// rowFinder finds rows of a dense collection.
type rowFinder interface {
	// rowView returns the view that a search reads: an index and the rows after it.
	rowView() *query.View
	// setting returns the setting for a target recall. It is the exact scan if no measured setting
	// reaches the recall, or if there were too few rows to measure any.
	setting(recall float64) (query.Params, error)
}

// sparseFinder finds rows of a sparse collection.
type sparseFinder interface {
	// find appends the k rows of highest cosine to the unit vector x among the rows that the
	// index covers, that are not deleted and that are in accept, if accept is not nil.
	find(
		ctx context.Context, s *postings.Searcher, q sparseAsk, hits []postings.Hit,
	) ([]postings.Hit, postings.Stats, error)
}

// sparseAsk is a search of a sparse collection.
type sparseAsk struct {
	x        vector.Sparse
	k        int
	accept   *roaring.Bitmap
	strategy postings.Strategy
}

// labelPredictor predicts the labels of rows.
type labelPredictor interface {
	// label returns the name of a label, labels the number of labels.
	label(l uint32) string
	labels() int
	// predict appends to the labels of an answer, best first, and fills in the rest.
	predict(ctx context.Context, x vector.Sparse, o *labelAsk, a *labelAnswer) error
	// predictMany predicts for all queries together and calls found for each, in order. It
	// returns false if it cannot.
	predictMany(ctx context.Context, queries manyQueries, o *labelAsk,
		found func(i int, labels []ranked)) (bool, error)
}

// labelAsk is a prediction: the fields of PredictOptions.
type labelAsk struct {
	top      int
	set      bool
	params   *lcif.Params
	strategy postings.Strategy
	explain  bool
}

// ranked is a label with its score; predicted is set if the model predicts it.
type ranked struct {
	labels.Ranked
	predicted bool
}

// labelAnswer is the answer to a prediction. The explanations are empty unless asked for.
type labelAnswer struct {
	labels []ranked
	stats  lcif.Stats
	// evidence explains each label by rows and features.
	evidence []lcif.LabelExplanation
	// paths has each label's path through a tree, tree the path that decides the prediction.
	paths []*treePath
	tree  *treePath
}

// treePath is a path through a budgeted tree, with the fields of TreePath.
type treePath struct {
	class       string
	path        []treeDecision
	labels      []string
	rows, agree int
}

// treeDecision is a decision on a path, and the labels that it is about.
type treeDecision struct {
	budget.Decision
	label  string
	always []string
}

// manyQueries are n queries, which are validated when they are read.
type manyQueries struct {
	n     int
	query func(i int) (vector.Sparse, error)
}

// detail is the part of a manifest that is specific to the index's kind. It is stored as JSON.
type detail interface {
	// check refuses values that no build can have written.
	check(m *manifest) error
	// fits reports whether the index can belong to a sparse (or, if sparse is false, dense)
	// collection.
	fits(sparse bool) bool
	// objects returns the objects that hold blocks of the index in addition to the manifest's.
	objects() []uint64
	// features returns one more than the largest feature number in the index, 0 if it has none.
	features() int
	// rebuilds reports whether the index can be rebuilt from the rows alone.
	rebuilds() bool
	// uses returns the name of the index that this index requires, empty for none.
	uses() string
	// segments returns the number of segments of the index.
	segments() int
	// rewriteDue reports whether maintenance must rewrite a part of the index because of its
	// deleted rows, although the index covers all rows and counts no deleted ones.
	rewriteDue(deletedRows *roaring.Bitmap, m *manifest, share float64) bool
}

// plainDetail implements the methods of detail that most kinds share.
type plainDetail struct{}

func (plainDetail) fits(bool) bool    { return true }
func (plainDetail) objects() []uint64 { return nil }
func (plainDetail) features() int     { return 0 }
func (plainDetail) rebuilds() bool    { return true }
func (plainDetail) uses() string      { return "" }
func (plainDetail) segments() int     { return 1 }

func (plainDetail) rewriteDue(*roaring.Bitmap, *manifest, float64) bool { return false }

// neighborCycle follows the indexes that find neighbors, from a label model on, and returns the
// names on the path back to it, or nil if there is none. next returns the name of the index
// that finds the neighbors of another one, or empty if it uses none.
func neighborCycle(name string, next func(name string) (string, error)) ([]string, error) {
	path := []string{name}
	for at := name; ; {
		var err error
		if at, err = next(at); err != nil || at == "" || at == scanName {
			return nil, err
		}
		if at == name {
			return append(path, at), nil
		}
		if slices.Contains(path, at) {
			return nil, nil // a cycle that does not contain name
		}
		path = append(path, at)
	}
}

// The parts of objects that are checked once, see verified.Checks.
const (
	roleForest   verified.Role = iota // nodes, leaves and directions
	roleOverlay                       // additions to leaves
	rolePostings                      // a segment of an inverted index
	roleLabelSets
	roleRelabelled
	roleLabelPairs
	roleLabelHead
	roleLabelGraph
	roleTree
)
