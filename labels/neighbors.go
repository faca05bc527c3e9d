package labels

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// ErrInput is returned for inputs that have no answer. For neighbours: no rows, k < 1, queries
// and corpus of different dimensions, or a coordinate that is NaN or infinite.
var ErrInput = errors.New("labels: bad input")

// Rows is a set of vectors of one dimension. Row returns vector i, either an internal slice or
// in buf. Calls with different buffers may run concurrently.
type Rows interface {
	Len() int
	Dim() int
	Row(i int, buf []float32) []float32
}

// Neighbors is a label matrix: for each of N queries its K nearest corpus rows, nearest first,
// ties by row number. Where the queries are the corpus, a row is its own first label.
type Neighbors struct {
	N, K  int
	IDs   []uint32  // N × K
	KDist []float32 // N: squared Euclidean distance of the K-th neighbour
}

// Row returns the labels of query i, nearest first.
func (n *Neighbors) Row(i int) []uint32 { return n.IDs[i*n.K : (i+1)*n.K] }

const (
	tileQueries = 64 // queries that share one pass over the corpus
	tileRows    = 96 // corpus rows per block, which stays in the second-level cache
	spare       = 14 // neighbours fetched beyond k, for exact rescoring
	epsilon     = 0x1p-23
	tiny        = 0x1p-146 // exceeds the error of a few sums whose products underflow
)

// ExactNeighbors computes the k nearest corpus rows of every query, by squared Euclidean
// distance as vector.L2Squared computes it, ties by row number. When queries is nil it computes
// those of every corpus row; a row is then the first in its own list. k is lowered to the size
// of the corpus. workers < 1 means all processors; the answer does not depend on it. progress
// may be nil.
//
// Distances are first computed by blocked matrix products, ‖q‖² + ‖c‖² − 2q·c, whose rounding
// error is bounded. The best k+14 rows are kept, rescored one by one, and accepted only if the
// bound proves that no other row can belong to the list. Queries without that proof are scanned
// directly, so the answer always equals brute force. O(n·m·d) time; memory for one copy of the
// corpus.
//
// Errors: ErrInput and the context's error.
func ExactNeighbors(ctx context.Context, corpus, queries Rows, k, workers int,
	progress func(done, total int)) (*Neighbors, error) {
	if corpus == nil || corpus.Len() == 0 || corpus.Dim() < 1 {
		return nil, fmt.Errorf("%w: empty corpus", ErrInput)
	}
	if k < 1 {
		return nil, fmt.Errorf("%w: k is %d", ErrInput, k)
	}
	self := queries == nil
	if self {
		queries = corpus
	}
	if queries.Dim() != corpus.Dim() {
		return nil, fmt.Errorf("%w: queries have %d coordinates, the corpus %d", ErrInput,
			queries.Dim(), corpus.Dim())
	}
	c, err := gather(ctx, corpus)
	if err != nil {
		return nil, err
	}
	k = min(k, c.n)
	out := &Neighbors{N: queries.Len(), K: k, IDs: make([]uint32, queries.Len()*k),
		KDist: make([]float32, queries.Len())}
	work := par.Work{N: out.N, Grain: tileQueries, Workers: workers, Progress: progress}
	err = par.Ranges(ctx, work, func() func(lo, hi int) error {
		w := newWorker(c, k, self)
		return func(lo, hi int) error { return w.tile(ctx, queries, lo, hi, out) }
	})
	if err != nil {
		return nil, fmt.Errorf("labels: exact neighbors: %w", err)
	}
	return out, nil
}

// matrix is the corpus in one slice with its squared norms.
type matrix struct {
	data  []float32
	norms []float32
	n, d  int
}

func (m *matrix) row(i int) []float32 { return m.data[i*m.d : (i+1)*m.d] }

// flat is implemented by rows that are already stored in one slice.
type flat interface{ Flat() []float32 }

func gather(ctx context.Context, rows Rows) (*matrix, error) {
	m := &matrix{n: rows.Len(), d: rows.Dim()}
	if f, ok := rows.(flat); ok && len(f.Flat()) == m.n*m.d {
		m.data = f.Flat()
	} else {
		m.data = make([]float32, m.n*m.d)
		for i := range m.n {
			if i%4096 == 0 && ctx.Err() != nil {
				return nil, fmt.Errorf("labels: read rows: %w", ctx.Err())
			}
			copy(m.row(i), rows.Row(i, m.row(i)))
		}
	}
	m.norms = make([]float32, m.n)
	for i := range m.n {
		if err := finite("row", i, m.row(i)); err != nil {
			return nil, err
		}
		m.norms[i] = vector.Dot(m.row(i), m.row(i))
	}
	return m, nil
}

