package lcif

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// denseRows holds n rows of d coordinates.
type denseRows struct {
	data []float32
	n, d int
}

func (m *denseRows) Len() int                         { return m.n }
func (m *denseRows) Dim() int                         { return m.d }
func (m *denseRows) Row(i int, _ []float32) []float32 { return m.row(i) }
func (m *denseRows) row(i int) []float32              { return m.data[i*m.d : (i+1)*m.d] }

// twelveClusters draws n rows of d coordinates around twelve centres; row i belongs to centre i mod 12.
func twelveClusters(n, d int, seed uint64) *denseRows {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := &denseRows{make([]float32, n*d), n, d}
	centres := make([]float64, 12*d)
	for i := range centres {
		centres[i] = 40 + 170*rng.Float64()
	}
	for i := range m.data {
		c := centres[i/d%12*d+i%d]
		m.data[i] = float32(c + 25*rng.NormFloat64()/math.Sqrt(float64(1+i%d%8)))
	}
	return m
}

// forestView returns a view of the first n rows with a forest, which is learned on the rows as
// they are, whatever the metric, so that only the flat and the zero-threshold method are valid.
func forestView(t testing.TB, m *denseRows, n int, metric vector.Metric) *query.View {
	t.Helper()
	ctx := context.Background()
	rows := &denseRows{m.data[:n*m.d], n, m.d}
	v := &query.View{Metric: metric, Dim: m.d, Segment: query.Segment{N: n, RawForest: true}, LiveCount: n}
	v.Rows = query.RowSet{N: n, Dim: m.d}
	for i := range n {
		row := rows.row(i)
		v.Rows.Tail = append(v.Rows.Tail, unsafe.Slice((*byte)(unsafe.Pointer(&row[0])), 4*m.d))
	}
	lists, err := labels.ExactNeighbors(ctx, rows, nil, 20, 2, nil)
	must(t, err)
	p := forest.Params{Kind: forest.RP, Trees: 8, Depth: 4, Natural: true, Seed: 1, LabelsK: 20}
	if v.Forest, err = forest.Learn(ctx, rows, n, lists, p, 2, nil); err != nil {
		t.Fatal(err)
	}
	must(t, v.Validate())
	return v
}

// selections returns the numbers of all rows, and a function that makes an inverted index of some.
func selections(t testing.TB, units *vector.CSR) (rows []int, build func(rows []int) *postings.Index) {
	for i := range units.Rows() {
		rows = append(rows, i)
	}
	return rows, func(rows []int) *postings.Index {
		t.Helper()
		ix, err := postings.Build(t.Context(), labels.SelectRows(units, rows), nil)
		must(t, err)
		return ix
	}
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
