package hdf5

import "testing"

// TestChecksums: the first values are those of the author of lookup3, the last follows from the definition.
func TestChecksums(t *testing.T) {
	if got := lookup3(nil); got != 0xdeadbeef {
		t.Errorf("%#x", got)
	}
	if got := lookup3([]byte("Four score and seven years ago")); got != 0x17770551 {
		t.Errorf("%#x", got)
	}
	if got := fletcher32([]byte("abcdef")); got != 0x50562a2d {
		t.Errorf("%#x", got)
	}
}
