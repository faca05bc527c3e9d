package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
)

// indexState is an index as one generation sees it, loaded by its first user.
type indexState struct {
	loading loading
	m       *manifest
	view    *query.View
	// postings is the inverted index of a sparse collection, by segment. The
	// rows deleted are those of this generation.
	postings []postings.Segment
	// model is the label model, beside an inverted index or in a dense
	// collection.
	model *labelModel
	// tree is a budgeted tree.
	tree *treeModel
}

// manifestOf is an index's manifest. It is read once, whether it is valid or not.
func (st *collState) manifestOf(r *indexRef) (*manifest, error) {
	st.indexMu.Lock()
	read := st.manifests[r.Name]
	if read == nil {
		read = sync.OnceValues(func() (m *manifest, err error) {
			defer guard(st.g.store, setFaults(), &err)
			return st.readManifest(r, bucketMeta)
		})
		if st.manifests == nil {
			st.manifests = map[string]func() (*manifest, error){}
		}
		st.manifests[r.Name] = read
	}
	st.indexMu.Unlock()
	return read()
}

// readManifest reads the manifest of an index, or its copy among the blocks.
func (st *collState) readManifest(r *indexRef, bucket []byte) (*manifest, error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucket).Get(key[:]) })
	if v == nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, errors.New("block is missing"))
	}
	payload, err := decodeBlock(st.c.Name, key[:], v, true)
	if err != nil {
		return nil, wrapf(err, "index %q", r.Name)
	}
	m, err := decodeManifest(payload)
	if err != nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, wrapf(err, "index %q", r.Name))
	}
	if m.Object != r.Object || m.Info.Name != r.Name || m.Info.Rows > int(st.c.Rows) || m.Budget == nil && (m.Sparse != nil) != st.c.Sparse || !st.c.Sparse && m.Dim != st.c.Dim || m.Metric != st.c.Metric {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, fmt.Errorf("index %q: manifest of another index", r.Name))
	}
	if st.c.Sparse && m.features() > st.c.Dim {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0,
			fmt.Errorf("index %q: %d features of %d", r.Name, m.features(), st.c.Dim))
	}
	if !m.holdsOnly(r.objects()) {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, fmt.Errorf("index %q: blocks of an object that is no part of it", r.Name))
	}
	return m, nil
}

// features is one more than the largest feature number that an index knows.
func (m *manifest) features() int {
	switch {
	case m.Budget != nil:
		return m.Budget.Cols
	case m.LCIF != nil:
		return m.LCIF.Features
	case m.Sparse != nil:
		n := m.Sparse.Cols
		for _, g := range m.Segments {
			n = max(n, g.Sparse.Cols)
		}
		return n
	}
	return 0
}

// index is the loaded state of the named index.
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
	if x.m.Budget != nil {
		x.tree, err = st.loadBudget(ctx, x.m)
		return err
	}
	if st.c.Sparse {
		if x.postings, err = st.loadSegments(ctx, x.m); err == nil && x.m.LCIF != nil {
			x.model, err = st.loadLCIF(ctx, x.m, x.postings)
		}
		return err
	}
	base, err := st.rows(ctx)
	if err != nil {
		return err
	}
	if x.m.LCIF != nil {
		x.model, err = st.loadLCIF(ctx, x.m, nil)
		return err
	}
	x.view, err = st.loadView(ctx, x.m, *base)
	return err
}

// target is what a search asks: an index, or the rows themselves.
func (st *collState) target(ctx context.Context, name string) (*query.View, *manifest, error) {
	x, err := st.asked(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if x == nil {
		v, err := st.rows(ctx)
		return v, nil, err
	}
	return x.view, x.m, nil
}

// asked is the index that a search for rows asks, the only one if no name is
// given; nil means the rows themselves.
func (st *collState) asked(ctx context.Context, name string) (*indexState, error) {
	name, err := st.only(name, Flat, (*manifest).searchable)
	if err != nil || name == Flat {
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
	if !x.m.searchable() {
		return nil, fmt.Errorf("%w: index %q of %q is a label model", ErrKind, name, st.c.Name)
	}
	return x, nil
}

// searchable says whether an index finds rows, rather than labels.
func (m *manifest) searchable() bool { return m.LCIF == nil && m.Budget == nil }

// predicts says whether an index is a label model.
func (m *manifest) predicts() bool { return !m.searchable() }

// only is the name given, or that of the only index that suits; none without
// one.
func (st *collState) only(name, none string, suits func(*manifest) bool) (string, error) {
	if name != "" {
		return name, nil
	}
	name = none
	found := 0
	for i := range st.c.Indexes {
		m, err := st.manifestOf(&st.c.Indexes[i])
		if err != nil {
			return "", err
		}
		if suits(m) {
			name = st.c.Indexes[i].Name
			found++
		}
	}
	if found > 1 {
		return "", fmt.Errorf("%w: collection %q has the indexes %q, name one", ErrOption, st.c.Name, st.c.info().Indexes)
	}
	return name, nil
}

// Index describes an index.
//
// Errors: ErrNoCollection, ErrNoIndex, ErrCorrupt, ErrClosed.
func (s *Snapshot) Index(coll, name string) (info IndexInfo, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	st, err := s.collection(coll)
	if err != nil {
		return IndexInfo{}, err
	}
	r := st.c.index(name)
	if r == nil {
		return IndexInfo{}, noIndex(st.c, name)
	}
	m, err := st.manifestOf(r)
	if err != nil {
		return IndexInfo{}, err
	}
	return m.Info, nil
}

// Indexes describes the indexes of a collection, by name.
//
// Errors: ErrNoCollection, ErrCorrupt, ErrClosed.
func (s *Snapshot) Indexes(coll string) ([]IndexInfo, error) {
	st, err := s.collection(coll)
	if err != nil {
		return nil, err
	}
	var out []IndexInfo
	for _, r := range st.c.Indexes {
		info, err := s.Index(coll, r.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b IndexInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
