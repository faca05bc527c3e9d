package hdf5

import (
	"encoding/binary"
	"math/bits"
)

// lookup3 is the checksum of metadata: Bob Jenkins' hashlittle with the initial value 0.
func lookup3(b []byte) uint32 {
	x := 0xdeadbeef + uint32(len(b))
	s := [3]uint32{x, x, x}
	if len(b) == 0 {
		return x
	}
	for ; len(b) > 12; b = b[12:] {
		for i := range s {
			s[i] += binary.LittleEndian.Uint32(b[4*i:])
		}
		for i, r := range [...]int{4, 6, 8, 16, 19, 4} {
			p, q, n := &s[i%3], &s[(i+2)%3], &s[(i+1)%3]
			*p -= *q
			*p ^= bits.RotateLeft32(*q, r)
			*q += *n
		}
	}
	var tail [12]byte
	copy(tail[:], b)
	for i := range s {
		s[i] += binary.LittleEndian.Uint32(tail[4*i:])
	}
	for i, r := range [...]int{14, 11, 25, 16, 4, 14, 24} {
		p, q := &s[(i+2)%3], &s[(i+1)%3]
		*p ^= *q
		*p -= bits.RotateLeft32(*q, r)
	}
	return s[2]
}

// fletcher32 is the checksum of chunks: sums of big-endian words of 16 bits modulo 65535.
func fletcher32(b []byte) uint32 {
	var s1, s2 uint32
	fold := func() {
		s1 = s1&0xffff + s1>>16
		s2 = s2&0xffff + s2>>16
	}
	for len(b) > 1 {
		n := min(len(b)/2, 360)
		for i := range n {
			s1 += uint32(b[2*i])<<8 | uint32(b[2*i+1])
			s2 += s1
		}
		b = b[2*n:]
		fold()
	}
	if len(b) == 1 {
		s1 += uint32(b[0]) << 8
		s2 += s1
		fold()
	}
	fold()
	return s2<<16 | s1
}
