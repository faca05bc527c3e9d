package query

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// RowSet holds the exact rows of a collection, sealed chunks first, then single rows. Row i is
// in Chunks[i>>Shift] if there is such a chunk, otherwise in Tail[i - len(Chunks)<<Shift].
// Numbers are in the machine's byte order and aligned for their type.
type RowSet struct {
	N     int // number of rows, including deleted ones
	Dim   int
	Shift uint // a chunk holds 1<<Shift rows
	// Chunks holds Dim numbers per row, uint8 if Uint8 of the chunk is set, otherwise float32.
	Chunks [][]byte
	Uint8  []bool
	// Tail holds one float32 row per element.
	Tail [][]byte
	// InvNorm holds 1/|row| (0 for a zero row) by chunk, and the tail's as a last additional
	// chunk. Only Cosine reads it; missing chunks are computed row by row.
	InvNorm [][]float32
	// Request asks the system to read a chunk that is about to be used; nil where chunks are in memory.
	Request func([]byte)
}

// RequestChunk calls Request, if it is set, with a chunk that is about to be read. Behind the last one it
// does nothing.
func (r *RowSet) RequestChunk(c int) {
	if r.Request != nil && c < len(r.Chunks) {
		r.Request(r.Chunks[c])
	}
}

// SketchView holds the sketches of the covered rows, Width bytes each, in the layout of
// vector.PackedScores or, with Signs, of vector.SignScores.
type SketchView struct {
	Chunks []unsafe.Pointer
	Shift  uint
	Width  int
	Signs  bool
	Steps  []float32 // value of a step by coordinate; none with Signs
	// Centers are those of the rows, with Signs, or nil.
	Centers *Centers
	Keep    [][]byte
}

// SketchWidth reports whether sketches may be width bytes wide.
func SketchWidth(width int, signs bool) bool {
	if !signs {
		return width == vector.PackedWidth
	}
	return width > 0 && width <= vector.MaxSignWidth && width%vector.SignLine == 0
}

// Segment is a part of an index: a forest, sketches and neighbor lists of the rows [First, First+N) of a
// collection, which the parts number from 0.
type Segment struct {
	First, N int
	// Forest selects candidates. If it is nil, the rows of the segment are scanned.
	Forest *forest.Forest
	// RawForest reports that the forest splits on unrotated coordinates although there is a
	// Rotation. It is implied where Forest.Dim is larger than Rotation.R.
	RawForest bool
	Sketch    *SketchView
	Neighbors *NeighborView
	// Curve has the settings of a small segment. A search with a setting of a curve takes that for the same
	// recall from each segment, and scans those that have none; one with other parameters uses them
	// everywhere.
	Curve *Curve
}

// View is everything a query needs: an index of a large segment, which comes first, and maybe small ones that
// follow it without gaps, and the exact rows, including fresh ones behind all segments. It does not change
// while it is in use; many searchers may share it.
type View struct {
	Metric vector.Metric
	Dim    int // coordinates of a query
	Rows   RowSet
	Segment
	// Small are the other segments. Their sketches have the code of the large one's.
	Small []Segment
	// Rotation maps the partition space (see Lift) to the coordinates of the sketches and, unless
	// RawForest, of the forests, which may split on the first Forest.Dim of them only.
	Rotation *forest.Rotation
	// ByteRotation, if set, is Rotation in small integers. It serves queries of integers from 0
	// to 255 under L2.
	ByteRotation *forest.ByteRotation
	// Fresh holds sketches of the first FreshN rows behind the segments, with Sketch's code. If it is nil,
	// all these rows are scored exactly.
	Fresh  *SketchView
	FreshN int
	// Lift reports that the partition space has one coordinate more than the rows,
	// sqrt(LiftNorm²-|row|²) for rows and zero for queries: the reduction of inner product to
	// L2 (docs/ARCHITECTURE.md, section 6).
	Lift bool
	// LiftNorm, if positive, is the length to which a lifted query is scaled, so that it is on
	// the sphere of the lifted rows. That does not change the order of dot products. Zero
	// leaves the query unchanged.
	LiftNorm float32
	// Deleted rows are never answers; nil means none. It must not change once a search has read
	// it.
	Deleted *roaring.Bitmap
	// DeletedBits, if not nil, is Deleted as one bit per row, which is faster to test.
	DeletedBits []uint64
	// LiveCount is the number of rows that are not deleted. Searches do not rely on it.
	LiveCount int
}

// Covered returns the number of rows that the segments cover.
func (v *View) Covered() int {
	if n := len(v.Small); n > 0 {
		return v.Small[n-1].end()
	}
	return v.N
}

// end returns the number of the row behind the segment.
func (g *Segment) end() int { return g.First + g.N }

// segment returns segment i, the large one first.
func (v *View) segment(i int) *Segment {
	if i == 0 {
		return &v.Segment
	}
	return &v.Small[i-1]
}

// IsDeleted reports whether a row is deleted.
func (v *View) IsDeleted(row uint32) bool {
	if v.DeletedBits != nil {
		return v.DeletedBits[row>>6]>>(row&63)&1 != 0
	}
	return v.Deleted != nil && v.Deleted.Contains(row)
}

