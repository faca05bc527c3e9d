package db

import (
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
)

// labelLists are the labels of the rows that a forest was learned from, as
// maintenance needs them: K row numbers each, the row itself first, and behind
// them the bits of the squared distance within which the list is complete.
type labelLists struct {
	k      int
	shift  uint
	chunks [][]uint32
}

// of is the list of a row, with the padding, and its reach.
func (l *labelLists) of(row uint32) (ids []uint32, reach float32) {
	w := l.k + 1
	at := int(row) & (1<<l.shift - 1) * w
	x := l.chunks[row>>l.shift][at : at+w]
	return x[:l.k], math.Float32frombits(x[l.k])
}

// putList writes a list of up to k rows to dst, filled up with its first one.
func putList(dst []uint32, ids []uint32, reach float32) {
	k := len(dst) - 1
	n := copy(dst[:k], ids)
	for ; n < k; n++ {
		dst[n] = ids[0]
	}
	dst[k] = math.Float32bits(reach)
}

// listsOf are the label lists of all rows of a training set whose points are
// its rows; deleted rows have only themselves.
func listsOf(t *training) (lists []uint32, k int) {
	k = t.labels.K
	lists = make([]uint32, t.total()*(k+1))
	for row := range t.total() {
		putList(lists[row*(k+1):(row+1)*(k+1)], []uint32{uint32(row)}, 0)
	}
	for i := range t.corpus.Len() {
		row := int(t.corpus.id(i))
		putList(lists[row*(k+1):(row+1)*(k+1)], t.labels.Row(i), t.labels.KDist[i])
	}
	return lists, k
}

// loadLists views the label lists of a forest; nil without any.
func (st *collState) loadLists(m *manifest) (*labelLists, error) {
	if m.ListK == 0 {
		return nil, nil
	}
	r := &sections{st: st, object: m.Object, index: m.Info.Name, runs: m.Runs}
	parts := r.all(codec.KindLists)
	r.need(covers(parts, m.Info.Rows, 4*(m.ListK+1), m.ListShift), "label lists do not cover the rows")
	l := &labelLists{k: m.ListK, shift: m.ListShift}
	for i := range parts {
		l.chunks = append(l.chunks, array[uint32](r, parts, i, len(parts[i])/4))
	}
	for row := uint32(0); r.err == nil && row < uint32(m.Info.Rows); row++ {
		ids, reach := l.of(row)
		ok := ids[0] == row && reach >= 0
		for _, id := range ids {
			ok = ok && int(id) < m.Info.Rows
		}
		r.need(ok, "label lists name rows that are not there")
	}
	return l, r.err
}

// patch is rows of width numbers that are changed, and added to, chunk by
// chunk. Chunks that no one touches stay where they are.
type patch[T codec.Number] struct {
	old   [][]T
	width int
	shift uint
	n     int // rows in the end
	fresh map[int][]T
}

func newPatch[T codec.Number](old [][]T, width int, shift uint, n int) *patch[T] {
	return &patch[T]{old: old, width: width, shift: shift, n: n, fresh: map[int][]T{}}
}

// row is a row to be written to.
func (p *patch[T]) row(i int) []T {
	c := i >> p.shift
	x := p.fresh[c]
	if x == nil {
		x = make([]T, min(1<<p.shift, p.n-c<<p.shift)*p.width)
		if c < len(p.old) {
			copy(x, p.old[c])
		}
		p.fresh[c] = x
	}
	at := i & (1<<p.shift - 1) * p.width
	return x[at : at+p.width]
}

// chunks is how many chunks there are in the end.
func (p *patch[T]) chunks() int { return (p.n + 1<<p.shift - 1) >> p.shift }

// rowInSpace copies a row of a view into the space in which its index
// partitions, as prepare does for those it is built from.
func rowInSpace(v *query.View, row int, x []float32) {
	d := v.Dim
	if src := v.Rows.Vector(row, x[:d]); &src[0] != &x[0] {
		copy(x, src)
	}
	spaced(v, x)
}
