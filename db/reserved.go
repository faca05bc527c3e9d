package db

import (
	"unsafe"

	"github.com/anndb/anndb/codec"
)

// reservedBlocks are blocks that arrays are made in, by where their payloads
// begin: a large array is then stored without having been copied into a block,
// which costs most for the memory that the copy takes.
type reservedBlocks map[*byte]codec.Reserved

// reserve makes n zero elements in a block.
func reserve[T codec.Number](r reservedBlocks, n int) []T {
	var zero T
	block := codec.Reserve(n * int(unsafe.Sizeof(zero)))
	x, err := codec.View[T](block.Payload, n)
	if err != nil || n == 0 {
		return make([]T, n)
	}
	r[unsafe.SliceData(block.Payload)] = block // of no use where the view is a copy
	return x
}

// seal is the block of an array that was made in one and fills it, or nil.
func (r reservedBlocks) seal(key []byte, h codec.Header, data []byte) []byte {
	block, ok := r[unsafe.SliceData(data)]
	if !ok || len(block.Payload) != len(data) {
		return nil
	}
	return block.Seal(key, h)
}
