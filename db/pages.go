package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// This file reads bbolt's pages without bbolt: with bounds-checked reads of the file, trusting
// no byte. bbolt itself follows page numbers and offsets without checks, so a damaged file can
// crash it or make it loop.
//
// A page is a 16-byte header (id u64, flags u16, count u16, overflow u32), then count elements
// of 16 bytes, then keys and values; it extends over overflow further pages. Numbers are in the
// byte order of the machine that wrote the file. bbolt files, and ours, are little-endian on
// every supported platform; the magic number refuses others.

const (
	pageHeader  = 16
	pageElement = 16

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	noFreelist = ^uint64(0)
	// maxDepthPages bounds the depth of a tree of pages: a page holds at least
	// two keys, so a deeper tree has a cycle.
	maxDepthPages = 64
)

// metaPage is the content of one of the two meta pages.
type metaPage struct {
	pageSize uint32
	root     uint64
	freelist uint64
	high     uint64 // first page number not in use
	txid     uint64
}

// parseMeta reads a meta page from its first 80 bytes.
func parseMeta(b []byte) (m metaPage, err error) {
	if len(b) < pageHeader+64 {
		return m, io.ErrUnexpectedEOF
	}
	b = b[pageHeader:]
	le := binary.LittleEndian
	if le.Uint32(b) != boltMagic {
		return m, fmt.Errorf("%w: magic number %#x", ErrNotDatabase, le.Uint32(b))
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	if sum := le.Uint64(b[56:]); sum != h.Sum64() {
		return m, fmt.Errorf("%w: meta checksum %#x, stored %#x", ErrCorrupt, h.Sum64(), sum)
	}
	if v := le.Uint32(b[4:]); v != boltVersion {
		return m, fmt.Errorf("%w: page format %d", ErrNewerFormat, v)
	}
	m = metaPage{
		pageSize: le.Uint32(b[8:]), root: le.Uint64(b[16:]), freelist: le.Uint64(b[32:]),
		high: le.Uint64(b[40:]), txid: le.Uint64(b[48:]),
	}
	switch {
	case m.pageSize < 1024 || m.pageSize > 1<<20 || m.pageSize&(m.pageSize-1) != 0:
		return m, fmt.Errorf("%w: page size %d", ErrCorrupt, m.pageSize)
	case m.high < 4 || m.high > 1<<48/uint64(m.pageSize):
		return m, fmt.Errorf("%w: %d pages", ErrCorrupt, m.high)
	case m.root < 2 || m.root >= m.high, m.freelist != noFreelist && (m.freelist < 2 || m.freelist >= m.high):
		return m, fmt.Errorf("%w: root page %d, freelist page %d of %d", ErrCorrupt, m.root, m.freelist, m.high)
	}
	return m, nil
}

// readMetas reads both meta pages. The offset of the second one is the page size, which the
// first one stores. If the first one is damaged, every page size that bbolt can have used is
// tried.
func readMetas(r io.ReaderAt) (metas [2]metaPage, errs [2]error) {
	read := func(at int64) (metaPage, error) {
		buf := make([]byte, pageHeader+64)
		if n, err := r.ReadAt(buf, at); n < len(buf) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return metaPage{}, fmt.Errorf("meta page at %d: %w", at, err)
		}
		return parseMeta(buf)
	}
	metas[0], errs[0] = read(0)
	if errs[0] == nil {
		metas[1], errs[1] = read(int64(metas[0].pageSize))
		return metas, errs
	}
	for size := int64(1024); size <= 1<<20; size *= 2 {
		m, err := read(size)
		if err == nil && int64(m.pageSize) == size {
			metas[1], errs[1] = m, nil
			return metas, errs
		}
		if size == pageSize || errs[1] == nil {
			errs[1] = err
		}
	}
	if errs[1] == nil {
		errs[1] = fmt.Errorf("%w: no second meta page", ErrCorrupt)
	}
	return metas, errs
}

// pageRun is a page and its overflow pages, as far as they have been read.
type pageRun struct {
	id   uint64
	at   int64 // file offset
	buf  []byte
	flag uint16
	n    int // number of elements
	over uint32
	len  uint64 // bytes of the run; buf may hold only the first part
}