// live returns the number of rows that are not deleted.
func (v *View) live() int { return v.liveWithin(0, v.Rows.N) }

// liveWithin returns the number of rows of [first, end) that are not deleted.
func (v *View) liveWithin(first, end int) int {
	if v.Deleted == nil {
		return end - first
	}
	return end - first - rowsWithin(v.Deleted, first, end)
}

// rowsWithin returns the number of rows of [first, end) in a set.
func rowsWithin(rows *roaring.Bitmap, first, end int) int {
	n := func(end int) int {
		if end == 0 {
			return 0
		}
		return int(rows.Rank(uint32(end - 1)))
	}
	return n(end) - n(first)
}

// Inner returns the dimension of the partition space: Dim, or one more with Lift.
func (v *View) Inner() int {
	if v.Lift {
		return v.Dim + 1
	}
	return v.Dim
}

// RotatedForest reports whether the forest of the large segment splits on rotated coordinates.
func (v *View) RotatedForest() bool { return v.rotates(&v.Segment) }

// rotates reports whether the forest of a segment splits on rotated coordinates.
func (v *View) rotates(g *Segment) bool {
	return v.Rotation != nil && g.Forest != nil && !g.RawForest && g.Forest.Dim <= v.Rotation.R
}

// Validate checks that every part covers the rows it must cover and that the shapes agree, in
// time proportional to the number of chunks. Call it once for a view over memory from outside
// (and Forest.Validate for the forests): Search relies on it. It does not check the row numbers
// in Neighbors; searches ignore those beyond N. Errors wrap ErrView.
func (v *View) Validate() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrView}, a...)...)
	}
	switch v.Metric {
	case vector.L2, vector.Cosine, vector.InnerProduct:
	default:
		return fail("metric %v", v.Metric)
	}
	if v.Dim < 1 || v.Dim != v.Rows.Dim {
		return fail("dimension %d, rows have %d", v.Dim, v.Rows.Dim)
	}
	if err := v.Rows.validate(); err != nil {
		return err
	}
	if r := v.Rotation; r != nil && (r.Dim != v.Inner() || r.R < 1) {
		return fail("rotation from %d to %d coordinates, want from %d", r.Dim, r.R, v.Inner())
	}
	if b := v.ByteRotation; b != nil &&
		(v.Rotation == nil || b.R != v.Rotation.R || b.Dim != v.Rotation.Dim) {
		return fail("rotation of bytes of another shape")
	}
	for i, end := 0, 0; i <= len(v.Small); i++ {
		g := v.segment(i)
		if g.First != end || g.N < 0 || g.end() > v.Rows.N {
			return fail("segment of rows %d to %d, want from %d to at most %d", g.First, g.end(), end, v.Rows.N)
		}
		end = g.end()
		if err := v.validateSegment(g); err != nil {
			return err
		}
	}
	if err := v.validateFresh(); err != nil {
		return err
	}
	if v.DeletedBits != nil && len(v.DeletedBits) < (v.Rows.N+63)/64 {
		return fail("%d words of deleted rows for %d rows", len(v.DeletedBits), v.Rows.N)
	}
	return nil
}

// validateSegment checks the parts of a segment.
func (v *View) validateSegment(g *Segment) error {
	if f := g.Forest; f != nil {
		want := v.Inner()
		if v.rotates(g) {
			want = f.Dim
		}
		if f.Dim != want || f.CorpusN > g.N {
			return fmt.Errorf("%w: forest over %d coordinates and %d rows, want %d and at most %d", ErrView, f.Dim,
				f.CorpusN, want, g.N)
		}
	}
	if err := v.validateSketches(g); err != nil {
		return err
	}
	if n := g.Neighbors; n != nil && !n.covers(g.N) {
		return fmt.Errorf("%w: neighbor lists do not cover %d rows", ErrView, g.N)
	}
	return nil
}

func (v *View) validateSketches(g *Segment) error {
	s := g.Sketch
	if s == nil {
		return nil
	}
	if v.Rotation == nil || !SketchWidth(s.Width, s.Signs) {
		return fmt.Errorf("%w: sketches of %d bytes, rotation %v", ErrView, s.Width, v.Rotation != nil)
	}
	if s.Signs && spreadSize(v.Inner(), s.Width) > maxSpread {
		return fmt.Errorf("%w: sketches of signs for %d coordinates", ErrView, v.Inner())
	}
	if len(s.Steps) > min(v.Rotation.R, vector.PackedHead+vector.PackedTail) {
		return fmt.Errorf("%w: %d steps of sketches, %d rotated coordinates", ErrView, len(s.Steps), v.Rotation.R)
	}
	if c := s.Centers; c != nil && (!s.Signs || !(c.Step > 0) || !covers(c.Chunks, c.Shift, c.N, v.Inner())) {
		return fmt.Errorf("%w: centers of sketches", ErrView)
	}
	if !s.sameCode(v.Sketch) {
		return fmt.Errorf("%w: sketches of rows %d to %d have another code", ErrView, g.First, g.end())
	}
	if len(s.Chunks) != len(s.Keep) || !covers(s.Keep, s.Shift, g.N, s.Width) {
		return fmt.Errorf("%w: sketches do not cover %d rows", ErrView, g.N)
	}
	return nil
}

