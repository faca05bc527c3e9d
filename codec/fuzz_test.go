package codec

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzParse checks that Parse and Verify accept exactly the bytes that Encode writes.
func FuzzParse(f *testing.F) {
	for _, payload := range [][]byte{nil, []byte("x"), make([]byte, 16), make([]byte, 100)} {
		f.Add([]byte("key"), Encode([]byte("key"), Header{Kind: KindRows, Elem: U8, Rows: 1, Cols: 7}, payload))
	}
	if v, err := EncodeCompressed([]byte("key"), Header{Kind: KindCold}, make([]byte, 500)); err == nil {
		f.Add([]byte("key"), v)
	}
	f.Add([]byte(nil), []byte("ANNB"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		b, err := Parse(value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotBlock) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if uint64(len(b.Payload)) != b.Stored {
			t.Fatalf("%d bytes of payload, header says %d", len(b.Payload), b.Stored)
		}
		// Random bytes never pass Verify; a computed checksum lets the fuzzer
		// past it.
		for _, v := range [][]byte{value, seal(key, b.Header, b.Payload)} {
			b, err := Parse(v)
			must(t, err)
			if b.Verify(key) == nil && !bytes.Equal(seal(key, b.Header, b.Payload), v) {
				t.Fatalf("accepted a block that is not encoded like ours: % x", v)
			}
		}
		if data, err := b.Data(1 << 16); err == nil && uint64(len(data)) != b.Raw || len(data) > 1<<16 {
			t.Fatalf("%d bytes of data, header says %d: %v", len(data), b.Raw, err)
		}
	})
}

// FuzzData decodes arbitrary zstd frames under headers that state arbitrary lengths.
func FuzzData(f *testing.F) {
	for _, n := range []int{0, 1, 300, 200_000} {
		v, err := EncodeCompressed(nil, Header{Kind: KindCold}, make([]byte, n))
		must(f, err)
		b, err := Parse(v)
		must(f, err)
		f.Add(b.Payload, uint64(n), uint64(1<<18))
		f.Add(b.Payload, uint64(n)+1, uint64(n))
		f.Add(append(bytes.Clone(b.Payload), b.Payload...), uint64(n), uint64(1<<18))
	}
	f.Add([]byte("\x28\xb5\x2f\xfd\x20\x14\x28\x00\x00anndb\x7b\x00\x00!"), uint64(20), uint64(20))
	f.Fuzz(func(t *testing.T, stored []byte, raw, limit uint64) {
		b, err := compressedBlock(stored, raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		limit = min(limit, 1<<20)
		data, err := b.Data(limit)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if uint64(len(data)) > limit || uint64(len(data)) != raw {
			t.Fatalf("%d bytes, promised %d, limit %d", len(data), raw, limit)
		}
	})
}

// FuzzStrings checks that an accepted table is exactly what AppendStrings writes.
func FuzzStrings(f *testing.F) { fuzzStrings(f, AppendStrings, NewStrings) }

// FuzzLengths checks that accepted strings are exactly what AppendLengths writes.
func FuzzLengths(f *testing.F) { fuzzStrings(f, AppendLengths, NewLengths) }

func fuzzStrings(f *testing.F, write func([]byte, [][]byte) []byte, read func([]byte) (Strings, error)) {
	f.Add(write(nil, nil))
	f.Add(write(nil, [][]byte{[]byte("boot"), nil, []byte("bag")}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, err := read(payload)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		items := make([][]byte, s.Len())
		for i := range items {
			items[i] = s.At(i)
		}
		if got := write(nil, items); !bytes.Equal(got, payload) {
			t.Fatalf("% x was read as % x", payload, got)
		}
	})
}

// FuzzParseKey checks that an accepted key is the key that Key writes.
func FuzzParseKey(f *testing.F) {
	k := Key(7, KindLeaves, 3)
	f.Add(k[:])
	f.Add(k[:15])
	f.Add(bytes.Repeat([]byte{0xff}, 16))
	f.Fuzz(func(t *testing.T, key []byte) {
		object, section, chunk := ParseKey(key)
		if object == 0 && section == 0 && chunk == 0 {
			return
		}
		if got := Key(object, section, chunk); !bytes.Equal(got[:], key) {
			t.Fatalf("% x was read as % x", key, got)
		}
	})
}
