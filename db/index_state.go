package db

import (
	"cmp"
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
	once sync.Once
	err  error
	m    *manifest
	view *query.View
	// postings is the inverted index of a sparse collection.
	postings *postings.Index
	// model is the label model beside it, if there is one.
	model *labelModel
}

// manifestOf reads an index's manifest.
func (st *collState) manifestOf(r *indexRef) (*manifest, error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketMeta).Get(key[:]) })
	if v == nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, errors.New("block is missing"))
	}
	payload, err := decodeBlock(st.c.Name, key[:], v, true)
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", r.Name, err)
	}
	m, err := decodeManifest(payload)
	if err != nil {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, fmt.Errorf("index %q: %w", r.Name, err))
	}
	if m.Object != r.Object || m.Info.Name != r.Name || m.Info.Rows > int(st.c.Rows) || (m.Sparse != nil) != st.c.Sparse || !st.c.Sparse && m.Dim != st.c.Dim || m.Metric != st.c.Metric {
		return nil, blockError(st.c.Name, r.Object, codec.KindManifest, 0, fmt.Errorf("index %q: manifest of another index", r.Name))
	}
	return m, nil
}

// index is the loaded state of the named index.
func (st *collState) index(r *indexRef) (*indexState, error) {
	st.indexMu.Lock()
	x := st.indexes[r.Name]
	if x == nil {
		x = &indexState{}
		st.indexes[r.Name] = x
	}
	st.indexMu.Unlock()
	x.once.Do(func() { x.err = st.loadIndex(r, x) })
	return x, x.err
}

func (st *collState) loadIndex(r *indexRef, x *indexState) (err error) {
	defer guard(st.g.store, setFaults(), &err)
	if x.m, err = st.manifestOf(r); err != nil {
		return err
	}
	if st.c.Sparse {
		if x.postings, err = st.loadPostings(x.m); err == nil && x.m.LCIF != nil {
			x.model, err = st.loadLCIF(x.m, x.postings)
		}
		return err
	}
	base, err := st.rows()
	if err != nil {
		return err
	}
	x.view, err = st.loadView(x.m, *base)
	return err
}

// target is what a search asks: an index, or the rows themselves.
func (st *collState) target(name string) (*query.View, *manifest, error) {
	if name == "" {
		switch len(st.c.Indexes) {
		case 0:
			name = Flat
		case 1:
			name = st.c.Indexes[0].Name
		default:
			return nil, nil, fmt.Errorf("%w: collection %q has the indexes %q, name one", ErrOption, st.c.Name, st.c.info().Indexes)
		}
	}
	if name == Flat {
		v, err := st.rows()
		return v, nil, err
	}
	r := st.c.index(name)
	if r == nil {
		return nil, nil, noIndex(st.c, name)
	}
	x, err := st.index(r)
	if err != nil {
		return nil, nil, err
	}
	return x.view, x.m, nil
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
