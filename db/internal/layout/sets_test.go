package layout

import (
	"errors"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
)

func FuzzSet(f *testing.F) {
	for _, numbers := range [][]uint32{nil, {0}, {1, 5, 65535}, {65536}} {
		set := roaring.BitmapOf(numbers...)
		data, err := set.ToBytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		set.AddRange(100, 9000)
		set.RunOptimize()
		if data, err = set.ToBytes(); err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	key := codec.Key(7, codec.KindTombstones, 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		value := codec.Encode(key[:], codec.Header{Kind: codec.KindTombstones}, data)
		set, err := DecodeSet("c", key[:], value)
		if err != nil {
			if !errors.Is(err, fail.ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		n := uint64(0)
		for it := set.Iterator(); it.HasNext(); n++ {
			if row := it.Next(); row > 0xffff {
				t.Fatalf("the set holds %d", row)
			}
		}
		if n != set.GetCardinality() || n > 1<<16 {
			t.Fatalf("%d rows are counted as %d", n, set.GetCardinality())
		}
		again, err := set.ToBytes()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := DecodeSet("c", key[:], codec.Encode(key[:], codec.Header{Kind: codec.KindTombstones}, again)); err != nil || !b.Equals(set) {
			t.Fatalf("the set does not come back: %v", err)
		}
	})
}
