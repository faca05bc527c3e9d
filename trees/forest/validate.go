package forest

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/internal/par"
)

// leafSet holds the label tables, or the member lists, of all leaves.
type leafSet struct {
	chunks       [][]byte
	dir          []uint32
	trees, depth int
	corpusN      int
	weights      bool // label tables
	points       int  // for label tables: training points in the leaves of each tree
}

// place is the position of a byte in the leaf chunks.
type place struct{ chunk, off int }

func (p place) before(q place) bool { return p.chunk < q.chunk || p.chunk == q.chunk && p.off < q.off }

// leafRun is the summary of a run of leaves: the start and end of their blocks, and the
// points of each tree.
type leafRun struct {
	from, end place
	points    []int
}

func (s *leafSet) validate() error {
	leaves := s.trees << s.depth
	if len(s.dir) != leaves {
		return fmt.Errorf("%w: %d leaves in the directory, want %d", ErrInvalid, len(s.dir), leaves)
	}
	// The first use of an index waits for this, so all processors share the work.
	parts := min(par.Workers(0), 1+leaves/4096)
	runs := make([]leafRun, parts)
	err := par.Each(context.Background(), par.Work{N: parts}, func(p int) (err error) {
		runs[p], err = s.validateRun(p*leaves/parts, (p+1)*leaves/parts)
		return err
	})
	if err != nil {
		return err
	}
	points := make([]int, s.trees)
	var end place
	for p := range runs {
		run := &runs[p]
		if run.from.before(end) {
			return fmt.Errorf("%w: leaf %d begins before the end of the one before",
				ErrInvalid, p*leaves/parts)
		}
		end = run.end
		for t, n := range run.points {
			points[t] += n
		}
	}
	for t, n := range points {
		if s.weights && n != s.points {
			return fmt.Errorf("%w: tree %d: %d training points in the leaves, want %d", ErrInvalid, t, n, s.points)
		}
	}
	return nil
}

// validateRun validates the leaves [lo, hi), at least one.
func (s *leafSet) validateRun(lo, hi int) (leafRun, error) {
	run := leafRun{points: make([]int, s.trees)}
	for i := lo; i < hi; i++ {
		at := place{int(s.dir[i] >> 16), int(s.dir[i]&0xffff) * leafAlign}
		if at.chunk >= len(s.chunks) || at.off+leafHeader > len(s.chunks[at.chunk]) {
			return run, fmt.Errorf("%w: leaf %d is outside its chunk", ErrInvalid, i)
		}
		// Ordered blocks without overlap also keep this loop linear: otherwise a
		// directory could name one long block for every leaf.
		if at.before(run.end) {
			return run, fmt.Errorf("%w: leaf %d begins before the end of the one before", ErrInvalid, i)
		}
		if i == lo {
			run.from = at
		}
		b := block(s.chunks, s.dir[i])
		run.points[i>>s.depth] += int(b.points)
		var err error
		if b, err = s.validateBlock(i, b); err != nil {
			return run, err
		}
		run.end = place{at.chunk, len(s.chunks[at.chunk]) - len(b.rest)}
	}
	return run, nil
}

// validateBlock validates a leaf's block and returns the iterator at its end.
func (s *leafSet) validateBlock(leaf int, b LeafBlock) (LeafBlock, error) {
	if b.weights != s.weights {
		return b, fmt.Errorf("%w: leaf %d: weights %v, want %v", ErrInvalid, leaf, b.weights, s.weights)
	}
	c := blockCheck{leaf: leaf, most: int64(b.points), last: -1}
	for left := b.segments; left > 0; left-- {
		hi, low, weights, ok := b.Next()
		if !ok {
			return b, fmt.Errorf("%w: leaf %d exceeds its chunk", ErrInvalid, leaf)
		}
		if len(low) == 0 {
			return b, fmt.Errorf("%w: leaf %d has an empty segment", ErrInvalid, leaf)
		}
		if err := c.segment(int64(hi)<<16, low, weights); err != nil {
			return b, err
		}
	}
	// Labels ascend, so the last is the largest.
	if c.last >= int64(s.corpusN) {
		return b, fmt.Errorf("%w: leaf %d: label %d in a corpus of %d", ErrInvalid, leaf, c.last, s.corpusN)
	}
	if !s.weights && c.entries != int(b.points) {
		return b, fmt.Errorf("%w: leaf %d lists %d rows, want %d", ErrInvalid, leaf, c.entries, b.points)
	}
	return b, nil
}

// blockCheck checks the entries of a block.
type blockCheck struct {
	leaf    int
	most    int64 // largest number of votes that a label may have
	last    int64 // the last label, -1 before the first
	votes   int64 // votes of the last label so far
	entries int
}

// segment checks the labels base + low[i]; there is at least one. In almost
// all segments labels ascend strictly and no weight exceeds the limit, which ascending
// and within check without a branch per entry.
func (c *blockCheck) segment(base int64, low []uint16, weights []uint8) error {
	c.entries += len(low)
	first, final := base|int64(low[0]), base|int64(low[len(low)-1])
	if first > c.last && ascending(low) && (weights == nil || within(weights, c.most)) {
		c.last = final
		if weights != nil {
			c.votes = int64(weights[len(weights)-1])
		}
		return nil
	}
	for i, l := range low {
		label, n := base|int64(l), int64(1)
		if weights != nil {
			n = int64(weights[i])
		}
		switch {
		case label > c.last:
			c.votes = n
		case label == c.last && weights != nil && c.votes%maxWeight == 0:
			c.votes += n // the next entry of a label with many votes
		default:
			return fmt.Errorf("%w: leaf %d: label %d after %d", ErrInvalid, c.leaf, label, c.last)
		}
		if n == 0 || weights != nil && c.votes > c.most {
			return fmt.Errorf("%w: leaf %d of %d points: label %d has %d votes",
				ErrInvalid, c.leaf, c.most, label, c.votes)
		}
		c.last = label
	}
	return nil
}

// ascending reports whether labels ascend strictly.
func ascending(low []uint16) bool {
	bad, last := int32(0), int32(-1)
	for _, l := range low {
		bad |= int32(l) - last - 1
		last = int32(l)
	}
	return bad >= 0
}

// within reports whether all weights are 1 to most.
func within(weights []uint8, most int64) bool {
	bad, top := int32(0), int32(min(most, maxWeight))
	for _, w := range weights {
		bad |= (int32(w) - 1) | (top - int32(w))
	}
	return bad >= 0
}
