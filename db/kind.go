package db

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// kind is a kind of index. The rest of the package builds, stores, opens, searches,
// maintains, checks and repairs indexes through it and the interfaces below; a new
// kind is an implementation in files of its own and an entry in kinds.
type kind interface {
	// suits reports whether collections that are sparse, or dense, can have such an
	// index.
	suits(sparse bool) bool
	// predicts reports whether its indexes predict labels, instead of finding rows.
	predicts() bool
	// detail returns an empty detail, to be decoded into.
	detail() detail
	// build learns an index.
	build(ctx context.Context, job *buildJob) (built, error)
	// open loads an index.
	open(ctx context.Context, st source, m *manifest) (opened, error)
	// absorb makes the next step by which an index covers fresh rows and forgets
	// deleted ones, or reports that it must be rebuilt. Neither means that there is
	// nothing to do.
	absorb(ctx context.Context, st source, r *indexRef, m *manifest, w work) (s step, rebuild bool, err error)
	// again completes the options by which an index is rebuilt without tuning. st is
	// nil where the index cannot be read.
	again(ctx context.Context, st source, m *manifest, o *BuildOptions)
}

// kinds are all kinds of indexes, by BuildOptions.Kind.
var kinds = map[forest.Kind]kind{
	forest.RP: forestKind{}, forest.KD: forestKind{}, forest.KDChrono: forestKind{},
	forest.PCATree: forestKind{}, forest.RF: forestKind{}, KindAuto: forestKind{},
	KindPostings: postingsKind{},
	KindLCIF:     lcifKind{},
	KindSBT:      treeKind{}, KindPT: treeKind{}, KindAT: treeKind{},
}

// kindOf returns the kind that options ask for.
func kindOf(o *BuildOptions, coll string, sparse bool) (kind, error) {
	if o.Kind == "" {
		if o.Kind = forest.KD; sparse {
			o.Kind = KindPostings
		}
	}
	k, ok := kinds[o.Kind]
	if !ok {
		var known []forest.Kind
		for name, k := range kinds {
			if k.suits(sparse) {
				known = append(known, name)
			}
		}
		slices.Sort(known)
		return nil, fmt.Errorf("%w: unknown kind of index %q, want one of %q", ErrOption, o.Kind, known)
	}
	if !k.suits(sparse) {
		return nil, fmt.Errorf("%w: kind %q does not suit %q", ErrKind, o.Kind, coll)
	}
	return k, nil
}

// source is what a kind may ask of a collection, in one generation.
type source interface {
	// entry is the collection's entry in the catalog: its name, dimension, metric,
	// number of rows and indexes.
	entry() *collection
	// file is what guards are for, and has what generations of an index share.
	file() *store
	// load reads the tables of the rows. What follows needs it, up to deleted.
	load(ctx context.Context) error
	// denseRow is a row of a dense collection, in the map or copied to x.
	denseRow(row int, x []float32) []float32
	// sparseRow is a row of a sparse collection, in the map.
	sparseRow(row uint32) vector.Sparse
	// dead is the set of deleted rows, nil if there are none.
	dead() *roaring.Bitmap
	deleted(row uint32) bool
	// rows and sparse are all rows of a dense or sparse collection.
	rows(ctx context.Context) (*query.View, error)
	sparse(ctx context.Context) (*sparseSet, error)
	// labelsOf reads the labels of a row; run is kept for the rows that follow.
	labelsOf(row uint32, run **coldRows) ([]string, error)
	key(row uint32) ([]byte, error)
	featureName(number uint32) (string, error)
	// arrays reads what is stored of an index.
	arrays(ctx context.Context, index string, object uint64) *arrayReader
	// manifestOf and index are those of another index of the collection.
	manifestOf(r *indexRef) (*manifest, error)
	index(ctx context.Context, r *indexRef) (*indexState, error)
}

var _ source = (*collState)(nil)

// buildJob is what an index is built from: options, and generations of a collection.
type buildJob struct {
	coll  string
	name  string // of the index
	id    uint64 // of the collection, once it has been read
	opts  BuildOptions
	timer *stageTimer
	// latest runs f on the latest generation. Whatever is in the map must not be used
	// after that.
	latest func(f func(st source) error) error
}

