package query

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/anndb/anndb/vector"
)

// Sketches of signs rank rows whose variance is spread over more coordinates than a cache line has
// room for. They are the codes of RaBitQ (Gao and Long 2024): a row, minus the mean, is rotated at
// random, and of each coordinate of the result only the sign is stored. With z the rotated row and s
// its signs, the estimate of ⟨q, x⟩ is factor·⟨rotated q, s⟩, where factor = ‖x‖²/⟨z,
// s⟩ makes it exact for q = x. There can be fewer signs than coordinates, or more, which estimate
// better.
//
// The rotation multiplies by signs and applies a Hadamard transform, twice, in O(n·log n). It is the
// same for all indexes, so it is not stored.

// spreadSize returns the length of a rotated row: a power of two that has room for its coordinates and for
// the signs of sketches of width bytes.
func spreadSize(dim, width int) int {
	return 1 << bits.Len(uint(max(dim, vector.SignBits(width), 8)-1))
}

// spread writes x − mean, rotated at random and multiplied by a constant, to z, whose length is a
// spreadSize.
func spread(z, x, mean []float32) {
	for i, m := range mean[:len(x)] {
		z[i] = x[i] - m
	}
	n := min(len(z), 1<<bits.Len(uint(max(len(x), 8)-1)))
	clear(z[len(x):n])
	// The transform of a vector whose second half is zero is that of its first half, twice.
	vector.RotateSigns(z[:n], flips[0][:])
	for ; n < len(z); n *= 2 {
		copy(z[n:], z[:n])
	}
	vector.RotateSigns(z, flips[1][:])
}

// maxSpread is the largest spreadSize.
const maxSpread = 1 << 17

// flips are the signs of the two steps of the rotation: those of step i are the bits of the numbers
// i·2³², i·2³² + 1 and so on of SplitMix64 with seed 0, counted from 0.
var flips = func() (f [2][maxSpread / 64]uint64) {
	for step := range f {
		for i := range f[step] {
			x := (uint64(step)<<32 + uint64(i) + 1) * 0x9e3779b97f4a7c15
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			f[step][i] = x ^ x>>31
		}
	}
	return f
}()

// encodeSigns is Encode for sketches of signs. With a center the signs are those of x − center. With c the
// rotated center and q the rotated query, both less the mean, ⟨q−c, x−center⟩ is then estimated by
// factor·(⟨q, s⟩ − ⟨c, s⟩), whose second part does not depend on the query and is added to the
// norm.
func encodeSigns(dst []byte, x, mean, center []float32) {
	from := mean
	if center != nil {
		from = center
	}
	z := make([]float32, spreadSize(len(x), len(dst)))
	spread(z, x, from)
	clear(dst)
	sum := 0.0
	for i, y := range z[:vector.SignBits(len(dst))] {
		if sum += math.Abs(float64(y)); y > 0 {
			dst[i/8] |= 1 << (i % 8)
		}
	}
	norm, factor := float64(vector.L2Squared(x, from)), 0.0
	if sum > 0 {
		factor = norm / sum
	}
	if center != nil {
		spread(z, center, mean)
		shift := 0.0
		for i, c := range z[:vector.SignBits(len(dst))] {
			if dst[i/8]>>(i%8)&1 == 0 {
				c = -c
			}
			shift += float64(c)
		}
		norm += 2 * factor * shift
	}
	binary.LittleEndian.PutUint32(dst[len(dst)-8:], math.Float32bits(float32(factor)))
	binary.LittleEndian.PutUint32(dst[len(dst)-4:], math.Float32bits(float32(norm)))
}