// walker visits every page reachable from a root.
type walker struct {
	ctx    context.Context
	r      io.ReaderAt
	size   uint32 // page size
	high   uint64
	file   int64 // bytes in the file
	owner  []uint8
	report func(page uint64, err error)
	// keysOnly skips the values of leaf pages; pair gets nil for them.
	keysOnly bool
	// pagesOnly reads only the headers of leaf pages, except for the root bucket's. It requires
	// keysOnly.
	pagesOnly bool
	// strict also checks the fields of bucket headers that no reader uses.
	strict bool
	// pair is called for every plain key and value of a bucket.
	pair func(bucket, key, value []byte, at int64)
}

// Page states in walker.owner.
const (
	pageUnseen uint8 = iota
	pageUsed
	pageFree
)

// maxRun is the largest run of pages read at once, in bytes. bbolt never splits a page below
// four values, of up to 1 GiB each; ours are far smaller.
const maxRun = 1 << 32

// load reads the run of pages that starts at id and marks it as used.
func (w *walker) load(id uint64, want uint16) (pageRun, bool) {
	bad := func(format string, a ...any) (pageRun, bool) {
		w.report(id, fmt.Errorf(format, a...))
		return pageRun{}, false
	}
	if id < 2 || id >= w.high {
		return bad("page number outside 2..%d", w.high-1)
	}
	at := int64(id) * int64(w.size)
	head := make([]byte, pageHeader)
	if _, err := w.r.ReadAt(head, at); err != nil {
		return bad("read header: %w", err)
	}
	le := binary.LittleEndian
	p := pageRun{
		id: id, at: at, flag: le.Uint16(head[8:]), n: int(le.Uint16(head[10:])), over: le.Uint32(head[12:]),
	}
	if got := le.Uint64(head); got != id {
		return bad("page says it is page %d", got)
	}
	if p.flag&want == 0 || p.flag&(p.flag-1) != 0 {
		return bad("page type %#x, want %#x", p.flag, want)
	}
	length := (int64(p.over) + 1) * int64(w.size)
	if id+uint64(p.over) >= w.high || at+length > w.file || length > maxRun {
		return bad("run of %d pages passes the end at page %d", p.over+1, w.high)
	}
	for i := id; i <= id+uint64(p.over); i++ {
		if w.owner[i] != pageUnseen {
			return bad("page %d is used twice", i)
		}
		w.owner[i] = pageUsed
	}
	p.len = uint64(length)
	switch {
	case w.pagesOnly && p.flag == flagLeaf:
		return p, true
	case w.keysOnly && p.flag == flagLeaf:
		length = int64(w.size)
	}
	p.buf = make([]byte, length)
	if _, err := w.r.ReadAt(p.buf, at); err != nil {
		return bad("read: %w", err)
	}
	return p, true
}

// bytes returns n bytes of a run, which must contain them, or nil if they cannot be read.
func (w *walker) bytes(p *pageRun, from, n uint64) []byte {
	if from+n <= uint64(len(p.buf)) {
		return p.buf[from : from+n]
	}
	b := make([]byte, n)
	if _, err := w.r.ReadAt(b, p.at+int64(from)); err != nil {
		w.report(p.id, fmt.Errorf("read: %w", err))
		return nil
	}
	return b
}

