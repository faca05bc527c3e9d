package grouped

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPack compares features with what is unpacked.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Evidence
		for i := range rapid.IntRange(0, 4).Draw(t, "features") {
			f := Feature{Number: uint32(i), Labels: []uint32{}, Sums: []int64{}}
			for range rapid.IntRange(0, 20).Draw(t, "labels") {
				f.Labels = append(f.Labels, rapid.Uint32().Draw(t, "label"))
				f.Sums = append(f.Sums, rapid.Int64Range(1, math.MaxInt64).Draw(t, "sum"))
			}
			e.Features = append(e.Features, f)
		}
		got := e
		got.Features = slices.Clone(e.Features)
		got.Pack()
		if err := got.Unpack(); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v, %v, want %+v", got, err, e)
		}
	})
}

// FuzzUnpack unpacks bytes that are no features: an error, or as many sums as labels.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{1, 255, 255, 255, 255, 255, 1, 1, 0})
	f.Fuzz(func(t *testing.T, packed []byte) {
		e := Evidence{Features: make([]Feature, 2), Packed: packed}
		if e.Unpack() != nil {
			return
		}
		for _, x := range e.Features {
			if len(x.Labels) != len(x.Sums) {
				t.Fatalf("%d labels, %d sums", len(x.Labels), len(x.Sums))
			}
		}
	})
}
