package page

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"testing"
)

// makePage returns a page of 1 KiB. An element of a branch is a page number of 8 bytes and the
// key; one of a leaf is a key of one byte and the value.
func makePage(id uint64, flags uint16, elements ...[]byte) []byte {
	p := make([]byte, 1024)
	le := binary.LittleEndian
	le.PutUint64(p, id)
	le.PutUint16(p[8:], flags)
	le.PutUint16(p[10:], uint16(len(elements)))
	next := HeaderSize + ElementSize*len(elements)
	for i, e := range elements {
		at := HeaderSize + ElementSize*i
		if flags == Branch {
			le.PutUint32(p[at:], uint32(next-at))
			le.PutUint32(p[at+4:], uint32(len(e)-8))
			copy(p[at+8:], e[:8])
			next += copy(p[next:], e[8:])
			continue
		}
		le.PutUint32(p[at+4:], uint32(next-at))
		le.PutUint32(p[at+8:], 1)
		le.PutUint32(p[at+12:], uint32(len(e)-1))
		next += copy(p[next:], e)
	}
	return p
}

// childOf returns an element of a branch page.
func childOf(id uint64, key string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, id), key...)
}

// asBucket marks an element of a leaf page as a bucket.
func asBucket(page []byte, element int) []byte {
	binary.LittleEndian.PutUint32(page[HeaderSize+ElementSize*element:], 1)
	return page
}

// FuzzWalk walks arbitrary bytes as if they were pages of 1 KiB. It must end, read nothing
// outside, and visit no page twice.
func FuzzWalk(f *testing.F) {
	blank := make([]byte, 2048)
	f.Add(slices.Concat(blank, makePage(2, Leaf, []byte("a1"), []byte("b22"))), byte(Values))
	f.Add(slices.Concat(blank, makePage(2, Branch, childOf(3, "a"), childOf(4, "m")),
		makePage(3, Leaf, []byte("a1"), []byte("b22")), makePage(4, Leaf, []byte("n"))), byte(Values))
	f.Add(slices.Concat(blank, makePage(2, Branch, childOf(3, "a"), childOf(2, "m")),
		makePage(3, Branch, childOf(2, "a"))), byte(Keys))
	outer := append(append([]byte("b"), make([]byte, 16)...), makePage(0, Leaf, []byte("a1"))[:34]...)
	f.Add(slices.Concat(blank, asBucket(makePage(2, Leaf, outer), 0), makePage(3, Freelist)), byte(Values))
	tree := append([]byte("t"), binary.LittleEndian.AppendUint64(nil, 4)...)
	f.Add(slices.Concat(blank, asBucket(makePage(2, Leaf, append(tree, make([]byte, 8)...)), 0),
		makePage(3, Freelist), makePage(4, Leaf, []byte("a1"))), byte(Keys))
	f.Fuzz(func(t *testing.T, data []byte, mode byte) {
		if len(data) > 1<<20 {
			return
		}
		// The meta page claims two pages more than there are.
		m := Meta{PageSize: 1024, Root: 2, Freelist: 3, High: uint64(len(data)/1024 + 2)}
		visits := 0
		w := NewWalker(t.Context(), bytes.NewReader(data), int64(len(data)), m, Visitor{
			Report: func(uint64, error) {},
			Pair: func(_, key, value []byte, at int64) {
				if visits++; visits > len(data) || at < 0 || at+int64(len(value)) > int64(len(data)) ||
					len(key)+len(value) > len(data) {
					t.Fatalf("%d pairs, the last of %d bytes at %d, in %d bytes",
						visits, len(key)+len(value), at, len(data))
				}
				if value != nil && !bytes.Equal(value, data[at:at+int64(len(value))]) {
					t.Fatalf("the value at %d is not the one of the file", at)
				}
			},
		})
		w.Buckets(func(b Bucket) {
			_ = b.CheckHeader() // must not panic
			w.Walk(b, Mode(mode%3))
		})
		if free := w.Freelist(); free > len(data)/8 {
			t.Fatalf("%d free pages listed in %d bytes", free, len(data))
		}
		if w.Used(m.High) || w.Used(uint64(len(data)/1024)) {
			t.Fatal("a page beyond the end of the file is in use")
		}
	})
}

// FuzzPairs searches arbitrary bytes as a leaf page: every pair is within it.
func FuzzPairs(f *testing.F) {
	f.Add(makePage(2, Leaf, []byte("a1"), []byte("b22")))
	f.Add(asBucket(makePage(2, Leaf, append(append([]byte("b"), make([]byte, 16)...),
		makePage(0, Leaf, []byte("a1"))[:34]...)), 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		const base = 4096
		Pairs(data, base, func(key, value []byte, at int64) {
			from := int(at - base)
			if from < len(key) || from+len(value) > len(data) ||
				!bytes.Equal(value, data[from:from+len(value)]) || !bytes.Equal(key, data[from-len(key):from]) {
				t.Fatalf("a pair of %d and %d bytes at %d of %d", len(key), len(value), from, len(data))
			}
		})
	})
}

// FuzzMeta reads arbitrary bytes as meta pages. What is accepted can be used without overflows.
func FuzzMeta(f *testing.F) {
	meta := metaBytes(Meta{PageSize: Size, Root: 3, Freelist: 2, High: 4, TxID: 1})
	f.Add(meta, false)
	f.Add(meta, true)
	f.Add(slices.Concat(meta, make([]byte, Size-len(meta)), meta), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, sum bool) {
		if sum && len(data) >= metaSize {
			// A valid checksum lets the fuzzer past it.
			data = sealed(bytes.Clone(data))
		}
		check := func(m Meta, err error) {
			if err == nil && (m.Root < 2 || m.Root >= m.High || m.PageSize < 1024 ||
				m.High > math.MaxInt64/uint64(m.PageSize) || m.Bytes() < 4<<10) {
				t.Fatalf("accepted %+v", m)
			}
		}
		check(ParseMeta(data))
		metas := ReadMetas(bytes.NewReader(data))
		for i := range metas.Meta {
			check(metas.Meta[i], metas.Err[i])
		}
		if _, err := metas.Latest(); (err == nil) != (len(metas.Valid()) > 0) {
			t.Fatalf("%d usable meta pages, and %v", len(metas.Valid()), err)
		}
	})
}

// metaBytes returns a meta page with its checksum.
func metaBytes(m Meta) []byte {
	b := make([]byte, metaSize)
	le := binary.LittleEndian
	p := b[HeaderSize:]
	le.PutUint32(p, magic)
	le.PutUint32(p[4:], version)
	le.PutUint32(p[8:], m.PageSize)
	le.PutUint64(p[16:], m.Root)
	le.PutUint64(p[32:], m.Freelist)
	le.PutUint64(p[40:], m.High)
	le.PutUint64(p[48:], m.TxID)
	return sealed(b)
}

// sealed gives a meta page the checksum of its content.
func sealed(b []byte) []byte {
	h := fnv.New64a()
	_, _ = h.Write(b[HeaderSize : HeaderSize+56])
	binary.LittleEndian.PutUint64(b[HeaderSize+56:], h.Sum64())
	return b
}
