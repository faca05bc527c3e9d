package salvage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// LostRow is a row, or a range of rows, that could not be read: the fields of rescue.LostRow.
type LostRow struct {
	Collection string
	Row        uint32
	Rows       int
	Key        []byte
	Err        error
}

var errGone = errors.New("block is missing or damaged")

// Rows reads the rows of one collection of a damaged file.
type Rows struct {
	w           *File
	c           *layout.Collection
	found       *parts
	deletedRows *roaring.Bitmap // nil if the tombstones are incomplete
	// changed has the rows whose labels, attributes or payload were changed, vectorless those without a
	// vector, as far as is known.
	changed, vectorless *roaring.Bitmap
	complete            bool // the key table has all keys
	// Unsure is set if deleted rows may be among the rows.
	Unsure bool
	lost   func(LostRow)
	// The following fields belong to the chunk of the row read last.
	chunk     int64
	vectors   []byte
	elem      codec.Elem
	sparse    vector.CSR
	keyTable  codec.Strings
	coldTable codec.Strings
	coldFirst uint32
	chunkErr  error
}

// Rows determines which rows of a collection are live. After a search, only the deleted rows decide: keys
// may be of an earlier state.
func (w *File) Rows(c *layout.Collection) *Rows {
	set := func(kind codec.Kind) *roaring.Bitmap {
		rows := w.sets[setKey{c.ID, kind}]
		if rows == nil {
			return roaring.New()
		}
		rows.RemoveRange(uint64(c.Rows), 1<<32)
		return rows
	}
	x := &Rows{
		w: w, c: c, found: w.of(c.ID), chunk: -1,
		changed: set(codec.KindChanged), vectorless: set(codec.KindVectorless),
	}
	valid := !x.found.badKeys
	for row := range x.found.keys {
		if row >= c.Rows {
			valid = false
			delete(x.found.keys, row)
		}
	}
	x.complete = c.Rows == 0 ||
		w.Searched == nil && valid && !w.broken[string(layout.BucketKeys)] && len(w.keys) > 0
	deletedRows := set(codec.KindTombstones)
	if w.Searched != nil || uint64(c.Rows)-deletedRows.GetCardinality() == uint64(c.Live) {
		x.deletedRows = deletedRows
	}
	x.Unsure = w.Searched != nil || !x.complete && x.deletedRows == nil
	return x
}

// live reports whether a row was not deleted, as far as is known.
func (x *Rows) live(row uint32) bool {
	switch {
	case x.w.Searched == nil && x.found.keys[row] != nil:
		return true
	case x.deletedRows != nil:
		return !x.deletedRows.Contains(row)
	}
	return !x.complete
}

// All iterates over the live rows in the order of their numbers, and calls lost for those that it
// could not read. If two rows with the same key both seem live, the later one must be kept.
func (x *Rows) All(lost func(LostRow)) iter.Seq2[rows.Row, error] {
	x.lost = lost
	return func(yield func(rows.Row, error) bool) {
		at := uint64(0)
		for _, e := range x.found.extents(x.c.Rows, x.c.Shift()) {
			x.lose(extent{at, e.from})
			for row := e.from; row < e.to; row++ {
				if !x.yield(uint32(row), yield) {
					return
				}
			}
			at = e.to
		}
		x.lose(extent{at, uint64(x.c.Rows)})
	}
}

// yield reads a row and yields it, if it is live.
func (x *Rows) yield(row uint32, yield func(rows.Row, error) bool) bool {
	if err := x.w.ctx.Err(); err != nil {
		yield(rows.Row{}, fail.Wrapf(err, "salvage"))
		return false
	}
	if !x.live(row) {
		return true
	}
	r, err := x.row(row)
	if x.c.Both() && x.vectorless.Contains(row) {
		r.Vector = nil
	}
	if err == nil {
		err = layout.CheckRow(x.c, &r)
	}
	if err == nil {
		return yield(r, nil)
	}
	key := x.found.keys[row]
	if key == nil {
		key = r.Key
	}
	x.lost(LostRow{Collection: x.c.Name, Row: row, Rows: 1, Key: key, Err: err})
	return true
}

func (x *Rows) row(row uint32) (rows.Row, error) {
	if row >= x.c.Sealed() {
		return x.fresh(row)
	}
	r, err := x.chunked(row)
	if err != nil {
		// A free page may still have the row from before its chunk was sealed.
		if old, e := x.fresh(row); e == nil {
			return old, nil
		}
	}
	return r, err
}

// fresh returns a row that is in no chunk.
func (x *Rows) fresh(row uint32) (r rows.Row, err error) {
	data, err := x.w.block(codec.Key(x.c.ID, codec.KindTail, row))
	if err != nil {
		return r, err
	}
	if r, err = x.c.RowFormat().DecodeOne(data); err != nil {
		return r, err
	}
	changed, err := x.change(row)
	if err != nil {
		return r, err
	}
	if changed != nil {
		r.Cold = changed.Cold
	}
	return r, x.named(&r)
}

