package state

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/sample"
)

// Index is an index in one generation, loaded by its first user.
type Index struct {
	loading  loading
	Manifest *kind.Manifest
	Opened   kind.Opened
}

// ManifestOf returns an index's manifest. It is read once; an error is kept as well.
func (st *Collection) ManifestOf(r *layout.IndexRef) (*kind.Manifest, error) {
	st.indexMu.Lock()
	read := st.manifests[r.Name]
	if read == nil {
		read = sync.OnceValues(func() (m *kind.Manifest, err error) {
			defer Guard(st.Gen.File, CatchFaults(), &err)
			return st.ReadManifest(r, layout.BucketMeta)
		})
		if st.manifests == nil {
			st.manifests = map[string]func() (*kind.Manifest, error){}
		}
		st.manifests[r.Name] = read
	}
	st.indexMu.Unlock()
	return read()
}

// ReadManifest reads the manifest of an index, or its copy among the blocks.
func (st *Collection) ReadManifest(r *layout.IndexRef, bucket []byte) (*kind.Manifest, error) {
	get := func(key []byte) (v []byte) {
		st.Gen.Locked(func() { v = st.Gen.Tx.Bucket(bucket).Get(key) })
		return v
	}
	return layout.ReadManifest(st.Entry, r, get, st.Gen.File.Kinds)
}

// OpenIndex returns the loaded state of the named index.
func (st *Collection) OpenIndex(ctx context.Context, r *layout.IndexRef) (*Index, error) {
	st.indexMu.Lock()
	x := st.indexes[r.Name]
	if x == nil {
		x = &Index{loading: newLoading()}
		st.indexes[r.Name] = x
	}
	st.indexMu.Unlock()
	return x, x.loading.do(ctx, func(ctx context.Context) error { return st.loadIndex(ctx, r, x) })
}

func (st *Collection) loadIndex(ctx context.Context, r *layout.IndexRef, x *Index) (err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	if x.Manifest, err = st.ManifestOf(r); err != nil {
		return err
	}
	of, err := st.Part(ctx, x.Manifest.Of)
	if err != nil {
		return err
	}
	x.Opened, err = x.Manifest.Of.Open(ctx, of, x.Manifest)
	return err
}

// onePart is what a kind of index sees of a collection with vectors and features: only one of them.
type onePart struct {
	kind.Source
	describe kind.Collection
}

func (p *onePart) Collection() *kind.Collection { return &p.describe }

// Part returns what a kind of index sees of the collection: the features, if it is for them, or else the
// vectors. Rows without a vector are deleted ones there.
func (st *Collection) Part(ctx context.Context, k kind.Kind) (kind.Source, error) {
	if !st.Entry.Both() {
		return st, nil
	}
	// The number of live rows with a vector is known once the rows are loaded.
	return st.part(st.Entry.ByFeatures(k)), st.Load(ctx)
}

// part returns the features or the vectors of a collection of both, and all of other collections.
func (st *Collection) part(features bool) kind.Source {
	switch {
	case !st.Entry.Both():
		return st
	case features:
		return &st.features
	}
	return &st.vectors
}

// makeParts sets the parts of a collection of both, and what scans each.
func (st *Collection) makeParts() {
	if st.Entry.Both() {
		st.vectors = onePart{st, st.Entry.Describe(false)}
		st.features = onePart{st, st.Entry.Describe(true)}
		st.vectors.describe.Sampled, st.features.describe.Sampled = st.Sampled(), st.Sampled()
	}
	st.scanVectors.Source, st.scanFeatures.Source = st.part(false), st.part(true)
}

// Finder returns what a search by features, or by vectors, asks: the named index, or the default one if
// name is empty, or the exact scan, and its name.
func (st *Collection) Finder(ctx context.Context, name string, features bool) (kind.Finder, string, error) {
	name = cmp.Or(name, st.Entry.DefaultIndex(features), kind.ScanName)
	if name == kind.ScanName {
		if features {
			return &st.scanFeatures, name, nil
		}
		return &st.scanVectors, name, nil
	}
	r := st.Entry.Index(name)
	if r == nil {
		return nil, name, layout.NoIndex(st.Entry, name)
	}
	x, err := st.OpenIndex(ctx, r)
	switch {
	case err != nil:
		return nil, name, err
	case r.Labels:
		return nil, name, fmt.Errorf("%w: index %q of %q is a label model", fail.Kind, name, st.Entry.Name)
	case r.Features != features:
		of := "vectors"
		if r.Features {
			of = "features"
		}
		return nil, name, fmt.Errorf("%w: index %q of %q is over %s, and the query has none", fail.Kind, name,
			st.Entry.Name, of)
	}
	return x.Opened.(kind.Finder), name, nil
}

// ManifestNamed implements kind.Source.
func (st *Collection) ManifestNamed(name string) (*kind.Manifest, error) {
	r := st.Entry.Index(name)
	if r == nil {
		return nil, nil
	}
	return st.ManifestOf(r)
}

// OpenNamed implements kind.Source.
func (st *Collection) OpenNamed(ctx context.Context, name string) (kind.Opened, error) {
	r := st.Entry.Index(name)
	if r == nil {
		return nil, layout.NoIndex(st.Entry, name)
	}
	x, err := st.OpenIndex(ctx, r)
	return x.Opened, err
}

func (st *Collection) Collection() *kind.Collection { return &st.describe }

func (st *Collection) Guard(old bool, err *error) { caught(st.Gen.File, recover(), old, err) }

func (st *Collection) Shared(object uint64, empty any) any {
	x, _ := st.Gen.File.fresh.LoadOrStore(object, empty)
	return x
}

// Sampled returns the sample of the queries that users have asked, nil if none is kept.
func (st *Collection) Sampled() *sample.Reservoir {
	return st.Gen.File.Samples.Of(st.Entry.ID, st.storedQueries)
}

// storedQueries returns the stored sample of queries, an empty one if it is damaged: an index does without,
// and Check reports the damage.
func (st *Collection) storedQueries() (s sample.Stored) {
	if st.Gen.File.VerifyPages(layout.PartQueries) != nil {
		return s
	}
	st.Gen.Locked(func() { s, _ = layout.ReadQueries(st.Gen.Tx, st.Entry) })
	return s
}

var _ kind.Source = (*Collection)(nil)
