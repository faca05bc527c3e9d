package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// checkView compares View and Bytes with encoding/binary at every alignment.
func checkView[T Number](t *rapid.T, vals []T) {
	want, err := binary.Append(nil, binary.LittleEndian, vals)
	must(t, err)
	if got := Bytes(vals); !bytes.Equal(got, want) {
		t.Fatalf("%T: Bytes % x, want % x", vals, got, want)
	}
	buf := make([]byte, len(want)+16)
	for shift := range 9 {
		payload := buf[shift : shift+len(want)]
		copy(payload, want)
		got, err := View[T](payload, len(vals))
		must(t, err)
		// Compare bytes, not values: NaN differs from itself.
		if !bytes.Equal(Bytes(got), want) {
			t.Fatalf("%T at shift %d: %v, want %v", vals, shift, got, vals)
		}
		if _, err := View[T](payload, len(vals)+1); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%T: one too many: %v", vals, err)
		}
	}
}

func checkAllViews(t *rapid.T) {
	n := rapid.IntRange(0, 9).Draw(t, "n")
	u := rapid.SliceOfN(rapid.Uint64(), n, n).Draw(t, "values")
	u8, i8 := make([]uint8, n), make([]int8, n)
	u16, i16 := make([]uint16, n), make([]int16, n)
	u32, i32, i64 := make([]uint32, n), make([]int32, n), make([]int64, n)
	f32, f64 := make([]float32, n), make([]float64, n)
	for i, v := range u {
		u8[i], i8[i], u16[i], i16[i] = uint8(v), int8(v), uint16(v), int16(v)
		u32[i], i32[i], i64[i] = uint32(v), int32(v), int64(v)
		f32[i], f64[i] = math.Float32frombits(uint32(v)), math.Float64frombits(v)
	}
	checkView(t, u8)
	checkView(t, i8)
	checkView(t, u16)
	checkView(t, i16)
	checkView(t, u32)
	checkView(t, i32)
	checkView(t, u)
	checkView(t, i64)
	checkView(t, f32)
	checkView(t, f64)
}

func TestViewAndBytes(t *testing.T) { rapid.Check(t, checkAllViews) }

// TestOtherByteOrder pretends that the machine has the other byte order. Bytes and
// View must then each reverse every element.
func TestOtherByteOrder(t *testing.T) {
	native := littleEndian
	defer func() { littleEndian = native }()
	vals := []uint32{0x01020304, 0xfffefdfc}
	straight := bytes.Clone(Bytes(vals))
	littleEndian = !littleEndian
	swapped := Bytes(vals)
	for i := range vals {
		e := bytes.Clone(straight[4*i : 4*i+4])
		slices.Reverse(e)
		if !bytes.Equal(swapped[4*i:4*i+4], e) {
			t.Fatalf("element %d: % x, want % x", i, swapped[4*i:4*i+4], e)
		}
	}
	back, err := View[uint32](swapped, len(vals))
	if err != nil || !slices.Equal(back, vals) {
		t.Fatalf("%x, %v", back, err)
	}
}

func TestViewAliasesAlignedMemory(t *testing.T) {
	if !littleEndian {
		t.Skip("big-endian machines copy")
	}
	backing := make([]uint64, 4)
	raw := Bytes(backing)
	v, err := View[float32](raw, 8)
	must(t, err)
	if unsafe.Pointer(&v[0]) != unsafe.Pointer(&raw[0]) || cap(v) != 8 {
		t.Error("aligned view is a copy or reaches past its payload")
	}
	w, err := View[float32](raw[1:], 7)
	must(t, err)
	if unsafe.Pointer(&w[0]) == unsafe.Pointer(&raw[1]) {
		t.Error("misaligned view aliases")
	}
	for _, n := range []int{-1, 9, math.MaxInt} {
		if _, err := View[float32](raw, n); !errors.Is(err, ErrCorrupt) {
			t.Errorf("n = %d: %v", n, err)
		}
	}
}

func TestStringsRoundTrip(t *testing.T) { stringsRoundTrip(t, AppendStrings, NewStrings) }
func TestLengthsRoundTrip(t *testing.T) { stringsRoundTrip(t, AppendLengths, NewLengths) }

func stringsRoundTrip(t *testing.T, write func([]byte, [][]byte) []byte, read func([]byte) (Strings, error)) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 12), 0, 12).Draw(t, "items")
		prefix := []byte("kept")
		table := write(bytes.Clone(prefix), items)
		if !bytes.HasPrefix(table, prefix) {
			t.Fatal("dst was not kept")
		}
		table = table[len(prefix):]
		s, err := read(table)
		must(t, err)
		if s.Len() != len(items) {
			t.Fatalf("%d strings, wrote %d", s.Len(), len(items))
		}
		all := s.All()
		for i, want := range items {
			if all[i] != string(want) {
				t.Fatalf("string %d of all is %q, wrote %q", i, all[i], want)
			}
			got := s.At(i)
			if !bytes.Equal(got, want) {
				t.Fatalf("string %d is %q, wrote %q", i, got, want)
			}
			if cap(got) != len(got) {
				t.Fatalf("string %d reaches into the next", i)
			}
		}
		if s.At(-1) != nil || s.At(len(items)) != nil {
			t.Fatal("string out of range")
		}
		for n := range len(table) {
			if _, err := read(table[:n]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(table), err)
			}
		}
		if _, err := read(append(table, 0)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a byte behind: %v", err)
		}
	})
}

func TestStringsRefuses(t *testing.T) {
	words := func(w ...uint32) []byte { return bytes.Clone(Bytes(w)) }
	for name, payload := range map[string][]byte{
		"no offsets":        words(0),
		"count too large":   words(1<<32-1, 0),
		"first not zero":    append(words(1, 1, 2), "ab"...),
		"offset falls":      append(words(2, 0, 2, 1), 'a'),
		"offset past bytes": append(words(2, 0, 9, 9), 'a'),
		"bytes left over":   append(words(1, 0, 1), "ab"...),
	} {
		if _, err := NewStrings(payload); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, payload := range map[string][]byte{
		"no count":        words(1)[:3],
		"count too large": words(1<<32 - 1),
		"length too long": append(words(2, 1, 1), 'a'),
		"lengths wrap":    append(words(2, 1<<32-1, 2), 'a'),
		"bytes left over": append(words(1, 1), "ab"...),
	} {
		if _, err := NewLengths(payload); !errors.Is(err, ErrCorrupt) {
			t.Errorf("lengths, %s: %v", name, err)
		}
	}
	var s Strings
	if s.Len() != 0 || s.At(0) != nil {
		t.Error("the zero table is not empty")
	}
}