// chunked returns a row of a chunk.
func (x *Rows) chunked(row uint32) (r rows.Row, err error) {
	shift := x.c.Shift()
	if chunk := int64(row >> shift); chunk != x.chunk {
		x.chunk = chunk
		x.chunkErr = x.open(uint32(chunk))
	}
	at := int(row & (1<<shift - 1))
	if x.keyTable.Len() > at {
		r.Key = bytes.Clone(x.keyTable.At(at))
	}
	if r.Key == nil {
		r.Key = x.found.keys[row] // the key table of the collection has it as well
	}
	if x.chunkErr != nil {
		return r, x.chunkErr
	}
	if r.Key == nil {
		return r, layout.BlockError(x.c.Name, x.c.ID, codec.KindKeys, uint32(x.chunk), errGone)
	}
	if r.Cold, err = x.cold(row); err != nil {
		return r, err
	}
	if x.c.Sparse {
		r.Sparse = x.sparse.Row(at)
		if err := x.named(&r); err != nil || x.c.Dim == 0 {
			return r, err
		}
	}
	r.Vector = make([]float32, x.c.Dim)
	if x.elem == codec.U8 {
		for j, u := range x.vectors[at*x.c.Dim : (at+1)*x.c.Dim] {
			r.Vector[j] = float32(u)
		}
		return r, nil
	}
	v, err := codec.View[float32](x.vectors[4*at*x.c.Dim:], x.c.Dim)
	copy(r.Vector, v)
	return r, err
}

// open reads the vectors and keys of a chunk.
func (x *Rows) open(chunk uint32) error {
	c, n := x.c, 1<<x.c.Shift()
	x.keyTable, x.coldTable = codec.Strings{}, codec.Strings{}
	if data, err := x.w.block(codec.Key(c.ID, codec.KindKeys, chunk)); err == nil {
		if t, err := codec.NewStrings(data); err == nil && t.Len() == n {
			x.keyTable = t
		}
	}
	if c.Sparse {
		data, err := x.w.block(codec.Key(c.ID, codec.KindSparse, chunk))
		if err == nil {
			x.sparse, err = rows.ViewSparse(data, n, c.Features, true)
		}
		if err != nil || c.Dim == 0 {
			return err
		}
	}
	data, err := x.w.block(codec.Key(c.ID, codec.KindRows, chunk))
	if err != nil {
		return err
	}
	switch len(data) {
	case n * c.Dim:
		x.elem = codec.U8
	case 4 * n * c.Dim:
		x.elem = codec.F32
	default:
		return layout.BlockError(c.Name, c.ID, codec.KindRows, chunk, fmt.Errorf("%d bytes", len(data)))
	}
	x.vectors = data
	return nil
}

// cold returns the present labels, attributes and payload of a row of a chunk. If they were changed,
// the run that holds those of the chunk is not needed.
func (x *Rows) cold(row uint32) (rows.Cold, error) {
	if changed, err := x.change(row); err != nil {
		return rows.Cold{}, err
	} else if changed != nil {
		return changed.Cold, nil
	}
	if err := x.openRun(row); err != nil {
		return rows.Cold{}, err
	}
	return rows.DecodeCold(x.coldTable.At(int(row - x.coldFirst)))
}

// change returns the change of a row, nil if there is none. A change that
// is lost is an error: what the row was written with is no longer true.
func (x *Rows) change(row uint32) (*layout.Change, error) {
	key := codec.Key(x.c.ID, codec.KindChange, row)
	if _, found := x.w.blocks[key]; !found && !x.changed.Contains(row) {
		return nil, nil
	}
	data, err := x.w.block(key)
	if err != nil {
		return nil, err
	}
	return layout.DecodeChange(data)
}

// openRun decodes the run that holds the Cold of a row, unless it is decoded already.
// The run begins at the row or at an earlier one of the chunk.
func (x *Rows) openRun(row uint32) error {
	if n := x.coldTable.Len(); n > 0 && row >= x.coldFirst && row-x.coldFirst < uint32(n) {
		return nil
	}
	err := layout.BlockError(x.c.Name, x.c.ID, codec.KindCold, row, errGone)
	first, ok := x.found.coldBefore(row, row>>x.c.Shift()<<x.c.Shift())
	if !ok {
		return err
	}
	data, e := x.w.block(codec.Key(x.c.ID, codec.KindCold, first))
	if e != nil {
		return err
	}
	t, e := codec.NewLengths(data)
	if e != nil || row-first >= uint32(t.Len()) {
		return err
	}
	x.coldTable, x.coldFirst = t, first
	return nil
}

// named gives the features of a row their names, if they have names.
func (x *Rows) named(r *rows.Row) error {
	if !x.c.Named {
		return nil
	}
	dict := x.w.names
	for i, id := range r.Sparse.Index {
		number := binary.BigEndian.AppendUint32(nil, id)
		name, ok := dict[string(layout.FeatureKey(x.c.ID, layout.FeatureByID, number))]
		if !ok {
			return fail.Corruptf(x.c.Name, "feature %d has lost its name", id)
		}
		// The dictionary must map the name back to the number; otherwise it is damaged.
		back := layout.FeatureKey(x.c.ID, layout.FeatureByName, name)
		n, ok := layout.EntryNumber(string(layout.BucketFeatures), back, dict[string(back)])
		if !ok || n != uint64(id) {
			return fail.Corruptf(x.c.Name, "feature %d has a damaged name", id)
		}
		r.Features = append(r.Features, vector.Feature{Name: string(name), Value: r.Sparse.Value[i]})
	}
	r.Sparse = vector.Sparse{}
	return nil
}
