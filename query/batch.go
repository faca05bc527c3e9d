package query

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/vector"
)

// Answer is what Batch found for one query.
type Answer struct {
	Neighbors []vector.Neighbor
	Stats     Stats
	// Explanations explains each neighbour; nil unless Params.Explain is set.
	Explanations []*Explanation
}

// Batch searches for every query on the given number of goroutines (fewer than
// 1: all processors), each with its own Searcher. Element i answers queries[i]
// and does not depend on the number of goroutines. Errors: those of Search for
// the first query that fails, with its number; then there are no answers.
func Batch(ctx context.Context, v *View, queries [][]float32, p *Params, workers int) ([]Answer, error) {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	out := make([]Answer, len(queries))
	errs := make([]error, len(queries))
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range min(workers, len(queries)) {
		wg.Go(func() {
			s := NewSearcher()
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(queries) {
					return
				}
				if errs[i] = s.answer(ctx, v, queries[i], p, &out[i]); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
	}
	return out, nil
}

func (s *Searcher) answer(ctx context.Context, v *View, q []float32, p *Params, out *Answer) (err error) {
	if out.Neighbors, out.Stats, err = s.Search(ctx, v, q, p, nil); err != nil || !p.Explain {
		return err
	}
	for _, n := range out.Neighbors {
		e, err := s.ExplainLast(ctx, n.ID)
		if err != nil {
			return err
		}
		out.Explanations = append(out.Explanations, e)
	}
	return nil
}
