package forestindex

import (
	"context"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// labelLists holds, for every row that a forest was learned from, the squared distance of its
// farthest label: a nearer row becomes a label of the row. Maintenance needs nothing else, so a
// list is the bits of that distance.
type labelLists struct {
	shift  uint
	chunks [][]uint32
}

// reach returns the squared distance within which other rows are labels of a row.
func (l *labelLists) reach(row uint32) float32 {
	return math.Float32frombits(l.chunks[row>>l.shift][int(row)&(1<<l.shift-1)])
}

// listsOf returns the label lists of all rows of a training set whose points are its rows.
// Deleted rows have distance 0. A row with fewer labels than labelsK has an infinite distance,
// because all rows are its labels.
func listsOf(t *training, labelsK int) []uint32 {
	lists := make([]uint32, t.total())
	var a, b []float32
	for i := range t.corpus.Len() {
		row, reach := t.corpus.id(i), float32(math.Inf(1))
		switch list := t.labels.Row(i); {
		case labelsK < len(list):
			a, b = t.corpus.rows.Row(int(row), a), t.corpus.rows.Row(int(list[labelsK-1]), b)
			reach = vector.L2Squared(a, b)
		case labelsK == len(list):
			reach = t.labels.KDist[i]
		}
		lists[row] = math.Float32bits(reach)
	}
	return lists
}

// loadLists returns a view of the label lists of a forest, nil if it has none.
func loadLists(ctx context.Context, st kind.Source, m *kind.Manifest) (*labelLists, error) {
	d := detailOf(m)
	if !d.Lists {
		return nil, nil
	}
	r := st.Arrays(ctx, m.Info.Name, m.Object)
	r.Runs = d.Runs
	l := &labelLists{shift: d.ListShift,
		chunks: arrays.ReadRows[uint32](r, codec.KindLists, m.Info.Rows, 1, d.ListShift)}
	for row := uint32(0); r.Err == nil && row < uint32(m.Info.Rows); row++ {
		r.Need(l.reach(row) >= 0, "the distance of a row's farthest label is negative")
	}
	return l, r.Err
}

// patch holds changed and added rows of width numbers, by chunk. Unchanged chunks stay where
// they are stored.
type patch[T codec.Number] struct {
	stored int // chunks before the change
	width  int
	shift  uint
	n      int // rows after the change
	fresh  map[int][]T
	read   func(c int, rows []T) // copies a stored chunk
	write  func(w *arrays.Writer, section codec.Kind, c int, rows []T)
}

func newPatch[T codec.Number](old [][]T, width int, shift uint, n int) *patch[T] {
	return &patch[T]{stored: len(old), width: width, shift: shift, n: n, fresh: map[int][]T{},
		read: func(c int, rows []T) { copy(rows, old[c]) },
		write: func(w *arrays.Writer, section codec.Kind, c int, rows []T) {
			w.Block(section, uint32(c), arrays.ElemOf[T](), width, codec.Bytes(rows))
		}}
}

// row returns row i for writing.
func (p *patch[T]) row(i int) []T {
	c := i >> p.shift
	x := p.fresh[c]
	if x == nil {
		x = make([]T, min(1<<p.shift, p.n-c<<p.shift)*p.width)
		if c < p.stored {
			p.read(c, x)
		}
		p.fresh[c] = x
	}
	at := i & (1<<p.shift - 1) * p.width
	return x[at : at+p.width]
}

// chunks returns the number of chunks after the change.
func (p *patch[T]) chunks() int { return (p.n + 1<<p.shift - 1) >> p.shift }

// rowInSpace copies a row of a view into the partition space of its index, as prepare does for
// training rows.
func rowInSpace(v *query.View, row int, x []float32) {
	d := v.Dim
	if src := v.Rows.Vector(row, x[:d]); &src[0] != &x[0] {
		copy(x, src)
	}
	spaced(v, x)
}
