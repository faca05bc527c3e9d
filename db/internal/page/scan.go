package page

import (
	"context"
	"encoding/binary"
	"io"
)

// Scan reads all leaf pages of a file of the given length, free ones as well, without following
// the tree: the header of a leaf page identifies it. It calls pair for every key and value, as
// Pairs does. What cannot be read is skipped.
//
// Errors: the context's.
func Scan(ctx context.Context, r io.ReaderAt, length, pageSize int64,
	pair func(key, value []byte, at int64)) error {
	head := make([]byte, HeaderSize)
	le := binary.LittleEndian
	for id := int64(2); (id+1)*pageSize <= length; id++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := id * pageSize
		if _, err := r.ReadAt(head, at); err != nil {
			continue // an unreadable sector loses only its own contents
		}
		if le.Uint64(head) != uint64(id) || le.Uint16(head[8:]) != Leaf {
			continue
		}
		buf := make([]byte, min((int64(le.Uint32(head[12:]))+1)*pageSize, length-at, maxRun))
		if n, err := r.ReadAt(buf, at); err != nil {
			buf = buf[:n]
		}
		Pairs(buf, at, pair)
	}
	return nil
}

// Pairs calls pair for the keys and values of a leaf page, and for those of the inline buckets
// in it, with the file offsets of the values; the page is at file offset at. It skips elements
// that are not within the page.
func Pairs(page []byte, at int64, pair func(key, value []byte, at int64)) {
	pairs(page, at, true, pair)
}

func pairs(page []byte, at int64, nested bool, pair func(key, value []byte, at int64)) {
	if len(page) < HeaderSize {
		return
	}
	le := binary.LittleEndian
	for i := range int(le.Uint16(page[10:])) {
		e := HeaderSize + i*ElementSize
		if e+ElementSize > len(page) {
			return
		}
		flags, k, v := le.Uint32(page[e:]), uint64(le.Uint32(page[e+8:])), uint64(le.Uint32(page[e+12:]))
		from := uint64(e) + uint64(le.Uint32(page[e+4:]))
		if from+k+v > uint64(len(page)) {
			continue
		}
		key, value := page[from:from+k], page[from+k:from+k+v]
		switch {
		case flags == 0:
			pair(key, value, at+int64(from+k))
		case nested && len(value) > bucketHeader && le.Uint64(value) == 0:
			pairs(value[bucketHeader:], at+int64(from+k)+bucketHeader, false, pair)
		}
	}
}
