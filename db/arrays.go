package db

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
)

// An index is stored as arrays in sections of an object. An array that queries read as one
// slice is one block of any length; arrays of rows are split into blocks of about 1 MiB. bbolt
// keeps a value contiguous in the map, so both are read in place.

// blockSink receives the blocks of an index to be written.
type blockSink func(key [codec.KeySize]byte, value []byte) error

// arrayWriter writes the arrays of one object.
type arrayWriter struct {
	object uint64
	sink   blockSink
	sizes  map[string]int64 // bytes written, by section
	err    error
}

func newArrayWriter(object uint64, sink blockSink) *arrayWriter {
	return &arrayWriter{object: object, sink: sink, sizes: map[string]int64{}}
}

// block writes a block of rows of cols elements, unless it is empty.
func (w *arrayWriter) block(kind codec.Kind, number uint32, elem codec.Elem, cols int,
	data []byte) {
	if w.err != nil || len(data) == 0 {
		return
	}
	key := codec.Key(w.object, kind, number)
	h := codec.Header{Kind: kind, Elem: elem, Rows: uint64(len(data) / (cols * elem.Size())),
		Cols: uint32(cols)}
	value := codec.Encode(key[:], h, data)
	w.sizes[kind.String()] += int64(len(value))
	if err := w.sink(key, value); err != nil {
		w.err = wrapf(err, "write %v block %d", kind, number)
	}
}

// blocks writes blocks of bytes, numbered from 0.
func (w *arrayWriter) blocks(kind codec.Kind, blocks [][]byte) {
	for i, b := range blocks {
		w.block(kind, uint32(i), codec.U8, 1, b)
	}
}

// writeRows writes rows of cols elements in blocks of 1<<shift rows.
func writeRows[T codec.Number](w *arrayWriter, kind codec.Kind, data []T, cols int, shift uint) {
	for i, size := 0, cols<<shift; i*size < len(data); i++ {
		part := data[i*size : min((i+1)*size, len(data))]
		w.block(kind, uint32(i), elemOf[T](), cols, codec.Bytes(part))
	}
}

// shiftFor returns log2 of the number of rows of width bytes that one block holds.
func shiftFor(width int) uint {
	rows := (1<<20 - codec.HeaderSize) / max(1, width)
	var s uint
	for 2<<s <= rows && s < 20 {
		s++
	}
	return s
}

// elemOf returns the element type that numbers are stored as. Signed integers of more than one
// byte are stored as unsigned ones.
func elemOf[T codec.Number]() codec.Elem {
	var zero T
	switch any(zero).(type) {
	case int8:
		return codec.I8
	case float32:
		return codec.F32
	case float64:
		return codec.F64
	}
	switch unsafe.Sizeof(zero) {
	case 1:
		return codec.U8
	case 2:
		return codec.U16
	case 4:
		return codec.U32
	}
	return codec.U64
}

// arrayReader reads the arrays of one object and, where runs lists them, blocks of other
// objects. It keeps the first error.
type arrayReader struct {
	ctx    context.Context
	st     *collState
	object uint64
	index  string                    // name of the index, for errors
	runs   map[codec.Kind][]blockRun // of sections that include blocks of other objects
	err    error
}

// arrays returns a reader of an index's object.
func (st *collState) arrays(ctx context.Context, index string, object uint64) *arrayReader {
	return &arrayReader{ctx: ctx, st: st, object: object, index: index}
}

// of returns a reader of another object of the same index. It starts with the error of this
// reader.
func (r *arrayReader) of(object uint64) *arrayReader {
	return &arrayReader{ctx: r.ctx, st: r.st, object: object, index: r.index, err: r.err}
}

// blocks returns the payloads of the blocks of a section, in order.
func (r *arrayReader) blocks(kind codec.Kind) [][]byte {
	if r.err != nil {
		return nil
	}
	runs, ok := r.runs[kind]
	if !ok {
		runs = []blockRun{{Object: r.object}}
	}
	var out [][]byte
	for _, run := range runs {
		var part [][]byte
		if run.whole() {
			part, r.err = r.st.g.payloads(r.ctx, r.st.c.Name, run.Object, kind)
		} else {
			part, r.err = r.st.g.run(r.ctx, r.st.c.Name, run, kind)
		}
		if r.err != nil {
			return nil
		}
		out = append(out, part...)
	}
	return out
}

// readRows returns views of n rows of cols elements in blocks of 1<<shift rows.
func readRows[T codec.Number](r *arrayReader, kind codec.Kind, n, cols int, shift uint) [][]T {
	parts := r.blocks(kind)
	var zero T
	width := cols * int(unsafe.Sizeof(zero))
	r.need(covers(parts, n, width, shift), fmt.Sprintf("%v does not cover the rows", kind))
	if r.err != nil {
		return nil
	}
	out := make([][]T, len(parts))
	for i := range parts {
		out[i] = numbers[T](r, parts, i, len(parts[i])/int(unsafe.Sizeof(zero)))
	}
	return out
}

