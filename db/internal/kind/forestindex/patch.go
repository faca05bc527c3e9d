package forestindex

import (
	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/query"
)

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
