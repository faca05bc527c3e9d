package lcif

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// denseRows holds n rows of d coordinates.
type denseRows struct {
	data []float32
	n, d int
}

func (m *denseRows) row(i int) []float32 { return m.data[i*m.d : (i+1)*m.d] }

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

// plainScan finds neighbors among the first n rows by their cosine.
func plainScan(m *denseRows, n int) *ScaledNeighbors {
	v := &query.View{Dim: m.d, Rows: query.RowSet{N: n, Dim: m.d}}
	for i := range n {
		v.Rows.Tail = append(v.Rows.Tail, codec.Bytes(m.row(i)))
	}
	same := &Scaling{make([]float32, m.d), slices.Repeat([]float32{1}, m.d)}
	return &ScaledNeighbors{View: v, Scaling: same}
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
