package lcif

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// oneByOne is a source that does not say that it scans.
type oneByOne struct{ NeighborSource }

// Searches of blocks of queries find what searches of one query find: among some rows, with rows that are
// equal or have no length, queries without a vector, and more rows than are copied at a time.
func TestManyNeighbors(t *testing.T) {
	for _, n := range []int{9, 500, scanBlock + 100} {
		m := twelveClusters(n, 8, 3)
		for i, x := range m.data { // as features
			m.data[i] = max(x, 0)
		}
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		for i := range n / 4 {
			copy(m.row(rng.IntN(n)), m.row(i))
			clear(m.row(rng.IntN(n)))
		}
		scan := plainScan(m, n)
		scan.View.Deleted = roaring.BitmapOf(3, 7)
		scan.Only = roaring.New()
		for i := range uint32(n) {
			if i%5 > 0 {
				scan.Only.Add(i)
			}
		}
		rows, queries := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.d}, []int{0, n - 1}
		for i := range n {
			rows.Append(sparse(m.row(i)))
		}
		for range 20 {
			queries = append(queries, rng.IntN(n))
		}
		index, err := postings.Build(t.Context(), UnitRows(rows, &View{Features: m.d}), nil)
		must(t, err)
		vectorOf := func(row uint32, _ []float32) []float32 {
			if row%3 == 0 {
				return nil
			}
			return m.row(int(row))
		}
		both := func(vectors NeighborSource) *View {
			v := &View{Features: m.d, Vector: vectorOf, Row: func(i uint32) vector.Sparse { return row(rows, int(i)) }}
			features := &PostingsNeighbors{Segments: []postings.Segment{{Index: index}}}
			v.Neighbors = &BothNeighbors{features.Among(scan.Only), vectors, 0.4, v}
			return v
		}
		for _, views := range [][2]*View{
			{{Features: m.d, Neighbors: scan}, {Features: m.d, Neighbors: oneByOne{scan}}},
			{both(withVectors{scan}), both(oneByOne{withVectors{scan}})},
		} {
			var found [2][][]near
			for i, v := range views {
				p := &Part{View: v, Queries: labels.SelectRows(rows, queries), Rows: queries}
				last := 0
				found[i], err = neighborLists(t.Context(), p, UnitRows(p.Queries, v), 40, 2,
					func(done, _ int) { last = done })
				must(t, err)
				if last != len(queries) {
					t.Errorf("%d rows: %d of %d queries are reported", n, last, len(queries))
				}
			}
			for i := range queries {
				for j := range found { // others have no weight
					found[j][i] = slices.DeleteFunc(found[j][i], func(x near) bool { return x.sim == 0 })
				}
				if !slices.Equal(found[0][i], found[1][i]) {
					t.Fatalf("%d rows, query %d: %v, one by one %v", n, queries[i], found[0][i], found[1][i])
				}
			}
		}
	}
}

// A query with a coordinate that rows do not have is refused, as by a search.
func TestManyNeighborsDimension(t *testing.T) {
	m := twelveClusters(20, 4, 1)
	v := &View{Features: 5, Neighbors: plainScan(m, m.n)}
	q := &vector.CSR{Ptr: []uint64{0, 1}, Index: []uint32{4}, Value: []float32{1}, Cols: 5}
	_, err := neighborLists(t.Context(), &Part{View: v, Queries: q}, UnitRows(q, v), 3, 1, func(int, int) {})
	if !errors.Is(err, query.ErrDimension) {
		t.Fatal(err)
	}
}

// withVectors compares the vectors of queries, not their features.
type withVectors struct{ *ScaledNeighbors }

func (w withVectors) Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	dst []postings.Hit) ([]postings.Hit, error) {
	if q.Vector == nil {
		return dst, nil
	}
	q.Raw = sparse(q.Vector)
	return w.ScaledNeighbors.Neighbors(ctx, s, q, k, dst)
}

// Rows that are not scaled are compared by the metric of their view.
func TestManyNeighborsByMetric(t *testing.T) {
	const n, k = 300, 25
	m := twelveClusters(n, 6, 8)
	for metric, distance := range map[vector.Metric]func(a, b []float32) float32{
		vector.L2: vector.L2Squared, vector.Cosine: vector.CosineDistance,
	} {
		scan := plainScan(m, n)
		scan.View.Metric, scan.Scaling = metric, nil
		found, err := scan.many(t.Context(), n, func(i int, _ []float32) []float32 { return m.row(i) }, k, 1,
			func(int, int) {})
		must(t, err)
		for i, hits := range found {
			best := vector.NewTopK(k)
			for row := range n {
				best.Push(uint32(row), distance(m.row(i), m.row(row)))
			}
			for j, b := range best.Append(nil) {
				cosine := Similarity(vector.CosineDistance(m.row(i), m.row(int(b.ID))))
				if hits[j].Row != b.ID || math.Abs(hits[j].Score-cosine) > 1e-6 {
					t.Fatalf("%v, row %d: neighbor %d is %v, want row %d with %v", metric, i, j, hits[j], b.ID, cosine)
				}
			}
		}
	}
}
