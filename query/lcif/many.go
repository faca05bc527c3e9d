package lcif

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// Scanner is implemented by sources of neighbors that may compare a query with all rows. A tuner has
// thousands of queries: it compares blocks of them with blocks of rows that stay in the caches, many times
// as fast.
type Scanner interface {
	NeighborSource
	// Scanned returns the rows that are compared: scaled ones by cosine, others by the view's metric. It is
	// nil if the source does not scan, or by inner product.
	Scanned() *ScaledNeighbors
}

// Scanned implements Scanner.
func (n *ScaledNeighbors) Scanned() *ScaledNeighbors { return n }

const (
	scanBlock = 1 << 16 // rows that are copied at a time
	scanSpare = 14      // neighbors beyond k whose cosines are compared as searches do
)

// euclidean reports whether the nearest are those by Euclidean distance, not by cosine.
func (n *ScaledNeighbors) euclidean() bool { return n.Scaling == nil && n.View.Metric == vector.L2 }

// vector returns the vector of a row as it is compared, in the memory of dst or read-only.
func (n *ScaledNeighbors) vector(row uint32, dst []float32) []float32 {
	x := n.View.Rows.Vector(int(row), dst)
	if n.Scaling != nil {
		x = n.Scaling.Apply(dst[:0], x)
	}
	return x
}

// rows returns the numbers of the rows that may be neighbors.
func (n *ScaledNeighbors) rows() (out []uint32) {
	for row := range uint32(n.View.Rows.N) {
		if n.finds(row) {
			out = append(out, row)
		}
	}
	return out
}

// unitRows are vectors, divided by their lengths for the nearest by cosine.
type unitRows struct {
	n, dim int
	raw    bool
	of     func(i int, buf []float32) []float32 // nil if there is no vector
}

func (u *unitRows) Len() int { return u.n }

func (u *unitRows) Dim() int { return u.dim }

// Row implements labels.Rows. A vector without a length becomes one that is farther from all units than
// these are from each other.
func (u *unitRows) Row(i int, buf []float32) []float32 {
	x := u.of(i, buf)
	if u.raw && x != nil {
		return x
	}
	buf = buf[:u.dim]
	factor := vector.InverseNorm(x)
	if factor-factor != 0 || factor == 0 {
		clear(buf)
		buf[0] = 4
		return buf
	}
	for j, v := range x {
		buf[j] = v * factor
	}
	return buf
}

// many returns the k nearest rows of each of n queries, nearest first, with their cosines as similarities.
// A query without a vector has none. A list may end with other rows than that of a search if their cosines
// are equal but for rounding errors.
func (n *ScaledNeighbors) many(
	ctx context.Context, queries int, query func(i int, buf []float32) []float32, k, workers int,
	progress func(done, total int),
) ([][]postings.Hit, error) {
	found := make([][]postings.Hit, queries)
	if queries == 0 {
		return found, nil
	}
	all, dim, raw := n.rows(), n.View.Dim, n.euclidean()
	for from := 0; from < len(all); from += scanBlock {
		block := all[from:min(from+scanBlock, len(all))]
		of := func(i int, buf []float32) []float32 { return n.vector(block[i], buf) }
		near, err := labels.ExactNeighbors(ctx, &unitRows{len(block), dim, raw, of},
			&unitRows{queries, dim, raw, query}, k+scanSpare, workers, func(done, total int) {
				progress((from*total+len(block)*done)/len(all), total)
			})
		if err != nil {
			return nil, err
		}
		err = eachRow(ctx, queries, workers, nil, func() func(int) error {
			w := scorer{of: n, q: make([]float32, dim), x: make([]float32, dim)}
			return func(i int) error {
				if q := query(i, w.q); q != nil {
					found[i] = w.add(found[i], q, block, near.Row(i), k)
				}
				return nil
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// scorer is the memory of a goroutine that compares rows with a query.
type scorer struct {
	of   *ScaledNeighbors
	q, x []float32
	near []vector.Neighbor
}

// add returns the k best of hits and of the rows of a block whose positions are in near.
func (w *scorer) add(hits []postings.Hit, q []float32, block, near []uint32, k int) []postings.Hit {
	w.near = w.near[:0]
	for _, h := range hits {
		w.near = append(w.near, vector.Neighbor{ID: h.Row})
	}
	for _, at := range near {
		w.near = append(w.near, vector.Neighbor{ID: block[at]})
	}
	distance, euclidean := vector.CosineDistance, w.of.euclidean()
	if euclidean {
		distance = vector.L2Squared
	}
	for i := range w.near {
		w.near[i].Distance = distance(q, w.of.vector(w.near[i].ID, w.x))
	}
	slices.SortFunc(w.near, func(a, b vector.Neighbor) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
	})
	hits = hits[:0]
	for _, f := range w.near[:min(k, len(w.near))] {
		if euclidean {
			f.Distance = vector.CosineDistance(q, w.of.vector(f.ID, w.x))
		}
		hits = append(hits, postings.Hit{Row: f.ID, Score: Similarity(f.Distance)})
	}
	return hits
}
