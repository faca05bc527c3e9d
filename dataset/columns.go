package dataset

import (
	"fmt"
	"io"
	"math"
)

// columnsBlock is how many bytes of columns are held at a time.
const columnsBlock = 16 << 20

// columns reads an array that is stored column by column: a block of rows at a time, from as
// many places as there are columns.
type columns struct {
	src   *source
	elem  elem
	dim   int
	n     int64 // rows
	block []byte
	rows  int64 // of a full block
	held  int64 // rows of the present block
	first int64 // number of the block's first row
	start int64 // offset of the array
	row   []byte
}

// newColumns makes the reader of n rows whose columns follow in s and end with it.
func newColumns(s *source, e elem, dim int, n int64) (*columns, error) {
	width := int64(dim) * int64(e.size())
	body := s.size - s.offset
	if n > math.MaxInt64/2/width || n*width != body {
		return nil, s.bad(-1, s.offset, fmt.Errorf(
			"header promises %d records of %d bytes, the file holds %d bytes", n, width, body))
	}
	c := &columns{src: s, elem: e, dim: dim, n: n, start: s.offset, row: make([]byte, width)}
	c.rows = min(n, max(1, columnsBlock/width))
	c.block = make([]byte, c.rows*width)
	return c, nil
}

func (c *columns) schema() Schema {
	return Schema{Kind: Dense, Dim: c.dim, Base: BaseZero, Records: c.n}
}

func (c *columns) next(rec *Record, n int64) error {
	if n == c.n {
		return io.EOF
	}
	if n >= c.first+c.held {
		if err := c.load(n); err != nil {
			return err
		}
	}
	size := int64(c.elem.size())
	for j := range int64(c.dim) {
		from := (j*c.held + n - c.first) * size
		copy(c.row[j*size:(j+1)*size], c.block[from:])
	}
	rec.Vector = resize(rec.Vector, c.dim)
	if err := c.elem.decode(rec.Vector, c.row); err != nil {
		return c.src.badRecord(n, c.start+n*size, err)
	}
	return nil
}

// load reads the block of rows that begins with row n.
func (c *columns) load(n int64) error {
	c.first, c.held = n, min(c.rows, c.n-n)
	size := int64(c.elem.size())
	for j := range int64(c.dim) {
		part := c.block[j*c.held*size : (j+1)*c.held*size]
		if k, err := c.src.at.ReadAt(part, c.start+(j*c.n+n)*size); k < len(part) {
			return c.src.fail(n, err)
		}
	}
	return nil
}
