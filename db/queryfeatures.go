package db

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/vector"
)

// queryFeatures are the features of a query by number. Features that no row has ever had get
// numbers from the collection's Features on; unknown has their names.
type queryFeatures struct {
	features vector.Sparse
	unknown  []string
}

// resolveQuery replaces a key by the parts of its row, checks the parts, and sets the features by number.
func resolveQuery(ctx context.Context, st *state.Collection, a *rowAsk) error {
	if err := st.Load(ctx); err != nil {
		return err
	}
	q := &a.q
	features := q.Sparse.Len() > 0 || len(q.Features) > 0 || q.Text != ""
	if q.Key != nil {
		if q.Vector != nil || features {
			return fmt.Errorf("%w: a query with a key and a vector or features", fail.Option)
		}
		return likeRow(st, a)
	}
	c := st.Entry
	a.byVector, a.byFeatures = q.Vector != nil || !c.Sparse, features || c.Dim == 0
	if !a.byVector && !a.byFeatures {
		return fmt.Errorf("%w: the query to collection %q has neither a vector nor a text or features",
			fail.Option, c.Name)
	}
	if err := checkParts(&Row{Vector: q.Vector, Sparse: q.Sparse, Features: q.Features, Text: q.Text},
		c); err != nil {
		return fail.Wrapf(err, "query to collection %q", c.Name)
	}
	if a.byVector {
		if err := kind.CheckQuery(q.Vector, c.Dim); err != nil {
			return fail.Wrapf(ofModel(err, c), "query to collection %q", c.Name)
		}
	}
	if !a.byFeatures {
		return nil
	}
	switch {
	case c.Text != nil:
		return textQuery(st, a)
	case c.Named:
		var err error
		a.features, err = numberFeatures(st, q.Features)
		return err
	}
	a.features = numberedFeatures(st, q.Sparse)
	return nil
}

// likeRow makes the row with the key of the query the query.
func likeRow(st *state.Collection, a *rowAsk) error {
	row, exists, err := st.FindUnexpired(a.q.Key)
	if err == nil && !exists {
		err = txn.NotFound(st.Entry.Name, a.q.Key)
	}
	if err != nil {
		return fail.Wrapf(err, "query like a stored row")
	}
	r, err := st.ReadVector(row)
	if err != nil {
		return err
	}
	if !bytes.Equal(r.Key, a.q.Key) {
		return fail.Corruptf(st.Entry.Name, "key %q points to row %d of key %q", a.q.Key, row, r.Key)
	}
	a.q, a.self, a.stored = Query{Vector: r.Vector}, row, true
	a.byVector = r.Vector != nil
	a.byFeatures = st.Entry.Sparse && (r.Sparse.Len() > 0 || !a.byVector)
	a.features.features = r.Sparse
	return nil
}

// numberedFeatures finds the features of a query that no row has ever had.
func numberedFeatures(st *state.Collection, x vector.Sparse) queryFeatures {
	out := queryFeatures{features: x}
	for i := len(x.Index) - 1; i >= 0 && int(x.Index[i]) >= st.Entry.Features; i-- {
		if x.Value[i] != 0 {
			number := uint64(x.Index[i]) + uint64(st.Entry.Numbering.First())
			out.unknown = append(out.unknown, fmt.Sprint(number))
		}
	}
	slices.Reverse(out.unknown)
	return out
}

// numberFeatures maps named features to numbers. Unknown ones get numbers after the
// collection's, in the order of their names, so that sums do not depend on the order of the
// features.
func numberFeatures(st *state.Collection, features []vector.Feature) (queryFeatures, error) {
	type pair struct {
		id    uint32
		value float32
	}
	pairs := make([]pair, 0, len(features))
	var unknown []vector.Feature
	for _, f := range features {
		id, ok, err := st.FeatureNumber(f.Name)
		switch {
		case err != nil:
			return queryFeatures{}, err
		case ok:
			pairs = append(pairs, pair{id, f.Value})
		case f.Value != 0:
			unknown = append(unknown, f)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.id, b.id) })
	var out queryFeatures
	if len(unknown) > 0 {
		slices.SortFunc(unknown, func(a, b vector.Feature) int { return cmp.Compare(a.Name, b.Name) })
		out.unknown = make([]string, len(unknown))
	}
	for i, f := range unknown {
		out.unknown[i] = f.Name
		pairs = append(pairs, pair{uint32(st.Entry.Features + i), f.Value})
	}
	for _, p := range pairs {
		out.features.Index = append(out.features.Index, p.id)
		out.features.Value = append(out.features.Value, p.value)
	}
	return out, nil
}
