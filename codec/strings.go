package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Strings is a read-only table of byte strings: the count n, n+1 offsets (all
// uint32, little-endian; the first offset is 0 and offsets do not decrease), then
// the bytes. It aliases the payload it was made from. The zero value is the empty
// table.
type Strings struct {
	offsets []byte
	bytes   []byte
	n       int
}

// AppendStrings appends the table of the given strings to dst. Their total length
// must stay below 4 GiB, the limit of an offset; NewStrings rejects a longer table.
func AppendStrings(dst []byte, items [][]byte) []byte {
	var at uint32
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(items)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	for _, s := range items {
		at += uint32(len(s))
		dst = binary.LittleEndian.AppendUint32(dst, at)
	}
	for _, s := range items {
		dst = append(dst, s...)
	}
	return dst
}

// NewStrings reads a table written by AppendStrings and checks every offset,
// so that At does not need to check them. The payload must be exactly the table.
// O(n).
//
// Errors: ErrCorrupt.
func NewStrings(payload []byte) (Strings, error) {
	if len(payload) < 8 {
		return Strings{}, fmt.Errorf("%w: string table of %d bytes", ErrCorrupt, len(payload))
	}
	n := uint64(binary.LittleEndian.Uint32(payload))
	if 4+4*(n+1) > uint64(len(payload)) {
		return Strings{}, fmt.Errorf("%w: string table of %d entries in %d bytes", ErrCorrupt, n, len(payload))
	}
	t := Strings{n: int(n), offsets: payload[4 : 4+4*(n+1)], bytes: payload[4+4*(n+1):]}
	var prev uint32
	for i := 0; i <= t.n; i++ {
		at := binary.LittleEndian.Uint32(t.offsets[4*i:])
		if at < prev || uint64(at) > uint64(len(t.bytes)) || i == 0 && at != 0 {
			return Strings{}, fmt.Errorf("%w: string table: offset %d is %d", ErrCorrupt, i, at)
		}
		prev = at
	}
	if uint64(prev) != uint64(len(t.bytes)) {
		return Strings{}, fmt.Errorf("%w: string table: %d bytes after the last entry",
			ErrCorrupt, len(t.bytes)-int(prev))
	}
	return t, nil
}

// All returns copies of the strings. O(bytes).
func (t Strings) All() []string {
	out := make([]string, t.n)
	for i := range out {
		out[i] = string(t.At(i))
	}
	return out
}

// AppendLengths appends the strings in a form to be compressed: the count n and n lengths (uint32,
// little-endian), then the bytes. Offsets, which differ from each other, would compress to two bytes each.
// The total length must stay below 4 GiB.
func AppendLengths(dst []byte, items [][]byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(items)))
	for _, s := range items {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	}
	for _, s := range items {
		dst = append(dst, s...)
	}
	return dst
}

// NewLengths reads what AppendLengths has written. The payload must be exactly that; the table aliases its
// bytes. O(n).
//
// Errors: ErrCorrupt.
func NewLengths(payload []byte) (Strings, error) {
	if len(payload) < 4 {
		return Strings{}, fmt.Errorf("%w: strings of %d bytes", ErrCorrupt, len(payload))
	}
	n := uint64(binary.LittleEndian.Uint32(payload))
	if 4+4*n > uint64(len(payload)) {
		return Strings{}, fmt.Errorf("%w: %d strings in %d bytes", ErrCorrupt, n, len(payload))
	}
	t := Strings{n: int(n), offsets: make([]byte, 4*(n+1)), bytes: payload[4+4*n:]}
	at := uint64(0)
	for i := 1; i <= t.n; i++ {
		if at += uint64(binary.LittleEndian.Uint32(payload[4*i:])); at > min(uint64(len(t.bytes)), math.MaxUint32) {
			return Strings{}, fmt.Errorf("%w: string %d ends at byte %d of %d", ErrCorrupt, i-1, at, len(t.bytes))
		}
		binary.LittleEndian.PutUint32(t.offsets[4*i:], uint32(at))
	}
	if at != uint64(len(t.bytes)) {
		return Strings{}, fmt.Errorf("%w: %d bytes after the last string", ErrCorrupt, uint64(len(t.bytes))-at)
	}
	return t, nil
}

// Len returns the number of strings.
func (t Strings) Len() int { return t.n }

// At returns string i, which aliases the payload, or nil if i is out of range. O(1).
func (t Strings) At(i int) []byte {
	if i < 0 || i >= t.n {
		return nil
	}
	lo := binary.LittleEndian.Uint32(t.offsets[4*i:])
	hi := binary.LittleEndian.Uint32(t.offsets[4*i+4:])
	return t.bytes[lo:hi:hi]
}
