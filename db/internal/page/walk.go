package page

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// maxDepth bounds the depth of a tree of pages: a page holds at least two keys, so a deeper
	// tree has a cycle.
	maxDepth = 64
	// maxRun is the largest run of pages read at once, in bytes. bbolt never splits a page
	// below four values, of up to 1 GiB each; ours are far smaller.
	maxRun = 1 << 32
)

// Mode selects what a walk of a bucket reads.
type Mode uint8

const (
	// Values reads keys and values.
	Values Mode = iota
	// Keys skips the values of leaf pages with pages of their own. Visitor.Pair gets nil for
	// all values.
	Keys
	// Headers reads only the headers of leaf pages. Visitor.Pair is not called.
	Headers
)

// Visitor receives what a Walker finds.
type Visitor struct {
	// Report is called for every problem, with the first page of the run that has it.
	Report func(page uint64, err error)
	// Pair is called for every key and value of a bucket, with the file offset of the value. It
	// may keep the slices.
	Pair func(bucket, key, value []byte, at int64)
}

// Bucket is a bucket, as its entry in the root bucket describes it.
type Bucket struct {
	Name []byte
	// Root is the first page of the bucket's tree. It is zero for an inline bucket, whose page
	// follows the header in the entry.
	Root uint64
	// Inline has the bytes after the header of the entry.
	Inline []byte
	// Sequence is the bucket's counter.
	Sequence uint64
	// Page is the first page of the run that has the entry, At the file offset of its value.
	Page uint64
	At   int64
}

// bucketHeader is the size of a bucket's header in its entry.
const bucketHeader = 16

// CheckHeader checks the fields of a bucket's entry that no reader uses and no query result
// depends on: the sequence counter, which must be zero because our buckets do not use it; the
// page number and the overflow of an inline bucket; and that nothing follows.
func (b *Bucket) CheckHeader() error {
	le := binary.LittleEndian
	if b.Sequence != 0 {
		return fmt.Errorf("its counter is at %d", b.Sequence)
	}
	page, end := b.Inline, 0
	if b.Root == 0 && len(page) >= HeaderSize {
		if id, over := le.Uint64(page), le.Uint32(page[12:]); id != 0 || over != 0 {
			return fmt.Errorf("stored in its parent, but as page %d with %d more", id, over)
		}
		end = HeaderSize
		if n := int(le.Uint16(page[10:])); n > 0 && HeaderSize+n*ElementSize <= len(page) {
			at := HeaderSize + (n-1)*ElementSize
			e := page[at:]
			end = at + int(le.Uint32(e[4:])) + int(le.Uint32(e[8:])) + int(le.Uint32(e[12:]))
		}
	}
	if end != len(page) {
		return fmt.Errorf("%d bytes follow its header, want %d", len(page), end)
	}
	return nil
}

// Walker visits the pages of one state of a file. It visits each page at most once, and reports
// a second visit as a problem. After its context is cancelled, it visits no more pages.
type Walker struct {
	Visitor
	ctx    context.Context
	r      io.ReaderAt
	meta   Meta
	high   uint64
	length int64 // bytes in the file
	state  []pageState
}

// pageState records what a page was found to be.
type pageState uint8

const (
	unseen pageState = iota
	used
	free
)

// NewWalker returns a walker over the state of a file that m describes. length is the length of
// the file; pages beyond it are not visited, see Meta.Fits.
func NewWalker(ctx context.Context, r io.ReaderAt, length int64, m Meta, v Visitor) *Walker {
	high := min(m.High, uint64(length)/uint64(m.PageSize))
	return &Walker{
		Visitor: v, ctx: ctx, r: r, meta: m, high: high, length: length, state: make([]pageState, high),
	}
}

// Used reports whether a page is part of a bucket or of the list of free pages, as far as the
// walker has come.
func (w *Walker) Used(page uint64) bool { return page < w.high && w.state[page] == used }

