package forestindex

import (
	"slices"
	"testing"

	"github.com/anndb/anndb/query"
)

// forward returns lists of k places: row i lists the next i mod (k+1) rows.
func forward(rows, k int) []uint32 {
	lists := make([]uint32, rows*k)
	for i := range lists {
		row, place := i/k, i%k
		if lists[i] = uint32(row); place < row%(k+1) {
			lists[i] = uint32((row + place + 1) % rows)
		}
	}
	return lists
}

// padded returns the lists of a view with k places each.
func padded(v *query.NeighborView, rows int) []uint32 {
	lists := make([]uint32, rows*v.K)
	for i := range rows {
		v.Read(i, lists[i*v.K:(i+1)*v.K])
	}
	return lists
}

// What is encoded is decoded, for blocks that are full and not.
func TestNeighborBlocks(t *testing.T) {
	for _, k := range []int{1, 3, 24, maxListNeighbors} {
		per := 1 << neighborShift(k)
		if k*per > 1<<16-1 {
			t.Errorf("%d lists of %d rows do not fit", per, k)
		}
		for _, rows := range []int{k + 1, per, per + 1, 2*per + 2} {
			lists := forward(rows, k)
			var blocks [][]byte
			for _, b := range packed(lists, k) {
				blocks = append(blocks, encodeNeighbors(&b))
			}
			v, err := decodeNeighbors(blocks, rows, k)
			must(t, err)
			must(t, v.Check(rows))
			if got := padded(v, rows); !slices.Equal(got, lists) {
				t.Errorf("%d lists of at most %d rows are not what was packed", rows, k)
			}
			if _, err := decodeNeighbors(append(blocks, blocks[0]), rows, k); err == nil {
				t.Errorf("%d lists of at most %d rows, and a block behind them", rows, k)
			}
		}
	}
}

// FuzzNeighbors reads lists from any block.
func FuzzNeighbors(f *testing.F) {
	for _, b := range packed(forward(9, 4), 4) {
		f.Add(encodeNeighbors(&b), uint16(9), uint16(4))
	}
	f.Fuzz(func(t *testing.T, data []byte, rows, k uint16) {
		v, err := decodeNeighbors([][]byte{data}, int(rows), max(1, int(k)))
		if err != nil {
			return
		}
		lists := padded(v, min(int(rows), 1<<v.Shift))
		if v.Check(len(v.Blocks[0].Starts)-1) != nil {
			return
		}
		b := query.PackNeighbors(lists, v.K, 0)
		again, err := decodeNeighbors([][]byte{encodeNeighbors(&b)}, int(rows), v.K)
		if err != nil || !slices.Equal(padded(again, len(lists)/v.K), lists) {
			t.Fatalf("lists %d are read as %d, %v", lists, padded(again, len(lists)/v.K), err)
		}
	})
}
