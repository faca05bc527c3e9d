package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// queryFeatures are the features of a query by number. Features that no row has ever had get
// numbers from the collection's Dim on; unknown has their names.
type queryFeatures struct {
	features vector.Sparse
	unknown  []string
}

// sparseQuery checks a query and returns its features by number.
func sparseQuery(ctx context.Context, st *state.Collection, q Query) (resolved queryFeatures, err error) {
	if err := st.Load(ctx); err != nil {
		return resolved, err
	}
	row := Row{Sparse: q.Sparse, Features: q.Features, Vector: q.Vector}
	if err := checkSparse(&row, st.Entry.Named); err != nil {
		return resolved, fail.Wrapf(err, "query to collection %q", st.Entry.Name)
	}
	if st.Entry.Named {
		return numberFeatures(st, q.Features)
	}
	resolved.features = q.Sparse
	for i := len(q.Sparse.Index) - 1; i >= 0 && int(q.Sparse.Index[i]) >= st.Entry.Dim; i-- {
		if q.Sparse.Value[i] != 0 {
			number := uint64(q.Sparse.Index[i]) + uint64(st.Entry.Numbering.First())
			resolved.unknown = append(resolved.unknown, fmt.Sprint(number))
		}
	}
	slices.Reverse(resolved.unknown)
	return resolved, nil
}

// numberFeatures maps named features to numbers. Unknown ones get numbers after the
// collection's, in the order of their names, so that sums do not depend on the order of the
// features.
func numberFeatures(st *state.Collection, features []Feature) (queryFeatures, error) {
	type pair struct {
		id    uint32
		value float32
	}
	pairs := make([]pair, 0, len(features))
	var unknown []Feature
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
		slices.SortFunc(unknown, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
		out.unknown = make([]string, len(unknown))
	}
	for i, f := range unknown {
		out.unknown[i] = f.Name
		pairs = append(pairs, pair{uint32(st.Entry.Dim + i), f.Value})
	}
	for _, p := range pairs {
		out.features.Index = append(out.features.Index, p.id)
		out.features.Value = append(out.features.Value, p.value)
	}
	return out, nil
}
