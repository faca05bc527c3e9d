package codec

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// Number is the constraint for the elements of a column.
type Number interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32 | ~float64
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// View returns the first n little-endian numbers of payload. If the machine is
// little-endian and the payload is aligned for T, the result aliases the payload, as
// it does for blocks in the map; otherwise it is a copy. A view of mapped memory
// must not be written to.
//
// Errors: ErrCorrupt if the payload has fewer than n elements.
func View[T Number](payload []byte, n int) ([]T, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if n < 0 || n > len(payload)/size {
		return nil, fmt.Errorf("%w: %d elements of %d bytes in a payload of %d", ErrCorrupt, n, size, len(payload))
	}
	if n == 0 {
		return nil, nil
	}
	p := unsafe.Pointer(unsafe.SliceData(payload))
	if littleEndian && uintptr(p)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(p), n), nil
	}
	out := make([]T, n)
	copyLittle(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), n*size), payload, size)
	return out, nil
}

// Bytes returns the little-endian form of s: an alias of its memory on
// little-endian machines, a copy on others.
func Bytes[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	size := int(unsafe.Sizeof(s[0]))
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*size)
	if littleEndian {
		return raw
	}
	out := make([]byte, len(raw))
	copyLittle(out, raw, size)
	return out
}

// copyLittle copies elements of size bytes between native and little-endian order;
// on big-endian machines it reverses the bytes of each element.
func copyLittle(dst, src []byte, size int) {
	if littleEndian || size == 1 {
		copy(dst, src)
		return
	}
	for at := 0; at+size <= len(dst); at += size {
		for j := range size {
			dst[at+j] = src[at+size-1-j]
		}
	}
}
