package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// indexState is an index in one generation, loaded by its first user.
type indexState struct {
	loading loading
	m       *kind.Manifest
	open    kind.Opened
}

// manifestOf returns an index's manifest. It is read once; an error is kept as well.
func (st *collState) manifestOf(r *indexRef) (*kind.Manifest, error) {
	st.indexMu.Lock()
	read := st.manifests[r.Name]
	if read == nil {
		read = sync.OnceValues(func() (m *kind.Manifest, err error) {
			defer guard(st.g.store, setFaults(), &err)
			return st.readManifest(r, bucketMeta)
		})
		if st.manifests == nil {
			st.manifests = map[string]func() (*kind.Manifest, error){}
		}
		st.manifests[r.Name] = read
	}
	st.indexMu.Unlock()
	return read()
}

// readManifest reads the manifest of an index, or its copy among the blocks.
func (st *collState) readManifest(r *indexRef, bucket []byte) (*kind.Manifest, error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucket).Get(key[:]) })
	if v == nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, errors.New("block is missing"))
	}
	payload, err := decodeBlock(st.c.Name, key[:], v, true)
	if err != nil {
		return nil, fail.Wrapf(err, "index %q", r.Name)
	}
	m, err := decodeManifest(payload, st.g.store.kinds)
	if err != nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, fail.Wrapf(err, "index %q", r.Name))
	}
	if what := foreign(m, r, st.c); what != "" {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0,
			fmt.Errorf("index %q: %s", r.Name, what))
	}
	return m, nil
}

// foreign returns the reason why a manifest does not belong to an index of a collection, or an
// empty string.
func foreign(m *kind.Manifest, r *indexRef, c *collection) string {
	switch {
	case m.Object != r.Object || m.Info.Name != r.Name || m.Info.Rows > int(c.Rows),
		!m.Own.Fits(c.Sparse) || !c.Sparse && m.Dim != c.Dim || m.Metric != c.Metric:
		return "manifest of another index"
	case m.Own.FeatureCount() > c.Dim:
		return fmt.Sprintf("%d features of %d", m.Own.FeatureCount(), c.Dim)
	}
	known := r.objects()
	for _, object := range m.Own.Objects() {
		if !slices.Contains(known, object) {
			return "blocks of an object that is no part of it"
		}
	}
	return ""
}

// index returns the loaded state of the named index.
func (st *collState) index(ctx context.Context, r *indexRef) (*indexState, error) {
	st.indexMu.Lock()
	x := st.indexes[r.Name]
	if x == nil {
		x = &indexState{}
		st.indexes[r.Name] = x
	}
	st.indexMu.Unlock()
	return x, x.loading.do(ctx, func(ctx context.Context) error { return st.loadIndex(ctx, r, x) })
}

func (st *collState) loadIndex(ctx context.Context, r *indexRef, x *indexState) (err error) {
	defer guard(st.g.store, setFaults(), &err)
	if x.m, err = st.manifestOf(r); err != nil {
		return err
	}
	x.open, err = x.m.Of.Open(ctx, st, x.m)
	return err
}

// target returns what a search reads: an index and its view, or the view of all rows and nil.
func (st *collState) target(ctx context.Context, name string) (*query.View, *indexState, error) {
	x, err := st.searchIndex(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if x == nil {
		v, err := st.Rows(ctx)
		return v, nil, err
	}
	return x.open.(kind.RowFinder).RowView(), x, nil
}

// searchIndex returns the index for a search for rows: the named index, or the only one if name is
// empty. nil means an exact scan of the rows.
func (st *collState) searchIndex(ctx context.Context, name string) (*indexState, error) {
	name, err := st.only(name, kind.ScanName, func(k kind.Kind) bool { return !k.Predicts() })
	if err != nil || name == kind.ScanName {
		return nil, err
	}
	r := st.c.index(name)
	if r == nil {
		return nil, noIndex(st.c, name)
	}
	x, err := st.index(ctx, r)
	if err != nil {
		return nil, err
	}
	if x.m.Of.Predicts() {
		return nil, fmt.Errorf("%w: index %q of %q is a label model", fail.Kind, name, st.c.Name)
	}
	return x, nil
}

// only returns name if it is not empty, otherwise the name of the only index that suits, or
// none if there is no such index. An index that maintenance has built counts only if it is the
// only one that suits.
func (st *collState) only(name, none string, suits func(kind.Kind) bool) (string, error) {
	if name != "" {
		return name, nil
	}
	name = none
	found, auto := 0, ""
	for i := range st.c.Indexes {
		m, err := st.manifestOf(&st.c.Indexes[i])
		if err != nil {
			return "", err
		}
		switch {
		case !suits(m.Of):
		case m.Auto:
			auto = st.c.Indexes[i].Name
		default:
			name = st.c.Indexes[i].Name
			found++
		}
	}
	switch {
	case found == 0 && auto != "":
		return auto, nil
	case found > 1:
		return "", fmt.Errorf("%w: collection %q has the indexes %q, name one", fail.Option,
			st.c.Name, st.c.indexNames())
	}
	return name, nil
}

// ManifestNamed implements kind.Source.
func (st *collState) ManifestNamed(name string) (*kind.Manifest, error) {
	r := st.c.index(name)
	if r == nil {
		return nil, nil
	}
	return st.manifestOf(r)
}

// OpenNamed implements kind.Source.
func (st *collState) OpenNamed(ctx context.Context, name string) (kind.Opened, error) {
	r := st.c.index(name)
	if r == nil {
		return nil, noIndex(st.c, name)
	}
	x, err := st.index(ctx, r)
	return x.open, err
}

func (st *collState) Collection() *kind.Collection { return &st.describe }

func (st *collState) IndexNames() []string { return st.c.indexNames() }

func (st *collState) Guard(old bool, err *error) { caught(st.g.store, recover(), old, err) }

func (st *collState) Corrupt(format string, a ...any) error {
	return fail.Corruptf(st.c.Name, format, a...)
}

func (st *collState) Shared(object uint64, empty any) any {
	x, _ := st.g.store.fresh.LoadOrStore(object, empty)
	return x
}

func (st *collState) DenseRow(row int, x []float32) []float32 { return st.base.Rows.Vector(row, x) }
func (st *collState) SparseRow(row uint32) vector.Sparse      { return st.sparseRows.Row(row) }

var _ kind.Source = (*collState)(nil)

func noIndex(c *collection, name string) error {
	return fail.NoIndexNamed(name, c.Name, c.indexNames())
}