// Buckets visits the buckets in the root bucket. visit may walk them. A plain value in the root
// bucket is a problem.
func (w *Walker) Buckets(visit func(Bucket)) {
	t := tree{w: w, visit: visit}
	t.walk(w.meta.Root, nil, nil, 0)
}

// Walk visits the pairs of a bucket. A bucket in it is a problem.
func (w *Walker) Walk(b Bucket, mode Mode) {
	t := tree{w: w, bucket: b.Name, mode: mode}
	if b.Root != 0 {
		t.walk(b.Root, nil, nil, 0)
	} else {
		t.inline(b)
	}
}

// run is a page and its overflow pages, as far as they have been read.
type run struct {
	id   uint64
	at   int64 // file offset
	buf  []byte
	flag uint16
	n    int // number of elements
	over uint32
	len  uint64 // bytes of the run; buf may hold only the first part
}

// load reads the run of pages that starts at id and marks it as used.
func (w *Walker) load(id uint64, want uint16, mode Mode) (run, bool) {
	bad := func(format string, a ...any) (run, bool) {
		w.Report(id, fmt.Errorf(format, a...))
		return run{}, false
	}
	if id < 2 || id >= w.high {
		return bad("page number outside 2..%d", w.high-1)
	}
	at := w.meta.Offset(id)
	head := make([]byte, HeaderSize)
	if _, err := w.r.ReadAt(head, at); err != nil {
		return bad("read header: %w", err)
	}
	le := binary.LittleEndian
	p := run{
		id: id, at: at, flag: le.Uint16(head[8:]), n: int(le.Uint16(head[10:])), over: le.Uint32(head[12:]),
	}
	if got := le.Uint64(head); got != id {
		return bad("page says it is page %d", got)
	}
	if p.flag&want == 0 || p.flag&(p.flag-1) != 0 {
		return bad("page type %#x, want %#x", p.flag, want)
	}
	length := (int64(p.over) + 1) * int64(w.meta.PageSize)
	if id+uint64(p.over) >= w.high || at+length > w.length || length > maxRun {
		return bad("run of %d pages passes the end at page %d", p.over+1, w.high)
	}
	for i := id; i <= id+uint64(p.over); i++ {
		if w.state[i] != unseen {
			return bad("page %d is used twice", i)
		}
		w.state[i] = used
	}
	p.len = uint64(length)
	switch {
	case mode == Headers && p.flag == Leaf:
		return p, true
	case mode == Keys && p.flag == Leaf:
		length = int64(w.meta.PageSize)
	}
	p.buf = make([]byte, length)
	if _, err := w.r.ReadAt(p.buf, at); err != nil {
		return bad("read: %w", err)
	}
	return p, true
}

// bytes returns n bytes of a run, which must contain them, or nil if they cannot be read.
func (w *Walker) bytes(p *run, from, n uint64) []byte {
	if from+n <= uint64(len(p.buf)) {
		return p.buf[from : from+n]
	}
	b := make([]byte, n)
	if _, err := w.r.ReadAt(b, p.at+int64(from)); err != nil {
		w.Report(p.id, fmt.Errorf("read: %w", err))
		return nil
	}
	return b
}

// tree is a walk of the tree of pages of one bucket.
type tree struct {
	w      *Walker
	bucket []byte // its name
	mode   Mode
	visit  func(Bucket) // for the root bucket; nil for others
}

// walk visits the pages under id. lo and hi, if not nil, bound their keys: lo <= key < hi.
func (t *tree) walk(id uint64, lo, hi []byte, depth int) {
	w := t.w
	if w.ctx.Err() != nil {
		return
	}
	if depth > maxDepth {
		w.Report(id, fmt.Errorf("tree of pages deeper than %d", maxDepth))
		return
	}
	p, ok := w.load(id, Branch|Leaf, t.mode)
	if !ok {
		return
	}
	if p.flag == Leaf {
		t.leaf(p, lo, hi)
		return
	}
	kids, err := children(&p, hi)
	if err != nil {
		w.Report(id, err)
		return
	}
	if len(kids) == 0 {
		w.Report(id, fmt.Errorf("branch page without children"))
	}
	for i, k := range kids {
		low, high := k.key, hi
		if i == 0 {
			low = lo
		}
		if i+1 < len(kids) {
			high = kids[i+1].key
		}
		t.walk(k.id, low, high, depth+1)
	}
}