// work is how maintenance works.
type work struct {
	workers int
	timer   *stageTimer
}

// product is what a build or a step of maintenance makes, before it is written.
type product interface {
	// emit hands every new block to the sink and returns the manifest of the index
	// with them, with its size by section. object is the number of the first new
	// object, the manifest's the last. It may be called again, with others.
	emit(object uint64, sink blockSink) (*manifest, error)
}

// built is the product of a build.
type built interface {
	product
	// describe fills in what the product knows about itself.
	describe(*IndexInfo)
}

// step is what maintenance makes of an index, before it is written.
type step interface {
	product
	// objects is how many objects it needs.
	objects() int
	// parts are the objects that the index keeps besides the manifest's, once it
	// has been emitted.
	parts() []uint64
	// garbage are blocks of these objects that it no longer needs.
	garbage() []blockRef
	action() string
	rows() int
}

// blockRef names a block.
type blockRef struct {
	object uint64
	kind   codec.Kind
	number uint32
}

// wholeStep is the part of a step that writes all of the index, as one object.
type wholeStep struct{}

func (wholeStep) objects() int        { return 1 }
func (wholeStep) parts() []uint64     { return nil }
func (wholeStep) garbage() []blockRef { return nil }

// opened is an index as one generation sees it. It is a rowFinder or a sparseFinder,
// by its collection, or a labelPredictor.
type opened interface {
	// check checks what its arrays say of each other.
	check(ctx context.Context) error
}

// rowFinder finds rows of a dense collection.
type rowFinder interface {
	// rowView is what a search reads: an index, and the rows behind it.
	rowView() *query.View
}

// sparseFinder finds rows of a sparse collection.
type sparseFinder interface {
	// find appends the k rows of highest cosine to the unit vector x among those that
	// the index covers, that are not deleted and are in accept, if that is not nil.
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
	predict(ctx context.Context, x vector.Sparse, o *PredictOptions) ([]Prediction, query.LCIFStats, error)
	// predictMany predicts for all queries together, or returns false if it cannot.
	predictMany(ctx context.Context, queries manyQueries, o *PredictOptions, out [][]Prediction) (bool, error)
}

// manyQueries are n queries, which are checked as they are asked for.
type manyQueries struct {
	n     int
	query func(i int) (vector.Sparse, error)
}

// detail is the part of a manifest that belongs to the index's kind. It is stored
// as JSON.
type detail interface {
	// check refuses what no build can have written.
	check(m *manifest) error
	// fits reports whether the index is one of a sparse, or of a dense, collection.
	fits(sparse bool) bool
	// objects are those that have blocks of the index besides the manifest's.
	objects() []uint64
	// features is one more than the largest feature number that the index knows, 0
	// if it knows none.
	features() int
	// rebuilds reports whether the index can be rebuilt from the rows alone.
	rebuilds() bool
	// uses is the name of the index that this one needs, empty for none.
	uses() string
	// segments is how many parts the index has.
	segments() int
}

// plainDetail is the part of a detail that most kinds share.
type plainDetail struct{}

func (plainDetail) fits(bool) bool    { return true }
func (plainDetail) objects() []uint64 { return nil }
func (plainDetail) features() int     { return 0 }
func (plainDetail) rebuilds() bool    { return true }
func (plainDetail) uses() string      { return "" }
func (plainDetail) segments() int     { return 1 }

// decodeDetail decodes the part of a manifest that belongs to its kind.
func (m *manifest) decodeDetail() error {
	k := kinds[m.Info.Options.Kind]
	if k == nil {
		return fmt.Errorf("unknown kind of index %q", m.Info.Options.Kind)
	}
	m.own = k.detail()
	if err := json.Unmarshal(m.Detail, m.own); err != nil {
		return err
	}
	return m.own.check(m)
}

// kind is the index's kind.
func (m *manifest) kind() kind { return kinds[m.Info.Options.Kind] }