// covers reports whether blocks of 1<<shift rows of width bytes hold n rows.
func covers(parts [][]byte, n, width int, shift uint) bool {
	per := 1 << shift
	if len(parts) != (n+per-1)/per {
		return false
	}
	for i, p := range parts {
		if len(p) < min(per, n-i*per)*width {
			return false
		}
	}
	return true
}

// numbers returns a view of a block as n numbers. If n is zero, the block must be absent.
func numbers[T codec.Number](r *arrayReader, parts [][]byte, number, n int) []T {
	if r.err != nil || n == 0 {
		return nil
	}
	if number >= len(parts) {
		r.fail("block %d is missing", number)
		return nil
	}
	v, err := codec.View[T](parts[number], n)
	if err != nil {
		r.fail("block %d: %v", number, err)
	}
	return v
}

// need records damage if ok is false.
func (r *arrayReader) need(ok bool, what string) {
	if r.err == nil && !ok {
		r.fail("%s", what)
	}
}

// fail records damage.
func (r *arrayReader) fail(format string, a ...any) {
	r.err = &CorruptError{
		Collection: r.st.c.Name, Object: r.object, Offset: -1,
		Err: fmt.Errorf("index %q: %w", r.index, fmt.Errorf(format, a...)),
	}
}

// once runs a check of the arrays read and records damage, unless the check has passed before
// with this bound or a lower one. shape describes the manifest values that the check uses.
func (r *arrayReader) once(role checkRole, shape string, bound int, check func() error) {
	if r.err != nil {
		return
	}
	err := r.st.g.store.validated.once(checkKey{r.object, role, shape}, bound, check)
	if err != nil && r.err == nil {
		r.fail("%w", err)
	}
}

// arrays are the numbered arrays of a section, to be written or read: one function that lists
// the fields of a type serves both.
type arrays struct {
	kind  codec.Kind
	w     *arrayWriter // nil when reading
	r     *arrayReader // nil when writing
	parts [][]byte     // blocks read
}

// arrays begins writing a section.
func (w *arrayWriter) arrays(kind codec.Kind) *arrays { return &arrays{kind: kind, w: w} }

// arrays opens a section for reading.
func (r *arrayReader) arrays(kind codec.Kind) *arrays {
	return &arrays{kind: kind, r: r, parts: r.blocks(kind)}
}

// array writes array x or reads it completely: as a view that must not be modified, nil if the
// array is absent.
func array[T codec.Number](a *arrays, number uint32, x *[]T) {
	if a.w != nil {
		a.w.block(a.kind, number, elemOf[T](), 1, codec.Bytes(*x))
		return
	}
	var zero T
	*x = numbers[T](a.r, a.parts, int(number), len(a.part(number))/int(unsafe.Sizeof(zero)))
}

// arrayOf is like array but requires n elements when reading.
func arrayOf[T codec.Number](a *arrays, number uint32, x *[]T, n int) {
	if a.w != nil {
		array(a, number, x)
		return
	}
	*x = numbers[T](a.r, a.parts, int(number), n)
}

// part returns the payload of an array when reading, nil if the array is absent.
func (a *arrays) part(number uint32) []byte {
	if a.r.err != nil || int(number) >= len(a.parts) {
		return nil
	}
	return a.parts[number]
}

// writeNames writes a string table.
func (a *arrays) writeNames(number uint32, names []string) {
	table := make([][]byte, len(names))
	for i, n := range names {
		table[i] = []byte(n)
	}
	a.w.block(a.kind, number, codec.BytesElem, 1, codec.AppendStrings(nil, table))
}

// readNames reads a string table of n names.
func (a *arrays) readNames(number uint32, n int) (names codec.Strings) {
	if part := a.part(number); part != nil {
		var err error
		if names, err = codec.NewStrings(part); err != nil {
			a.r.fail("label names: %v", err)
		}
	}
	a.r.need(names.Len() == n, "label names")
	return names
}

// writeSet writes a set of rows, unless it is empty.
func (a *arrays) writeSet(number uint32, rows *roaring.Bitmap) {
	if rows.IsEmpty() {
		return
	}
	rows.RunOptimize()
	data, err := rows.ToBytes()
	if err != nil && a.w.err == nil {
		a.w.err = wrapf(err, "encode set")
	}
	a.w.block(a.kind, number, codec.U8, 1, data)
}

// readSet reads a set of rows below n. The set is empty if the block is absent.
func (a *arrays) readSet(number uint32, n int) *roaring.Bitmap {
	out := roaring.New()
	part := a.part(number)
	if part == nil {
		return out
	}
	err := out.UnmarshalBinary(part)
	if err == nil {
		err = out.Validate()
	}
	switch {
	case err != nil:
		a.r.fail("set of rows: %w", err)
		return roaring.New()
	case !out.IsEmpty() && int(out.Maximum()) >= n:
		a.r.fail("row %d of %d in a set", out.Maximum(), n)
	}
	return out
}