// child is an element of a branch page.
type child struct {
	id  uint64
	key []byte
}

// children returns the elements of a branch page, whose keys must be below hi.
func children(p *run, hi []byte) ([]child, error) {
	var kids []child
	le := binary.LittleEndian
	next := uint64(HeaderSize + p.n*ElementSize) // bbolt leaves no gap between keys
	for i := range p.n {
		e := HeaderSize + i*ElementSize
		if e+ElementSize > len(p.buf) {
			return nil, fmt.Errorf("%d elements in %d bytes", p.n, len(p.buf))
		}
		pos, klen := uint64(le.Uint32(p.buf[e:])), uint64(le.Uint32(p.buf[e+4:]))
		if uint64(e)+pos != next || next+klen > uint64(len(p.buf)) {
			return nil, fmt.Errorf("branch key %d is not in its place", i)
		}
		next += klen
		key := p.buf[uint64(e)+pos : uint64(e)+pos+klen]
		// The first key of a branch may be too low after deletions; the others are exact
		// bounds.
		if i > 0 && bytes.Compare(kids[i-1].key, key) >= 0 ||
			i > 0 && hi != nil && bytes.Compare(key, hi) >= 0 {
			return nil, fmt.Errorf("branch key %d is out of order", i)
		}
		kids = append(kids, child{le.Uint64(p.buf[e+8:]), key})
	}
	return kids, nil
}

// leaf visits the pairs of a leaf page, or of an inline bucket.
func (t *tree) leaf(p run, lo, hi []byte) {
	if t.mode == Headers {
		return
	}
	w, le := t.w, binary.LittleEndian
	var prev []byte
	next := uint64(HeaderSize + p.n*ElementSize) // bbolt leaves no gap between pairs
	if next > p.len {
		w.Report(p.id, fmt.Errorf("%d elements in %d bytes", p.n, p.len))
		return
	}
	// With one element or more, the position of the first one reveals a wrong count. A count
	// of zero is checked here: bbolt clears the unused part of a page.
	if p.n == 0 && p.len >= HeaderSize+ElementSize &&
		len(bytes.Trim(p.buf[HeaderSize:HeaderSize+ElementSize], "\x00")) > 0 {
		w.Report(p.id, fmt.Errorf("a page with elements counts none"))
	}
	for i := range p.n {
		e := uint64(HeaderSize + i*ElementSize)
		elem := w.bytes(&p, e, ElementSize)
		if elem == nil {
			return
		}
		flags, pos := le.Uint32(elem), uint64(le.Uint32(elem[4:]))
		klen, vlen := uint64(le.Uint32(elem[8:])), uint64(le.Uint32(elem[12:]))
		if e+pos != next || next+klen+vlen > p.len {
			w.Report(p.id, fmt.Errorf("leaf element %d is not in its place", i))
			return
		}
		next += klen + vlen
		from := e + pos
		key, value := w.bytes(&p, from, klen), []byte(nil)
		if t.mode != Keys {
			value = w.bytes(&p, from+klen, vlen)
		}
		if key == nil || value == nil && t.mode != Keys {
			return
		}
		switch {
		case klen == 0:
			w.Report(p.id, fmt.Errorf("leaf element %d has no key", i))
		case i > 0 && bytes.Compare(prev, key) >= 0, lo != nil && bytes.Compare(key, lo) < 0,
			hi != nil && bytes.Compare(key, hi) >= 0:
			w.Report(p.id, fmt.Errorf("leaf key %d is out of order", i))
		}
		prev = key
		at := p.at + int64(from+klen)
		switch {
		case flags == 0 && t.visit != nil:
			w.Report(p.id, fmt.Errorf("plain value %q among the root buckets", key))
		case flags == 0:
			w.Pair(t.bucket, key, value, at)
		case flags == 1 && t.visit != nil && len(value) >= bucketHeader:
			t.visit(Bucket{
				Name: key, Root: le.Uint64(value), Inline: value[bucketHeader:], Sequence: le.Uint64(value[8:]),
				Page: p.id, At: at,
			})
		default:
			w.Report(p.id, fmt.Errorf("leaf element %d has flags %#x and %d bytes", i, flags, vlen))
		}
	}
}