// walk visits the tree of pages under id. bucket is the name of the bucket that the tree
// belongs to, nil for the root bucket. lo and hi, if not nil, bound its keys: lo <= key < hi.
func (w *walker) walk(
	id uint64, bucket []byte, lo, hi []byte, depth int,
	nested func(name []byte, root uint64, inline []byte, at int64),
) {
	if w.ctx.Err() != nil {
		return
	}
	if depth > maxDepthPages {
		w.report(id, fmt.Errorf("tree of pages deeper than %d", maxDepthPages))
		return
	}
	p, ok := w.load(id, flagBranch|flagLeaf)
	if !ok {
		return
	}
	if p.flag == flagLeaf {
		w.leaf(p, bucket, lo, hi, nested)
		return
	}
	type child struct {
		id  uint64
		key []byte
	}
	var kids []child
	le := binary.LittleEndian
	next := uint64(pageHeader + p.n*pageElement) // bbolt leaves no gap between keys
	for i := range p.n {
		e := pageHeader + i*pageElement
		if e+pageElement > len(p.buf) {
			w.report(id, fmt.Errorf("%d elements in %d bytes", p.n, len(p.buf)))
			return
		}
		pos, klen := uint64(le.Uint32(p.buf[e:])), uint64(le.Uint32(p.buf[e+4:]))
		if uint64(e)+pos != next || next+klen > uint64(len(p.buf)) {
			w.report(id, fmt.Errorf("branch key %d is not in its place", i))
			return
		}
		next += klen
		key := p.buf[uint64(e)+pos : uint64(e)+pos+klen]
		// The first key of a branch may be too low after deletions; the others are exact
		// bounds.
		if i > 0 && bytes.Compare(kids[i-1].key, key) >= 0 || i > 0 && hi != nil && bytes.Compare(key, hi) >= 0 {
			w.report(id, fmt.Errorf("branch key %d is out of order", i))
			return
		}
		kids = append(kids, child{le.Uint64(p.buf[e+8:]), key})
	}
	if len(kids) == 0 {
		w.report(id, fmt.Errorf("branch page without children"))
	}
	for i, k := range kids {
		low, high := k.key, hi
		if i == 0 {
			low = lo
		}
		if i+1 < len(kids) {
			high = kids[i+1].key
		}
		w.walk(k.id, bucket, low, high, depth+1, nested)
	}
}

// leaf visits the pairs of a leaf page, or of an inline bucket.
func (w *walker) leaf(
	p pageRun, bucket []byte, lo, hi []byte, nested func(name []byte, root uint64, inline []byte, at int64),
) {
	if w.pagesOnly {
		return
	}
	le := binary.LittleEndian
	var prev []byte
	next := uint64(pageHeader + p.n*pageElement) // bbolt leaves no gap between pairs
	if next > p.len {
		w.report(p.id, fmt.Errorf("%d elements in %d bytes", p.n, p.len))
		return
	}
	// With one element or more, the position of the first one reveals a wrong count. A count
	// of zero is checked here: bbolt clears the unused part of a page.
	if p.n == 0 && p.len >= pageHeader+pageElement &&
		len(bytes.Trim(p.buf[pageHeader:pageHeader+pageElement], "\x00")) > 0 {
		w.report(p.id, fmt.Errorf("a page with elements counts none"))
	}
	for i := range p.n {
		e := uint64(pageHeader + i*pageElement)
		elem := w.bytes(&p, e, pageElement)
		if elem == nil {
			return
		}
		flags, pos := le.Uint32(elem), uint64(le.Uint32(elem[4:]))
		klen, vlen := uint64(le.Uint32(elem[8:])), uint64(le.Uint32(elem[12:]))
		if e+pos != next || next+klen+vlen > p.len {
			w.report(p.id, fmt.Errorf("leaf element %d is not in its place", i))
			return
		}
		next += klen + vlen
		from := e + pos
		key, value := w.bytes(&p, from, klen), []byte(nil)
		if !w.keysOnly {
			value = w.bytes(&p, from+klen, vlen)
		}
		if key == nil || value == nil && !w.keysOnly {
			return
		}
		at := p.at + int64(from+klen)
		switch {
		case klen == 0:
			w.report(p.id, fmt.Errorf("leaf element %d has no key", i))
		case i > 0 && bytes.Compare(prev, key) >= 0, lo != nil && bytes.Compare(key, lo) < 0,
			hi != nil && bytes.Compare(key, hi) >= 0:
			w.report(p.id, fmt.Errorf("leaf key %d is out of order", i))
		}
		prev = key
		switch {
		case flags == 0:
			if bucket == nil {
				w.report(p.id, fmt.Errorf("plain value %q among the root buckets", key))
				continue
			}
			w.pair(bucket, key, value, at)
		case flags == 1 && nested != nil && len(value) >= 16:
			if err := bucketHeader(value); w.strict && ours(key) && err != nil {
				w.report(p.id, fmt.Errorf("bucket %q: %w", key, err))
			}
			nested(key, le.Uint64(value), value[16:], at)
		default:
			w.report(p.id, fmt.Errorf("leaf element %d has flags %#x and %d bytes", i, flags, vlen))
		}
	}
}

