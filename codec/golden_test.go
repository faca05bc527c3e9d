package codec

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is a block written byte by byte from FORMAT.md, by hand and not by this
// package. The files in testdata hold the same bytes.
type golden struct {
	file    string
	key     string // hex
	layout  string // hex; a '|' starts a comment
	header  Header
	payload []byte // decoded
}

var goldens = []golden{
	{
		file: "rows-v1.block",
		key:  "0000000000000007 00000001 00000002",
		layout: `
			41 4e 4e 42              | magic "ANNB"
			01 00                    | format version 1
			01 00                    | kind 1, rows
			06                       | element type 6, float32
			00                       | flags: raw
			00 00 00 00 00 00        | zero
			02 00 00 00 00 00 00 00  | 2 rows
			03 00 00 00              | 3 columns
			00 00 00 00              | zero
			18 00 00 00 00 00 00 00  | 24 bytes stored
			18 00 00 00 00 00 00 00  | 24 bytes decoded
			f9 b6 33 bc              | CRC-32C 0xbc33b6f9
			00 00 00 00 00 00 00 00 00 00 00 00 | zero
			00 00 80 3f 00 00 00 c0 00 00 00 3f | 1 -2 0.5
			00 00 00 00 00 00 40 40 00 00 80 be | 0 3 -0.25
			00 00 00 00 00 00 00 00  | zeros up to 96 bytes`,
		header:  Header{Kind: KindRows, Version: 1, Elem: F32, Rows: 2, Cols: 3, Stored: 24, Raw: 24},
		payload: Bytes([]float32{1, -2, 0.5, 0, 3, -0.25}),
	},
	{
		file: "keys-v1.block",
		key:  "0000000000000007 00000002 00000002",
		layout: `
			41 4e 4e 42 01 00        | magic, version
			02 00 00 00              | kind 2, keys; bytes; raw
			00 00 00 00 00 00        | zero
			03 00 00 00 00 00 00 00  | 3 rows
			00 00 00 00 00 00 00 00  | 0 columns, zero
			1b 00 00 00 00 00 00 00  | 27 bytes stored
			1b 00 00 00 00 00 00 00  | 27 bytes decoded
			58 ac 70 69              | CRC-32C 0x6970ac58
			00 00 00 00 00 00 00 00 00 00 00 00 | zero
			03 00 00 00              | string table of 3
			00 00 00 00 04 00 00 00  | offsets 0, 4,
			04 00 00 00 07 00 00 00  | 4, 7
			62 6f 6f 74 62 61 67     | "boot", "", "bag"
			00 00 00 00 00           | zeros up to 96 bytes`,
		header:  Header{Kind: KindKeys, Version: 1, Rows: 3, Stored: 27, Raw: 27},
		payload: AppendStrings(nil, [][]byte{[]byte("boot"), nil, []byte("bag")}),
	},
	{
		file: "cold-v1.block",
		key:  "0000000000000007 00000003 00000002",
		layout: `
			41 4e 4e 42 01 00        | magic, version
			03 00 00 01              | kind 3, cold; bytes; flag zstd
			00 00 00 00 00 00        | zero
			14 00 00 00 00 00 00 00  | 20 elements
			01 00 00 00 00 00 00 00  | 1 column, zero
			12 00 00 00 00 00 00 00  | 18 bytes stored
			14 00 00 00 00 00 00 00  | 20 bytes decoded
			2a 10 85 2f              | CRC-32C 0x2f85102a
			00 00 00 00 00 00 00 00 00 00 00 00 | zero
			28 b5 2f fd 20 14        | zstd frame, single segment, 20 bytes
			28 00 00 61 6e 6e 64 62  | raw zstd block "anndb"
			7b 00 00 21              | last zstd block: '!' 15 times
			00 00 00 00 00 00 00 00 00 00 00 00 00 00 | zeros up to 96 bytes`,
		header:  Header{Kind: KindCold, Version: 1, Flags: FlagZstd, Rows: 20, Cols: 1, Stored: 18, Raw: 20},
		payload: []byte("anndb!!!!!!!!!!!!!!!"),
	},
}

// unhex decodes hex digits and skips blanks and the comment after a '|'.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "|")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("hex: %v", err)
	}
	return b
}

func TestGoldenBlocks(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			want, key := unhex(t, g.layout), unhex(t, g.key)
			file, err := os.ReadFile(filepath.Join("testdata", g.file))
			must(t, err)
			if !bytes.Equal(file, want) {
				t.Fatalf("file differs from the layout:\n%s", cmp.Diff(hex.Dump(want), hex.Dump(file)))
			}

			b, err := Parse(file)
			must(t, err)
			if d := cmp.Diff(g.header, b.Header); d != "" {
				t.Errorf("header: %s", d)
			}
			if err := b.Verify(key); err != nil {
				t.Error(err)
			}
			data, err := b.Data(b.Raw)
			must(t, err)
			if !bytes.Equal(data, g.payload) {
				t.Errorf("payload: %s", cmp.Diff(hex.Dump(g.payload), hex.Dump(data)))
			}

			// The bytes of a zstd frame depend on the compressor, so a
			// compressed block is written from the stored frame.
			var got []byte
			if g.header.Flags&FlagZstd == 0 {
				h := Header{Kind: g.header.Kind, Elem: g.header.Elem, Rows: g.header.Rows, Cols: g.header.Cols}
				got = Encode(key, h, g.payload)
			} else {
				got = seal(key, g.header, b.Payload)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("encoded: %s", cmp.Diff(hex.Dump(want), hex.Dump(got)))
			}
		})
	}
}

func TestGoldenKey(t *testing.T) {
	want := unhex(t, "0102030405060708 00000011 0a0b0c0d")
	got := Key(0x0102030405060708, KindCatalog, 0x0a0b0c0d)
	if !bytes.Equal(got[:], want) {
		t.Errorf("Key = % x, want % x", got, want)
	}
	object, kind, chunk := ParseKey(want)
	if object != 0x0102030405060708 || kind != KindCatalog || chunk != 0x0a0b0c0d {
		t.Errorf("ParseKey = %#x, %v, %#x", object, kind, chunk)
	}
}

// TestFormatNumbers compares the two numbered tables of FORMAT.md with the code.
func TestFormatNumbers(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	must(t, err)
	for k := range kindEnd {
		if row := "\n| " + itoa(int(k)) + " | `" + k.String() + "` |"; !bytes.Contains(doc, []byte(row)) {
			t.Errorf("FORMAT.md has no row %q", row)
		}
	}
	names := []string{"bytes", "uint8", "int8", "uint16", "uint32", "uint64", "float32", "float64"}
	if len(names) != int(elemEnd) {
		t.Fatalf("%d element types, %d names", elemEnd, len(names))
	}
	for e := range elemEnd {
		row := "\n| " + itoa(int(e)) + " | " + names[e] + " | " + itoa(e.Size()) + " |"
		if !bytes.Contains(doc, []byte(row)) {
			t.Errorf("FORMAT.md has no row %q", row)
		}
	}
}