// inline visits the pairs of a bucket that is stored in its entry.
func (t *tree) inline(b Bucket) {
	id := uint64(b.At) / uint64(t.w.meta.PageSize)
	if len(b.Inline) < HeaderSize || binary.LittleEndian.Uint16(b.Inline[8:]) != Leaf {
		t.w.Report(id, fmt.Errorf("inline bucket %q is no leaf", b.Name))
		return
	}
	t.leaf(run{
		id: id, at: b.At + bucketHeader, buf: b.Inline, len: uint64(len(b.Inline)),
		n: int(binary.LittleEndian.Uint16(b.Inline[10:])),
	}, nil, nil)
}

// Unaccounted reports, after a walk of all buckets, a page that is neither in use nor free. A
// damaged page number may point to a page of a former state, or skip pages. All pages that the
// walk reaches may then be valid, although entries are missing or deleted ones are present.
//
// A program that uses bbolt may omit the list of free pages; then there is nothing to compare.
func (w *Walker) Unaccounted() {
	if w.meta.Freelist == noFreelist {
		return
	}
	w.Freelist()
	for id := uint64(2); id < w.high; id++ {
		if w.state[id] == unseen {
			w.Report(id, fmt.Errorf("page %d is neither free nor in use", id))
			return
		}
	}
}

// Freelist marks the free pages and reports ids that are out of range, out of order or in use.
// It returns the number of free pages.
func (w *Walker) Freelist() int {
	id := w.meta.Freelist
	if id == noFreelist {
		return 0
	}
	p, ok := w.load(id, Freelist, Values)
	if !ok {
		return 0
	}
	le := binary.LittleEndian
	ids := p.buf[HeaderSize:]
	n := uint64(p.n)
	if n == 0xffff {
		n, ids = le.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		w.Report(id, fmt.Errorf("freelist of %d pages in %d bytes", n, len(ids)))
		return 0
	}
	var prev uint64
	for i := range n {
		page := le.Uint64(ids[8*i:])
		switch {
		case page < 2 || page >= w.high:
			w.Report(id, fmt.Errorf("free page %d outside 2..%d", page, w.high-1))
		case page <= prev:
			w.Report(id, fmt.Errorf("free page %d listed after %d", page, prev))
		case w.state[page] == used:
			w.Report(id, fmt.Errorf("page %d is both free and in use", page))
		case w.state[page] == unseen:
			w.state[page] = free
		}
		prev = page
	}
	return int(n)
}

// Verifier is a walker that keeps the first problem.
type Verifier struct {
	*Walker
	// First is an *Error with reason ErrDamaged; nil if no problem was found.
	First error
}

// NewVerifier returns a verifier of the state that m describes. length is the length of the
// file; an *Error with reason ErrShort is returned if it is too short for the state. The caller
// sets Pair before it walks a bucket.
func NewVerifier(ctx context.Context, r io.ReaderAt, length int64, m Meta) (*Verifier, error) {
	if err := m.Fits(length); err != nil {
		return nil, err
	}
	v := &Verifier{}
	v.Walker = NewWalker(ctx, r, length, m, Visitor{
		Report: func(page uint64, err error) { v.Fail(m.Offset(page), err) },
	})
	return v, nil
}

// Fail records a problem at a file offset, unless there was one before.
func (v *Verifier) Fail(at int64, err error) {
	if v.First == nil {
		v.First = &Error{ErrDamaged, at, err}
	}
}
