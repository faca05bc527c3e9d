package layout

import (
	"math"
	"slices"
	"testing"
)

// TestEntries: a number takes the bytes that it needs, and each wrong byte is noticed.
func TestEntries(t *testing.T) {
	key := KeyOf(7, []byte("k"))
	for n, size := range map[uint64]int{
		0: 4, 1: 5, 255: 5, 256: 6, 1<<24 - 1: 7, 1 << 24: 8, math.MaxUint64: 12,
	} {
		v := EntryValue("keys", key, n)
		if got, ok := EntryNumber("keys", key, v); got != n || !ok || len(v) != size {
			t.Errorf("%d is read as %d, %v, from %d bytes", n, got, ok, len(v))
		}
		for i := range v {
			bad := slices.Clone(v)
			bad[i] ^= 1
			if _, ok := EntryNumber("keys", key, bad); ok {
				t.Errorf("%d: byte %d is wrong", n, i)
			}
		}
		for _, bad := range [][]byte{v[:len(v)-1], append(slices.Clone(v), 0), nil} {
			if _, ok := EntryNumber("keys", key, bad); ok {
				t.Errorf("%d: %d bytes of %d", n, len(bad), len(v))
			}
		}
	}
}
