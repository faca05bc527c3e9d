package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

func itoa(i int) string { return strconv.Itoa(i) }

// castagnoliSlow computes CRC-32C by its definition, bit by bit.
func castagnoliSlow(parts ...[]byte) uint32 {
	poly := bits.Reverse32(0x1edc6f41)
	c := ^uint32(0)
	for _, v := range slices.Concat(parts...) {
		c ^= uint32(v)
		for range 8 {
			low := c & 1
			c >>= 1
			if low == 1 {
				c ^= poly
			}
		}
	}
	return ^c
}

// drawn is a block of random shape with the key and payload it was made from.
type drawn struct {
	key, payload, value []byte
	header              Header
}

func draw(t *rapid.T) drawn {
	d := drawn{
		key:     rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "key"),
		payload: rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "payload"),
		header: Header{
			Kind: Kind(rapid.IntRange(0, int(kindEnd)-1).Draw(t, "kind")),
			Elem: Elem(rapid.IntRange(0, int(elemEnd)-1).Draw(t, "elem")),
			Rows: rapid.Uint64().Draw(t, "rows"),
			Cols: rapid.Uint32().Draw(t, "cols"),
		},
	}
	if rapid.Bool().Draw(t, "zstd") {
		d.header.Kind = KindCold
		v, err := EncodeCompressed(d.key, d.header, d.payload)
		must(t, err)
		d.value, d.header.Flags = v, FlagZstd
		return d
	}
	d.value = Encode(d.key, d.header, d.payload)
	return d
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		if len(d.value)%Align != 0 {
			t.Fatalf("%d bytes, not a multiple of %d", len(d.value), Align)
		}
		b, err := Parse(d.value)
		must(t, err)
		must(t, b.Verify(d.key))
		data, err := b.Data(uint64(len(d.payload)))
		must(t, err)
		if !bytes.Equal(data, d.payload) {
			t.Fatalf("payload % x, wrote % x", data, d.payload)
		}
		want := d.header
		want.Version, want.Stored, want.Raw = FormatVersion, uint64(len(b.Payload)), uint64(len(d.payload))
		if b.Header != want {
			t.Fatalf("header %+v, wrote %+v", b.Header, want)
		}
		sum, slow := binary.LittleEndian.Uint32(d.value[48:]), castagnoliSlow(d.key, d.value[:48], b.Payload)
		if sum != slow {
			t.Fatalf("checksum %08x, by definition %08x", sum, slow)
		}
		if len(d.payload) > 0 {
			if _, err := b.Data(uint64(len(d.payload)) - 1); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("one byte over the limit: %v", err)
			}
		}
	})
}

// TestEveryFlippedBit flips every bit of a value, header, payload and padding,
// and every bit of its key.
func TestEveryFlippedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		damaged := func() error {
			b, err := Parse(d.value)
			if err != nil {
				return err
			}
			return b.Verify(d.key)
		}
		for i := range 8 * len(d.value) {
			d.value[i/8] ^= 1 << (i % 8)
			err := damaged()
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotBlock) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("byte %d bit %d: error %v", i/8, i%8, err)
			}
			d.value[i/8] ^= 1 << (i % 8)
		}
		for i := range 8 * len(d.key) {
			d.key[i/8] ^= 1 << (i % 8)
			if err := damaged(); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("key byte %d bit %d: error %v", i/8, i%8, err)
			}
			d.key[i/8] ^= 1 << (i % 8)
		}
		if err := damaged(); err != nil {
			t.Fatalf("undamaged: %v", err)
		}
	})
}

// TestEveryTruncation truncates a value and lengthens it.
func TestEveryTruncation(t *testing.T) {
	key := Key(1, KindRows, 0)
	value := Encode(key[:], Header{Kind: KindRows, Elem: U8}, make([]byte, 40))
	for n := range len(value) {
		if _, err := Parse(value[:n]); err == nil {
			t.Errorf("%d of %d bytes: no error", n, len(value))
		}
	}
	if _, err := Parse(append(value, make([]byte, Align)...)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("longer by %d: %v", Align, err)
	}
}

