package forestindex

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
)

// neighborShift returns log2 of the number of neighbor lists of at most k rows that a block holds: as many
// as a uint16 can count places for, and at most 2,048.
func neighborShift(k int) uint {
	s := uint(0)
	for s < 11 && k<<(s+1) <= math.MaxUint16 {
		s++
	}
	return s
}

// packed returns the blocks of neighbor lists, which have k places each.
func packed(lists []uint32, k int) (blocks []query.NeighborBlock) {
	per := k << neighborShift(k)
	for at := 0; at < len(lists); at += per {
		blocks = append(blocks, query.PackNeighbors(lists[at:min(at+per, len(lists))], k, at/k))
	}
	return blocks
}

// startsSize returns the bytes of the starts of n lists and the padding behind them, which aligns the row
// numbers.
func startsSize(n int) int { return 4 * (n/2 + 1) }

// encodeNeighbors returns the stored form of a block.
func encodeNeighbors(b *query.NeighborBlock) []byte {
	ids := startsSize(len(b.Starts) - 1)
	data := append(make([]byte, 0, ids+4*len(b.IDs)), codec.Bytes(b.Starts)...)
	return append(data[:ids], codec.Bytes(b.IDs)...)
}

// decodeNeighbors returns a view of the stored lists of rows, at most k each. Searches ignore row numbers and
// starts of lists that are out of range.
func decodeNeighbors(blocks [][]byte, rows, k int) (*query.NeighborView, error) {
	v := &query.NeighborView{K: k, Shift: neighborShift(k)}
	for i, data := range blocks {
		n := min(1<<v.Shift, rows-i<<v.Shift)
		if n <= 0 || len(data) < startsSize(n) {
			return nil, fmt.Errorf("block %d of the neighbor lists is short", i)
		}
		starts, err := codec.View[uint16](data, n+1)
		if err != nil {
			return nil, err
		}
		data = data[startsSize(n):]
		ids, err := codec.View[uint32](data, len(data)/4)
		if err != nil {
			return nil, err
		}
		v.Blocks = append(v.Blocks, query.NeighborBlock{Starts: starts, IDs: ids})
	}
	return v, nil
}