// finite returns an error for coordinates that are NaN or infinite.
func finite(what string, i int, x []float32) error {
	if j := vector.IsFinite(x); j >= 0 {
		return fmt.Errorf("%w: coordinate %d of %s %d is %v", ErrInput, j, what, i, x[j])
	}
	return nil
}

// worker is one goroutine's scratch.
type worker struct {
	c     *matrix
	k     int
	self  bool
	q     []float32
	norms []float32
	dots  []float32
	best  []*vector.TopK
	exact *vector.TopK
	list  []vector.Neighbor
	worst float32 // largest corpus norm
}

func newWorker(c *matrix, k int, self bool) *worker {
	w := &worker{c: c, k: k, self: self, exact: vector.NewTopK(k)}
	w.q = make([]float32, tileQueries*c.d)
	w.norms = make([]float32, tileQueries)
	w.dots = make([]float32, tileQueries*tileRows)
	for range tileQueries {
		w.best = append(w.best, vector.NewTopK(min(k+spare, c.n)))
	}
	for _, v := range c.norms {
		w.worst = max(w.worst, v)
	}
	return w
}

// tile answers queries [lo, hi).
func (w *worker) tile(ctx context.Context, queries Rows, lo, hi int, out *Neighbors) error {
	c, nq := w.c, hi-lo
	for i := range nq {
		q := w.q[i*c.d : (i+1)*c.d]
		copy(q, queries.Row(lo+i, q))
		if err := finite("query", lo+i, q); err != nil {
			return err
		}
		w.norms[i] = vector.Dot(q, q)
		w.best[i].Reset(min(w.k+spare, c.n))
	}
	for at := 0; at < c.n; at += tileRows {
		if at%(64*tileRows) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		nr := min(tileRows, c.n-at)
		vector.DotTile(w.q, nq, c.data[at*c.d:], nr, c.d, w.dots)
		norms := c.norms[at : at+nr]
		for i := range nq {
			best, qn := w.best[i], w.norms[i]
			limit := best.Threshold()
			for j, dot := range w.dots[i*nr : (i+1)*nr] {
				if d := qn + norms[j] - 2*dot; d <= limit {
					best.Push(uint32(at+j), d)
					limit = best.Threshold()
				}
			}
		}
	}
	for i := range nq {
		w.finalize(w.q[i*c.d:(i+1)*c.d], w.norms[i], w.best[i], lo+i, out)
	}
	return nil
}

// finalize rescores the kept rows exactly and checks the proof. The error of an estimated
// distance is at most slack, and so is that of the kernel's own sum (relative rounding, and the
// loss of products that underflow). A row that was not kept had an estimate of at least the
// worst kept one, so its kernel distance is at least that minus 2·slack.
func (w *worker) finalize(q []float32, qn float32, best *vector.TopK, row int, out *Neighbors) {
	c := w.c
	limit := best.Threshold()
	w.list = best.Append(w.list[:0])
	slack := float64(c.d+8) * (4*epsilon*float64(qn+w.worst) + tiny)
	w.exact.Reset(w.k)
	for _, n := range w.list {
		w.push(q, n.ID, row)
	}
	// The comparison is written so that an overflow to infinity or NaN fails the proof.
	if proved := float64(w.exact.Threshold()) < float64(limit)-2*slack; len(w.list) < c.n && !proved {
		w.exact.Reset(w.k)
		for i := range c.n {
			w.push(q, uint32(i), row)
		}
	}
	w.list = w.exact.Append(w.list[:0])
	for j, n := range w.list {
		out.IDs[row*w.k+j] = n.ID
	}
	out.KDist[row] = max(0, w.list[len(w.list)-1].Distance)
}

// push offers a row with its kernel distance. A row is nearer to itself than its duplicates
// are, whatever their numbers.
func (w *worker) push(q []float32, id uint32, row int) {
	d := vector.L2Squared(q, w.c.row(int(id)))
	if w.self && int(id) == row {
		d = float32(math.Inf(-1))
	}
	w.exact.Push(id, d)
}