func TestParseErrors(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		damage func(v []byte) []byte
		want   error
		says   string
	}{
		{"empty", func([]byte) []byte { return nil }, ErrNotBlock, "0 bytes"},
		{"other magic", func(v []byte) []byte { v[3] = 'X'; return v }, ErrNotBlock, "41 4e 4e 58"},
		{"header cut", func(v []byte) []byte { return v[:63] }, ErrCorrupt, "63 bytes"},
		{"newer", func(v []byte) []byte { le.PutUint16(v[4:], FormatVersion+1); return v },
			ErrNewerFormat, "reads up to"},
		{"version 0", func(v []byte) []byte { le.PutUint16(v[4:], 0); return v }, ErrCorrupt, "version 0"},
		{"kind", func(v []byte) []byte { le.PutUint16(v[6:], uint16(kindEnd)); return v },
			ErrCorrupt, "unknown kind"},
		{"element", func(v []byte) []byte { v[8] = byte(elemEnd); return v }, ErrCorrupt, "unknown element"},
		{"flags", func(v []byte) []byte { v[9] = 2; return v }, ErrCorrupt, "unknown flags"},
		{"reserved 10", func(v []byte) []byte { v[15] = 1; return v }, ErrCorrupt, "reserved"},
		{"reserved 28", func(v []byte) []byte { v[28] = 1; return v }, ErrCorrupt, "reserved"},
		{"reserved 52", func(v []byte) []byte { v[63] = 1; return v }, ErrCorrupt, "reserved"},
		{"stored past the end", func(v []byte) []byte { le.PutUint64(v[32:], 33); return v },
			ErrCorrupt, "payload of 33"},
		{"stored huge", func(v []byte) []byte { le.PutUint64(v[32:], 1<<63); return v }, ErrCorrupt, "payload of"},
		{"stored short", func(v []byte) []byte { le.PutUint64(v[32:], 3); return v }, ErrCorrupt, "value of 96"},
		{"raw differs", func(v []byte) []byte { le.PutUint64(v[40:], 21); return v }, ErrCorrupt, "stored as"},
		{"compressed", func(v []byte) []byte { v[9] = FlagZstd; return v }, ErrCorrupt, "rows block is compressed"},
		{"impossible ratio", func(v []byte) []byte {
			v[6], v[9] = byte(KindCold), FlagZstd
			le.PutUint64(v[40:], 20<<15+1)
			return v
		}, ErrCorrupt, "cannot decompress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.damage(Encode(nil, Header{Kind: KindRows, Elem: U8}, make([]byte, 20)))
			_, err := Parse(v)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want %q with %q", err, c.want, c.says)
			}
		})
	}
	if err := (Block{}).Verify(nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("zero block: %v", err)
	}
}

// compressedBlock frames stored bytes with a header that states any raw length.
func compressedBlock(stored []byte, raw uint64) (Block, error) {
	return Parse(seal(nil, Header{Kind: KindCold, Flags: FlagZstd, Raw: raw}, stored))
}

// TestDataBoundsMemory decodes a decompression bomb whose header states a small
// length.
func TestDataBoundsMemory(t *testing.T) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	must(t, err)
	const large = 64 << 20
	known := enc.EncodeAll(make([]byte, large), nil)
	// A streamed frame does not store its decompressed length.
	var unknown bytes.Buffer
	enc.Reset(&unknown)
	for range large >> 20 {
		if _, err := enc.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, enc.Close())
	for name, bomb := range map[string][]byte{
		"known size": known, "unknown size": unknown.Bytes(),
		"many frames": bytes.Repeat(enc.EncodeAll(make([]byte, 1000), nil), 1000),
	} {
		b, err := compressedBlock(bomb, 1001)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = b.Data(1 << 30)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%s: allocated %d bytes for a stated length of 1001", name, used)
		}
		b.Raw = MaxRaw + 1
		if _, err := b.Data(1 << 40); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: stated length above MaxRaw: %v", name, err)
		}
	}
}

