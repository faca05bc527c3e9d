package labels

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

const (
	// farSample is the largest number of rows in the first sample of Far, and farStep the least
	// number of rows for each row of a sample.
	farSample = 1 << 14
	farStep   = 16
	// farList is the number of nearest sampled rows, next to the anchor, that a sample has for a list.
	farList = 16
)

// FarRows holds candidates for the neighbor lists of some rows.
type FarRows struct {
	at  []uint32 // of each row the number of its list, or none
	ids []uint32 // farEach rows for each list
}

const (
	farEach = 2 * (farList + 1)
	none    = ^uint32(0)
)

// Of returns the candidates of a row, nil if it has none. A nil FarRows has none.
func (f *FarRows) Of(i int) []uint32 {
	if f == nil || f.at[i] == none {
		return nil
	}
	return f.ids[int(f.at[i])*farEach:][:farEach]
}

// Far returns candidates for the neighbor lists of rows that lead out of their neighborhood, for
// Diversify to choose from next to nearest rows, of which lists holds k for each row. Where rows form
// groups that are far from each other, lists of nearest rows do not connect them.
//
// Only some rows have candidates: the rows of a sample, at most 16,384 of them, have the nearest rows
// within the sample and within a sample of it, as in the upper layers of a hierarchical graph (Malkov and
// Yashunin 2020). A row from which lists do not lead to a sampled row has the candidates of the nearest
// sampled row. If all rows had candidates, a walk would read half as many rows more, which are in no
// cache: 2.5 times the time for a million rows at recall 0.98.
//
// The answer does not depend on workers; all processors when below 1. O(n·k·Dim + 2.7e8·Dim); each
// row that no path connects with a sampled one costs 16,384 distances. Errors: ErrShape, ErrInput, and
// the context's error.
func Far(ctx context.Context, rows Rows, lists []uint32, k, workers int) (*FarRows, error) {
	n := rows.Len()
	if k < 1 || len(lists) != n*k {
		return nil, fmt.Errorf("%w: %d entries in lists of %d for %d rows", ErrShape, len(lists), k, n)
	}
	near, err := newSample(ctx, rows, nil, workers)
	if err != nil {
		return nil, err
	}
	wide, err := newSample(ctx, rows, near.ids, workers)
	if err != nil {
		return nil, err
	}
	anchor, leads, err := near.anchors(ctx, rows, lists, k, workers)
	if err != nil {
		return nil, err
	}
	out := &FarRows{at: make([]uint32, n)}
	for i, at := range anchor {
		out.at[i] = none
		if leads[i] {
			out.at[i] = uint32(len(out.ids) / farEach)
			out.ids = near.appendList(out.ids, at, uint32(i))
			out.ids = wide.appendList(out.ids, wide.of[at], uint32(i))
		}
	}
	return out, ctx.Err()
}

// sample is a part of the rows with their nearest rows in it.
type sample struct {
	ids  []uint32
	near *Neighbors
	// of[i] is the position in ids of the sampled row nearest to from[i] (newSample). It is only set for a
	// sample of a sample.
	of []uint32
}

// newSample draws one of every farStep rows of from, of all rows if from is nil.
func newSample(ctx context.Context, rows Rows, from []uint32, workers int) (*sample, error) {
	n := len(from)
	if from == nil {
		n = rows.Len()
	}
	step := max(farStep, (n+farSample-1)/farSample)
	s := new(sample)
	rng := rand.New(rand.NewPCG(uint64(n), 0x666172))
	// One of each run of rows: neighboring numbers may be near rows.
	for at := 0; at < n; at += step {
		id := uint32(at + rng.IntN(min(step, n-at)))
		if from != nil {
			id = from[id]
		}
		s.ids = append(s.ids, id)
	}
	var err error
	if s.near, err = ExactNeighbors(ctx, chosen{rows, s.ids}, nil, farList+1, workers, nil); err != nil {
		return nil, err
	}
	if from != nil {
		var all *Neighbors
		if all, err = ExactNeighbors(ctx, chosen{rows, s.ids}, chosen{rows, from}, 1, workers, nil); err == nil {
			s.of = all.IDs
		}
	}
	return s, err
}

// appendList appends the list of the sampled row at a place, which begins with that row.
func (s *sample) appendList(out []uint32, at, row uint32) []uint32 {
	list := s.near.Row(int(at))
	for j := range farList + 1 {
		id := row
		if j < len(list) {
			id = s.ids[list[j]]
		}
		out = append(out, id)
	}
	return out
}

// anchors returns for each row the position of a near sampled row, its anchor, and selects the rows that
// have candidates: the sampled rows, and those from which lists do not lead to a sampled row. In each
// round, the anchor of a row becomes the nearest of its own and those of the rows on its list.
func (s *sample) anchors(ctx context.Context, rows Rows, lists []uint32, k, workers int) (
	anchor []uint32, leads []bool, err error) {
	n := rows.Len()
	anchor, leads = make([]uint32, n), make([]bool, n)
	for i := range anchor {
		anchor[i] = none
	}
	for at, id := range s.ids {
		anchor[id], leads[id] = uint32(at), true
	}
	for range anchorRounds {
		next := make([]uint32, n)
		err := par.Items(ctx, par.Work{N: n, Grain: 256, Workers: workers}, func() func(i int) error {
			a, b := make([]float32, rows.Dim()), make([]float32, rows.Dim())
			return func(i int) error {
				x := rows.Row(i, a)
				best, least, last := anchor[i], float32(0), none
				if best != none {
					least = vector.L2Squared(x, rows.Row(int(s.ids[best]), b))
				}
				for _, id := range lists[i*k : (i+1)*k] {
					at := anchor[id]
					if at == none || at == best || at == last {
						continue
					}
					last = at
					if d := vector.L2Squared(x, rows.Row(int(s.ids[at]), b)); best == none || d < least {
						best, least = at, d
					}
				}
				next[i] = best
				return nil
			}
		})
		if err != nil {
			return nil, nil, fmt.Errorf("labels: far candidates: %w", err)
		}
		anchor = next
	}
	var lost []uint32
	for i, at := range anchor {
		if at == none {
			lost = append(lost, uint32(i))
		}
	}
	if len(lost) == 0 {
		return anchor, leads, nil
	}
	found, err := ExactNeighbors(ctx, chosen{rows, s.ids}, chosen{rows, lost}, 1, workers, nil)
	if err != nil {
		return nil, nil, err
	}
	for i, row := range lost {
		anchor[row], leads[row] = found.IDs[i], true
	}
	return anchor, leads, nil
}

// anchorRounds is the number of rounds of sample.anchors: the largest number of steps along lists from a
// row to its anchor.
const anchorRounds = 4

// chosen are some rows of a set.
type chosen struct {
	Rows
	ids []uint32
}

func (c chosen) Len() int                           { return len(c.ids) }
func (c chosen) Row(i int, buf []float32) []float32 { return c.Rows.Row(int(c.ids[i]), buf) }