// bucketHeader checks a bucket's value in the root bucket, except for the page number of the
// bucket's root: the sequence counter, which must be zero because our buckets do not use it;
// the page number and the overflow of an inline bucket; and that nothing follows. No query
// result depends on these.
func bucketHeader(value []byte) error {
	le := binary.LittleEndian
	if n := le.Uint64(value[8:]); n != 0 {
		return fmt.Errorf("its counter is at %d", n)
	}
	page := value[16:]
	end := 0
	if le.Uint64(value) == 0 && len(page) >= pageHeader {
		if id, over := le.Uint64(page), le.Uint32(page[12:]); id != 0 || over != 0 {
			return fmt.Errorf("stored in its parent, but as page %d with %d more", id, over)
		}
		end = pageHeader
		if n := int(le.Uint16(page[10:])); n > 0 && pageHeader+n*pageElement <= len(page) {
			at := pageHeader + (n-1)*pageElement
			e := page[at:]
			end = at + int(le.Uint32(e[4:])) + int(le.Uint32(e[8:])) + int(le.Uint32(e[12:]))
		}
	}
	if end != len(page) {
		return fmt.Errorf("%d bytes follow its header, want %d", len(page), end)
	}
	return nil
}

// inline visits the pairs of a bucket stored in its parent's value.
func (w *walker) inline(name, page []byte, at int64) {
	if len(page) < pageHeader || binary.LittleEndian.Uint16(page[8:]) != flagLeaf {
		w.report(uint64(at)/uint64(w.size), fmt.Errorf("inline bucket %q is no leaf", name))
		return
	}
	n := int(binary.LittleEndian.Uint16(page[10:]))
	w.leaf(pageRun{
		id: uint64(at) / uint64(w.size), at: at + 16, buf: page, len: uint64(len(page)), n: n,
	}, name, nil, nil, nil)
}

// shape checks, after a walk of all buckets, that every page is either in use or free and none
// is both. A damaged page number may point to a page of a former state, or skip pages. All
// pages that the walk reaches may then be valid, although entries are missing or deleted ones
// are present.
func (w *walker) shape(freelist uint64) {
	if freelist == noFreelist {
		return // another program that uses bbolt has omitted the list: there is nothing to compare
	}
	w.freelist(freelist)
	for id := uint64(2); id < w.high; id++ {
		if w.owner[id] == pageUnseen {
			w.report(id, fmt.Errorf("page %d is neither free nor in use", id))
			return
		}
	}
}

// freelist marks the free pages and reports ids that are out of range, out of order or in use.
// It returns the number of free pages.
func (w *walker) freelist(id uint64) int {
	if id == noFreelist {
		return 0
	}
	p, ok := w.load(id, flagFreelist)
	if !ok {
		return 0
	}
	le := binary.LittleEndian
	ids := p.buf[pageHeader:]
	n := uint64(p.n)
	if n == 0xffff {
		n, ids = le.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		w.report(id, fmt.Errorf("freelist of %d pages in %d bytes", n, len(ids)))
		return 0
	}
	var prev uint64
	for i := range n {
		free := le.Uint64(ids[8*i:])
		switch {
		case free < 2 || free >= w.high:
			w.report(id, fmt.Errorf("free page %d outside 2..%d", free, w.high-1))
		case free <= prev:
			w.report(id, fmt.Errorf("free page %d listed after %d", free, prev))
		case w.owner[free] == pageUsed:
			w.report(id, fmt.Errorf("page %d is both free and in use", free))
		case w.owner[free] == pageUnseen:
			w.owner[free] = pageFree
		}
		prev = free
	}
	return int(n)
}