func (v *View) validateFresh() error {
	f := v.Fresh
	if f == nil {
		return nil
	}
	if !f.sameCode(v.Sketch) || v.FreshN < 0 || v.FreshN > v.Rows.N-v.Covered() {
		return fmt.Errorf("%w: sketches of %d fresh rows do not suit the others", ErrView, v.FreshN)
	}
	if len(f.Chunks) != len(f.Keep) || !covers(f.Keep, f.Shift, v.FreshN, f.Width) {
		return fmt.Errorf("%w: sketches do not cover %d fresh rows", ErrView, v.FreshN)
	}
	return nil
}

// sameCode reports whether one query serves both sketches.
func (s *SketchView) sameCode(of *SketchView) bool {
	return of != nil && s.Width == of.Width && s.Signs == of.Signs && slices.Equal(s.Steps, of.Steps)
}

func (r *RowSet) validate() error {
	if r.N < 0 || r.Shift > 31 || len(r.Uint8) != len(r.Chunks) {
		return fmt.Errorf("%w: %d rows, shift %d, %d chunks with %d types", ErrView, r.N, r.Shift,
			len(r.Chunks), len(r.Uint8))
	}
	left := r.N
	for c, chunk := range r.Chunks {
		n := min(left, 1<<r.Shift)
		left -= n
		if r.Uint8[c] {
			if len(chunk) < n*r.Dim {
				return fmt.Errorf("%w: row chunk %d is short", ErrView, c)
			}
		} else if len(chunk) < n*r.Dim*4 || !aligned(chunk) {
			return fmt.Errorf("%w: row chunk %d is short or not aligned", ErrView, c)
		}
		if c < len(r.InvNorm) && r.InvNorm[c] != nil && len(r.InvNorm[c]) < n {
			return fmt.Errorf("%w: norms of chunk %d are short", ErrView, c)
		}
	}
	if len(r.Tail) < left {
		return fmt.Errorf("%w: %d rows behind the chunks, want %d", ErrView, len(r.Tail), left)
	}
	for i, row := range r.Tail[:left] {
		if len(row) < r.Dim*4 || !aligned(row) {
			return fmt.Errorf("%w: tail row %d is short or not aligned", ErrView, i)
		}
	}
	return nil
}

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0
}

// covers reports whether chunks of 1<<shift rows of width elements hold n rows.
func covers[T any](chunks [][]T, shift uint, n, width int) bool {
	for _, c := range chunks {
		if n <= 0 {
			break
		}
		rows := min(n, 1<<shift)
		if len(c) < rows*width {
			return false
		}
		n -= rows
	}
	return n <= 0
}

// float32s returns a view of the first n numbers of b.
func float32s(b []byte, n int) []float32 {
	b = b[: 4*n : 4*n]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Part returns a copy of rows [first, end), numbered from 0.
func (r *RowSet) Part(first, end int) RowSet {
	n, d := end-first, r.Dim
	bytes := true
	for c := first >> r.Shift; c<<r.Shift < end; c++ {
		bytes = bytes && c < len(r.Chunks) && r.Uint8[c]
	}
	out := RowSet{N: n, Dim: d, Shift: 31, Uint8: []bool{bytes}, InvNorm: [][]float32{{}}}
	chunk := make([]byte, 0, n*d)
	var numbers, buf []float32
	if !bytes {
		numbers, buf = make([]float32, n*d), make([]float32, d)
		chunk = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 4*len(numbers))
	}
	for i := first; i < end; i++ {
		c, at := min(i>>r.Shift, len(r.Chunks)), 0
		if at = i - c<<r.Shift; bytes {
			chunk = append(chunk, r.Chunks[c][at*d:(at+1)*d]...)
		} else {
			copy(numbers[(i-first)*d:], r.Vector(i, buf))
		}
		if norm, ok := r.invNorm(c, at); ok && len(out.InvNorm[0]) == i-first {
			out.InvNorm[0] = append(out.InvNorm[0], norm)
		}
	}
	if out.Chunks = [][]byte{chunk}; len(out.InvNorm[0]) < n {
		out.InvNorm = nil
	}
	return out
}

// Vector returns row i as float32, in place or in buf, which must hold Dim
// numbers for rows stored in eight bits. i must be below N.
func (r *RowSet) Vector(i int, buf []float32) []float32 {
	c := i >> r.Shift
	if c >= len(r.Chunks) {
		return float32s(r.Tail[i-len(r.Chunks)<<r.Shift], r.Dim)
	}
	at := (i & (1<<r.Shift - 1)) * r.Dim
	if !r.Uint8[c] {
		return float32s(r.Chunks[c][4*at:], r.Dim)
	}
	buf = buf[:r.Dim]
	for j, u := range r.Chunks[c][at : at+r.Dim] {
		buf[j] = float32(u)
	}
	return buf
}
