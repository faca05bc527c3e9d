package postings

import (
	"math"
	"math/bits"

	"github.com/anndb/anndb/vector"
)

// windowBits is the width of a row's number inside a window of rows.
const (
	windowBits = 16
	windowRows = 1 << windowBits
)

// Blocks are lists with 16-bit row numbers. With at most windowRows rows, list j is entries
// Ptr[j]:Ptr[j+1] of Low. With more, it is containers Ptr[j]:Ptr[j+1], ascending by Key, as in
// a roaring bitmap: container c holds the rows Key[c]<<16 + Low[e], e from Start[c] to
// Start[c+1], ascending.
type Blocks struct {
	Ptr   []uint32
	Key   []uint16
	Start []uint32
	Low   []uint16
	// Code[e] is the value of entry e in steps of its feature; nil where lists
	// have no values.
	Code []uint8
}

// span is a range of entries or of containers.
type span struct{ lo, hi uint32 }

func (b *Blocks) span(j uint32) span { return span{b.Ptr[j], b.Ptr[j+1]} }

// next removes window w from the front of a list. The caller requests windows in ascending
// order; wide means that lists have containers.
func (b *Blocks) next(s *span, w int, wide bool) span {
	if !wide {
		all := *s
		s.lo = s.hi
		return all
	}
	if s.lo == s.hi || int(b.Key[s.lo]) != w {
		return span{}
	}
	c := s.lo
	s.lo++
	return span{b.Start[c], b.Start[c+1]}
}

// begin starts the list of the next feature.
func (b *Blocks) begin(wide bool) {
	if wide {
		b.Ptr = append(b.Ptr, uint32(len(b.Key)))
	} else {
		b.Ptr = append(b.Ptr, uint32(len(b.Low)))
	}
}

// add appends an entry to the current list; rows ascend.
func (b *Blocks) add(row uint32, wide bool) {
	if wide {
		key := uint16(row >> windowBits)
		if n := len(b.Key); uint32(n) == b.Ptr[len(b.Ptr)-1] || b.Key[n-1] != key {
			b.Key = append(b.Key, key)
			b.Start = append(b.Start, uint32(len(b.Low)))
		}
	}
	b.Low = append(b.Low, uint16(row))
}

// end closes the last list.
func (b *Blocks) end(wide bool) {
	b.begin(wide)
	if wide {
		b.Start = append(b.Start, uint32(len(b.Low)))
	}
}

// rows calls f with the rows of a list.
func (b *Blocks) rows(j uint32, wide bool, f func(row uint32)) (n int) {
	s := b.span(j)
	if !wide {
		for _, low := range b.Low[s.lo:s.hi] {
			f(uint32(low))
		}
		return int(s.hi - s.lo)
	}
	for c := s.lo; c < s.hi; c++ {
		for _, low := range b.Low[b.Start[c]:b.Start[c+1]] {
			f(uint32(b.Key[c])<<windowBits | uint32(low))
		}
		n += int(b.Start[c+1] - b.Start[c])
	}
	return n
}

// Columns is the set of features that have a cell for every row instead of a list. The number
// of a column is the Rank of its word plus the set bits below it, in feature order.
type Columns struct {
	Has  []uint64 // one bit per feature
	Rank []uint32 // number of columns before the word
}

func (c *Columns) find(j uint32) (column int, ok bool) {
	word, bit := c.Has[j/64], uint64(1)<<(j%64)
	return int(c.Rank[j/64]) + bits.OnesCount64(word&(bit-1)), word&bit != 0
}

// makeColumns returns the columns of the features for which chosen is true, and their number.
func makeColumns(features int, chosen func(j int) bool) (Columns, int) {
	words := (features + 63) / 64
	c := Columns{make([]uint64, words), make([]uint32, words)}
	n := 0
	for j := range features {
		if j%64 == 0 {
			c.Rank[j/64] = uint32(n)
		}
		if chosen(j) {
			c.Has[j/64] |= 1 << (j % 64)
			n++
		}
	}
	return c, n
}

// lengths counts the entries above zero of every feature.
func lengths(byFeature *vector.CSR) []uint32 {
	n := make([]uint32, byFeature.Rows())
	for j := range n {
		for e := byFeature.Ptr[j]; e < byFeature.Ptr[j+1]; e++ {
			if valueAt(byFeature, e) > 0 {
				n[j]++
			}
		}
	}
	return n
}

// columnSizes are the sizes of a structure in bytes: of a column, of everything but lists and columns,
// of an entry of a list, and the largest allowed size per entry.
type columnSizes struct {
	column, fixed  int
	entry, allowed float64
}

// columnThreshold returns the minimum length of a list that becomes a column. It is a share of
// the rows, or more if the index would otherwise need more than the allowed bytes per entry.
func columnThreshold(length []uint32, rows int, share float64, sizes columnSizes) uint32 {
	atLeast := max(uint32(math.Ceil(float64(rows)*share)), 1)
	byLength := make(map[uint32]int)
	total := 0
	for _, n := range length {
		total += int(n)
		if n >= atLeast {
			byLength[n]++
		}
	}
	spare := float64(total)*(sizes.allowed-sizes.entry) - float64(sizes.fixed)
	for n := uint32(rows); n > atLeast; n-- {
		extra := float64(byLength[n]) * (float64(sizes.column) - sizes.entry*float64(n))
		if extra > 0 && extra > spare {
			return n + 1
		}
		spare -= extra
	}
	return atLeast
}

// storedBytes returns the approximate size of a stored index without its lists and columns: the
// lengths of the rows, the set of columns, the headers of arrays.
func storedBytes(rows *vector.CSR) int { return 8*rows.Rows() + rows.Cols/5 + 1024 }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func (b *Blocks) bytes() int {
	return 4*len(b.Ptr) + 2*len(b.Key) + 4*len(b.Start) + 2*len(b.Low) + len(b.Code)
}

func (c *Columns) bytes() int { return 8*len(c.Has) + 4*len(c.Rank) }
