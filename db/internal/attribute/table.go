package attribute

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/anndb/anndb/codec"
)

// Span is the number of consecutive rows that a table covers, numbered from 0 in the table.
const Span = 1 << 16

// MaxTable is the largest size of a table in bytes.
const MaxTable = 8 + 8*(Span+1) + 2*Span + Span*(1+MaxString)

// Table finds the rows of a range of row numbers by the value of one attribute. It views a stored
// payload:
//
//	keys n, rows m      uint32 each
//	first row           uint32 × (n+1): the position in rows of each key's first row
//	first byte          uint32 × (n+1): the position in bytes of each key
//	rows                uint16 × m: of each key ascending; one zero if m is odd
//	bytes               the keys, see AppendKey, ascending
//
// A value that several rows have is one key with several rows; a row has at most one key. Opening
// checks only the lengths, so that a commit, after which a table is opened again, costs nothing
// per row. Every access is checked instead; Validate checks the rest.
type Table struct {
	firstRow, firstByte []uint32
	rows                []uint16
	bytes               []byte
}

var errTable = errors.New("table of attributes is damaged")

// OpenTable views a payload as a table.
func OpenTable(p []byte) (t Table, err error) {
	head, err := codec.View[uint32](p, 2)
	if err != nil {
		return t, err
	}
	n, m := uint64(head[0]), uint64(head[1])
	if n > Span || m > Span || n > m {
		return t, fmt.Errorf("%w: %d values of %d rows", errTable, n, m)
	}
	p = p[8:]
	if uint64(len(p)) < 8*(n+1)+2*(m+m%2) {
		return t, fmt.Errorf("%w: %d values of %d rows in %d bytes", errTable, n, m, len(p))
	}
	if t.firstRow, err = codec.View[uint32](p, int(n)+1); err != nil {
		return t, err
	}
	p = p[4*(n+1):]
	if t.firstByte, err = codec.View[uint32](p, int(n)+1); err != nil {
		return t, err
	}
	p = p[4*(n+1):]
	if t.rows, err = codec.View[uint16](p, int(m)); err != nil {
		return t, err
	}
	if p = p[2*m:]; m%2 == 1 {
		if p[0] != 0 || p[1] != 0 {
			return t, fmt.Errorf("%w: padding is not zero", errTable)
		}
		p = p[2:]
	}
	t.bytes = p
	return t, nil
}

// Len returns the number of different values.
func (t *Table) Len() int { return max(0, len(t.firstRow)-1) }

// Rows returns the number of rows that have a value.
func (t *Table) Rows() int { return len(t.rows) }

// Key returns the key of value i, which aliases the table; nil if the table is damaged.
func (t *Table) Key(i int) []byte {
	from, to := t.firstByte[i], t.firstByte[i+1]
	if from > to || uint64(to) > uint64(len(t.bytes)) {
		return nil
	}
	return t.bytes[from:to]
}

// Of returns the rows that have one of the values from i up to, not including, j; those of one
// value ascend.
func (t *Table) Of(i, j int) ([]uint16, error) {
	if i >= j {
		return nil, nil
	}
	from, to := t.firstRow[i], t.firstRow[j]
	if from > to || uint64(to) > uint64(len(t.rows)) {
		return nil, errTable
	}
	return t.rows[from:to], nil
}

// Find returns the values whose keys are in a range: those from i up to, not including, j. It takes
// logarithmic time.
func (t *Table) Find(r Range) (i, j int) {
	n := t.Len()
	i = sort.Search(n, func(i int) bool { return bytes.Compare(t.Key(i), r.From) >= 0 })
	if r.To == nil {
		return i, n
	}
	j = sort.Search(n, func(i int) bool { return bytes.Compare(t.Key(i), r.To) >= 0 })
	return i, max(i, j)
}

// Validate checks what OpenTable does not, and that rows are below n.
func (t *Table) Validate(n int) error {
	seen := make([]bool, n)
	if t.firstRow[0] != 0 || t.firstByte[0] != 0 || int(t.firstRow[t.Len()]) != len(t.rows) ||
		int(t.firstByte[t.Len()]) != len(t.bytes) {
		return errTable
	}
	for i := range t.Len() {
		key := t.Key(i)
		if len(key) == 0 || i > 0 && bytes.Compare(t.Key(i-1), key) >= 0 {
			return fmt.Errorf("%w: values do not ascend", errTable)
		}
		rows, err := t.Of(i, i+1)
		if err != nil || len(rows) == 0 {
			return fmt.Errorf("%w: value without rows", errTable)
		}
		for j, row := range rows {
			if int(row) >= n || seen[row] || j > 0 && rows[j-1] >= row {
				return fmt.Errorf("%w: row %d of %d", errTable, row, n)
			}
			seen[row] = true
		}
	}
	return nil
}

// Entry is the value of a row of a table.
type Entry struct {
	Key []byte
	Row uint16
}

// Compare orders entries by key, then by row.
func (e Entry) Compare(o Entry) int {
	if c := bytes.Compare(e.Key, o.Key); c != 0 {
		return c
	}
	return int(e.Row) - int(o.Row)
}

// AppendEntries appends the entries of the table for which keep is true, in the order of their
// keys. Keys alias the table.
func (t *Table) AppendEntries(dst []Entry, keep func(row uint16) bool) ([]Entry, error) {
	for i := range t.Len() {
		rows, err := t.Of(i, i+1)
		key := t.Key(i)
		if err != nil || key == nil {
			return nil, errTable
		}
		for _, row := range rows {
			if keep(row) {
				dst = append(dst, Entry{key, row})
			}
		}
	}
	return dst, nil
}

// EncodeTable returns the payload of a table of ascending entries. A row has at most one.
func EncodeTable(entries []Entry) []byte {
	firstRow, firstByte := []uint32{}, []uint32{}
	var rows []uint16
	var keys []byte
	for i, e := range entries {
		if i == 0 || !bytes.Equal(e.Key, entries[i-1].Key) {
			firstRow, firstByte = append(firstRow, uint32(i)), append(firstByte, uint32(len(keys)))
			keys = append(keys, e.Key...)
		}
		rows = append(rows, e.Row)
	}
	n, m := uint32(len(firstRow)), uint32(len(rows))
	firstRow, firstByte = append(firstRow, m), append(firstByte, uint32(len(keys)))
	if m%2 == 1 {
		rows = append(rows, 0)
	}
	out := slices.Clone(codec.Bytes([]uint32{n, m}))
	out = append(out, codec.Bytes(firstRow)...)
	out = append(out, codec.Bytes(firstByte)...)
	out = append(out, codec.Bytes(rows)...)
	return append(out, keys...)
}
