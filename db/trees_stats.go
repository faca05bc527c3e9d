package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/trees/budget"
)

// TreeDecisions returns the mean number of decisions (annotations) that the queries take in the
// budgeted tree with the name index, the collection's only label model if empty. If there is
// one tree per class, the decisions in all trees are added up. It is 0 without queries.
// IndexInfo.Tree has the same number for the training rows, and the entropy that bounds it.
// workers is the number of goroutines, all processors when zero.
//
// Errors: those of Predict, with the number of the query; ErrKind for a label
// model of another kind.
func (s *Snapshot) TreeDecisions(
	ctx context.Context, coll string, queries []SparseQuery, index string, workers int,
) (float64, error) {
	if len(queries) == 0 {
		return 0, nil
	}
	counts := make([]int, len(queries))
	work := par.Work{N: len(queries), Grain: 8, Workers: workers}
	err := par.Each(ctx, work, func(i int) (err error) {
		counts[i], err = s.decisions(ctx, coll, queries[i], index)
		return atQuery(i, err)
	})
	if err != nil {
		return 0, fmt.Errorf("db: %w", err)
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / float64(len(queries)), nil
}

// decisions returns the number of decisions for one row.
func (s *Snapshot) decisions(
	ctx context.Context, coll string, q SparseQuery, index string,
) (n int, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	t, x, err := s.askedTree(ctx, coll, q, index)
	if err != nil {
		return 0, err
	}
	p := t.pool.Get().(*budget.Predictor)
	defer t.pool.Put(p)
	for tree := range t.model.Roots {
		_, steps := p.Leaf(x, tree)
		n += steps
	}
	return n, nil
}
