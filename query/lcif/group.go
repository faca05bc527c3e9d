package lcif

import (
	"unsafe"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

const (
	// groupQueries is the number of queries that share one pass over the feature–label matrix;
	// fewer if their sums would exceed groupSums.
	groupQueries = 512
	groupSums    = 1 << 22
	leastGroup   = 16
	// groupCells is the number of cells of frequent features that are filled at once, at least
	// one strip of labels: they stay in the third-level cache, those of a strip in the
	// second-level cache.
	groupCells = 1 << 19
	// frequentShare defines frequent features: those with at least one in frequentShare labels,
	// for which adding a cell for every label is faster than adding entries.
	frequentShare = 12
)

// frequent reports whether feature f has entries for so many of the labels with any row that
// sums add it before other features: batches add cells of such features for all labels.
func frequent(m *labels.Powers, f uint32) bool { return m.Pairs(int(f)) >= leastFrequent(m) }

// leastFrequent returns the minimum number of entries of a frequent feature.
func leastFrequent(m *labels.Powers) int {
	labels := m.With
	if labels == 0 {
		labels = m.Labels()
	}
	return (labels + frequentShare - 1) / frequentShare
}

// groupSize returns the number of queries that share a pass for a number of labels.
func groupSize(labels int) int {
	return min(max(groupSums/max(labels, 1), leastGroup), groupQueries)
}

// shares reports whether queries lo to hi should share a pass: whether they have enough entries
// to give most of their labels a score. Otherwise summing the entries of each query is cheaper
// than a pass over all labels.
func shares(m *labels.Powers, queries *vector.CSR, lo, hi int) bool {
	entries, enough := 0, (hi-lo)*m.Labels()/4
	for _, f := range queries.Index[queries.Ptr[lo]:queries.Ptr[hi]] {
		if entries += m.Pairs(int(f)); entries > enough {
			return true
		}
	}
	return false
}

// featureGroup computes the feature scores of a group of queries (definition 8, Algorithm 5).
// Frequent features are expanded into rows of cells, one block of labels after the other; all
// queries that have a feature add its row by vector instructions. Every sum has the order of
// featureScores, so the scores have the same bits.
type featureGroup struct {
	powers   *labels.Powers
	tally    tally    // of the sums of one query
	place    []uint32 // place of a feature in features, plus one; zero for others
	features []groupFeature
	queries  []groupQuery
	row      []int     // starts of the cells of frequent features, query by query
	rowX     []float64 // values of these features
	rare     []groupRare
	cells    []float32 // one block of labels: a row for each frequent feature
	labels   int       // rounded up to complete strips
	sums     []float64 // sums of query i, by label, from i·labels on
}

// groupFeature is a feature of some query of a group, and its entries of later labels.
type groupFeature struct {
	feature    uint32
	row, patch vector.Sparse
}

// groupRare is a rare feature of a query and its weight.
type groupRare struct {
	feature uint32
	x       float64
}

// groupQuery holds the end of a query's features and the sum of its values.
type groupQuery struct {
	rows, rare int
	total      float64
}

// load loads queries lo to hi and sums their frequent features.
func (g *featureGroup) load(m *labels.Powers, queries *vector.CSR, lo, hi int) {
	g.powers = m
	g.take(queries, lo, hi)
	g.sums = room(g.sums, (hi-lo)*g.labels)
	clear(g.sums)
	strips := 0
	if n := len(g.features) * vector.RowCells; n > 0 {
		strips = min(max(groupCells/n, 1), g.labels/vector.RowCells)
		g.cells = room(g.cells, strips*n)
	}
	for first := 0; first < g.labels && strips > 0; first += strips * vector.RowCells {
		n := min(strips, (g.labels-first)/vector.RowCells)
		g.spread(first, n)
		for strip := range n {
			g.addStrip(strip, first+strip*vector.RowCells)
		}
	}
	for _, f := range g.features {
		g.place[f.feature] = 0
	}
}

// of returns the sums of query i by label and their divisor. The caller must still multiply the
// sums by Powers.Label, if that is set. It may be called once per query.
func (g *featureGroup) of(i int) (sum []float64, total float64) {
	sum = g.sums[i*g.labels : i*g.labels+g.powers.Labels()]
	q, rare := g.queries[i], 0
	if i > 0 {
		rare = g.queries[i-1].rare
	}
	g.tally.sum = sum
	a := adder{tally: &g.tally, raise: 1, dense: true}
	for _, r := range g.rare[rare:q.rare] {
		a.feature(g.powers, r.feature, r.x)
	}
	return sum, q.total
}

// take loads the queries.
func (g *featureGroup) take(queries *vector.CSR, lo, hi int) {
	m := g.powers
	if len(g.place) < m.Features() {
		g.place = make([]uint32, m.Features())
	}
	g.labels = (m.Labels() + vector.RowCells - 1) / vector.RowCells * vector.RowCells
	g.features, g.queries = g.features[:0], g.queries[:0]
	g.row, g.rowX, g.rare = g.row[:0], g.rowX[:0], g.rare[:0]
	least := leastFrequent(m)
	for i := lo; i < hi; i++ {
		q := queries.Row(i)
		for e, f := range q.Index {
			x := max(0, float64(q.Value[e]))
			pairs := m.Pairs(int(f))
			switch {
			case x == 0 || pairs == 0:
			case pairs < least:
				g.rare = append(g.rare, groupRare{f, weightOf(m, f, x, 1)})
			default:
				if g.place[f] == 0 {
					row, patch := m.Row(int(f))
					g.features = append(g.features, groupFeature{f, row, patch})
					g.place[f] = uint32(len(g.features))
				}
				g.row, g.rowX = append(g.row, int(g.place[f]-1)*vector.RowCells),
					append(g.rowX, weightOf(m, f, x, 1))
			}
		}
		g.queries = append(g.queries, groupQuery{len(g.row), len(g.rare), divisor(m, q)})
	}
}

// The first bytes of entries are prefetched in advance: there are too many features for the
// hardware prefetcher.
const (
	spreadAhead = 4
	spreadBytes = 256
)

// spread fills the rows of cells for strips of labels from first; the cells of a strip are
// adjacent.
func (g *featureGroup) spread(first, strips int) {
	rows := len(g.features) * vector.RowCells // number of cells of a strip
	clear(g.cells[:strips*rows])
	limit := uint32(first + strips*vector.RowCells)
	for i := range g.features {
		if next := i + spreadAhead; next < len(g.features) {
			if f := &g.features[next]; f.row.Len() > 0 {
				vector.Prefetch(unsafe.Pointer(&f.row.Index[0]), spreadBytes)
				vector.Prefetch(unsafe.Pointer(&f.row.Value[0]), spreadBytes)
			}
		}
		f := &g.features[i]
		cells := g.cells[i*vector.RowCells:]
		// Changed entries replace the original ones.
		for _, entries := range []*vector.Sparse{&f.row, &f.patch} {
			set, value := entries.Index, entries.Value
			n := 0
			for n < len(set) && set[n] < limit {
				at := int(set[n]) - first
				cells[at/vector.RowCells*rows+at%vector.RowCells] = value[n]
				n++
			}
			entries.Index, entries.Value = set[n:], value[n:]
		}
	}
}

// addStrip adds the cells of a strip, of labels from first, for all queries.
func (g *featureGroup) addStrip(strip, first int) {
	cells := g.cells[strip*len(g.features)*vector.RowCells:]
	from := 0
	for i, q := range g.queries {
		sum := g.sums[i*g.labels+first:]
		vector.AddRows(sum[:vector.RowCells], cells, g.row[from:q.rows], g.rowX[from:q.rows])
		from = q.rows
	}
}
