package forestindex

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// unguarded is a source of rows in memory.
type unguarded struct{ kind.Source }

func (unguarded) Guard(bool, *error) {}

// viewOf returns a view of the rows, without an index.
func viewOf(metric vector.Metric, rows [][]float32) *query.View {
	v := &query.View{Metric: metric, Dim: len(rows[0]), Segment: query.Segment{N: len(rows)}, LiveCount: len(rows)}
	v.Rows.N, v.Rows.Dim = len(rows), v.Dim
	for _, x := range rows {
		var b []byte
		for _, y := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(y))
		}
		v.Rows.Tail = append(v.Rows.Tail, b)
	}
	return v
}

// TestProbesStayExact inserts and deletes rows at random and compares the answers of the probes with
// the nearest rows.
func TestProbesStayExact(t *testing.T) {
	const n, most, dim, k = 300, 900, 3, 4
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		rng := rand.New(rand.NewPCG(1, uint64(metric)))
		rows := make([][]float32, most)
		for i := range rows {
			rows[i] = []float32{rng.Float32(), rng.Float32(), rng.Float32() - 0.5}
			if i > n && i%10 == 0 {
				rows[i] = rows[rng.IntN(20)] // equals a probe
			}
		}
		p := &probes{hidden: roaring.New()}
		for i := range uint32(20) {
			p.rows, p.truth = append(p.rows, i), append(p.truth, nil)
			p.hidden.Add(i)
		}
		deleted := roaring.New()
		for covered := n; ; {
			v := viewOf(metric, rows[:covered])
			v.Deleted, v.DeletedBits = deleted, kind.BitsOf(deleted, covered)
			hidden := p.hide(v)
			must(t, p.refresh(t.Context(), unguarded{}, hidden, k))
			p.compare(t, hidden, k)
			if covered == most {
				break
			}
			for range 25 {
				deleted.Add(uint32(rng.IntN(covered)))
			}
			next := min(most, covered+1+rng.IntN(80))
			v = viewOf(metric, rows[:next])
			v.Deleted, v.DeletedBits = deleted, kind.BitsOf(deleted, next)
			must(t, p.insert(t.Context(), unguarded{}, v, covered, next, k))
			for row := covered; row < next; row++ {
				equal := slices.ContainsFunc(rows[:20], func(x []float32) bool { return slices.Equal(x, rows[row]) })
				if equal != p.hidden.Contains(uint32(row)) && !deleted.Contains(uint32(row)) && metric == vector.L2 {
					t.Fatalf("row %d: equals a probe: %t, hidden: %t", row, equal, !equal)
				}
			}
			covered = next
		}
	}
}

// compare compares the answers with exact ones.
func (p *probes) compare(t *testing.T, v *query.View, k int) {
	t.Helper()
	for i, q := range p.queries(v) {
		got := p.truth[i]
		if len(got) < p.want(i, k) || len(got) > p.room(i, k) {
			t.Fatalf("probe %d has %d answers, want %d to %d", i, len(got), p.want(i, k), p.room(i, k))
		}
		near, _, err := query.NewSearcher().Search(t.Context(), v, q,
			&query.Params{K: len(got), Method: query.Flat}, nil)
		must(t, err)
		for j, x := range near {
			if x.ID != got[j] {
				t.Fatalf("probe %d has row %d as answer %d, want %d", i, got[j], j, x.ID)
			}
		}
	}
}