func TestDataErrors(t *testing.T) {
	good := seal(nil, Header{}, nil)
	v, err := EncodeCompressed(nil, Header{}, bytes.Repeat([]byte("label "), 50))
	must(t, err)
	b, err := Parse(v)
	must(t, err)
	for name, c := range map[string]struct {
		stored []byte
		raw    uint64
	}{
		"states more":    {b.Payload, b.Raw + 1},
		"states less":    {b.Payload, b.Raw - 1},
		"cut":            {b.Payload[:len(b.Payload)-1], b.Raw},
		"not zstd":       {good, 64},
		"trailing bytes": {append(bytes.Clone(b.Payload), 0), b.Raw},
	} {
		bad, err := compressedBlock(c.stored, c.raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := bad.Data(1 << 20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestEncodeCompressedTooLarge(t *testing.T) {
	// EncodeCompressed checks only the length, so no page of p is ever used.
	p := make([]byte, MaxRaw+1)
	if _, err := EncodeCompressed(nil, Header{Kind: KindCold}, p); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

// A compressed block of another kind than cold ones is corrupt even if its checksum is correct.
func TestOnlyColdIsCompressed(t *testing.T) {
	for k := range kindEnd {
		if k == KindCold {
			continue
		}
		v, err := EncodeCompressed(nil, Header{}, bytes.Repeat([]byte("anndb"), 100))
		must(t, err)
		b, err := Parse(v)
		must(t, err)
		forged := seal(nil, Header{Kind: k, Flags: FlagZstd, Raw: b.Raw}, b.Payload)
		if _, err := Parse(forged); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: a compressed block is parsed: %v", k, err)
		}
	}
}

func TestKeyOrderAndRoundTrip(t *testing.T) {
	type parts struct {
		object  uint64
		section Kind
		chunk   uint32
	}
	gen := rapid.Custom(func(t *rapid.T) parts {
		return parts{
			rapid.Uint64().Draw(t, "object"), Kind(rapid.Uint16().Draw(t, "section")),
			rapid.Uint32().Draw(t, "chunk"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		ka, kb := Key(a.object, a.section, a.chunk), Key(b.object, b.section, b.chunk)
		var back parts
		if back.object, back.section, back.chunk = ParseKey(ka[:]); back != a {
			t.Fatalf("%+v came back as %+v", a, back)
		}
		less := a.object < b.object || a.object == b.object &&
			(a.section < b.section || a.section == b.section && a.chunk < b.chunk)
		if less != (bytes.Compare(ka[:], kb[:]) < 0) {
			t.Fatalf("keys of %+v and %+v are out of order", a, b)
		}
	})
}

func TestParseKeyRefuses(t *testing.T) {
	k := Key(9, KindRows, 4)
	wide := k
	wide[8] = 1
	for _, bad := range [][]byte{nil, k[:15], append(k[:], 0), wide[:]} {
		if o, s, c := ParseKey(bad); o != 0 || s != 0 || c != 0 {
			t.Errorf("% x gives %d, %v, %d", bad, o, s, c)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for k := range kindEnd {
		if seen[k.String()] {
			t.Errorf("two kinds are %q", k)
		}
		seen[k.String()] = true
	}
	if len(kindNames) != int(kindEnd) {
		t.Errorf("%d names for %d kinds", len(kindNames), kindEnd)
	}
	if got := kindEnd.String(); got != "kind("+itoa(int(kindEnd))+")" {
		t.Errorf("unknown kind is %q", got)
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	key := Key(1, KindRows, 0)
	value := Encode(key[:], Header{Kind: KindRows, Elem: F32}, make([]byte, 4096))
	n := testing.AllocsPerRun(100, func() {
		b, err := Parse(value)
		if err != nil || b.Verify(key[:]) != nil {
			t.Fatal("not parsed")
		}
		if data, err := b.Data(4096); err != nil || unsafe.SliceData(data) != &value[HeaderSize] {
			t.Fatal("not zero-copy")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
