package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Errors returned by the decoders. They are wrapped with the place and the
// reason; test with errors.Is.
var (
	// ErrCorrupt is returned for a damaged block or table: wrong lengths, wrong
	// checksum, impossible values.
	ErrCorrupt = errors.New("codec: corrupt block")
	// ErrNotBlock is returned when the bytes do not begin with the block magic.
	ErrNotBlock = errors.New("codec: not a block")
	// ErrNewerFormat is returned for a block of a later format than this package
	// reads.
	ErrNewerFormat = errors.New("codec: block of a newer format")
	// ErrTooLarge is returned when a payload is longer than MaxRaw and so
	// cannot be stored compressed.
	ErrTooLarge = errors.New("codec: payload too large to compress")
)

// FormatVersion is the version this package writes. It reads this version and all
// earlier ones.
const FormatVersion = 1

// KeySize is the length of a block's key in bytes.
const KeySize = 16

// HeaderSize is the length of a block's header in bytes.
const HeaderSize = 64

// Align is the alignment, in bytes, of every block's start and length.
const Align = 16

var magic = [4]byte{'A', 'N', 'N', 'B'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind is the type of a block's content. The numbers are part of the format.
type Kind uint16

// The kinds of blocks, with the element type and shape of their payload.
const (
	KindGeneric     Kind = iota // any bytes
	KindRows                    // vectors of a chunk of rows, F32 or U8, rows × dim
	KindKeys                    // string table of the chunk's user keys
	KindCold                    // labels, attributes and payloads of the chunk's rows, compressed
	KindNorms                   // inverse norms of the chunk's rows, F32
	KindTail                    // one row not yet sealed into a chunk
	KindTombstones              // roaring bitmap of deleted rows in a block of 65,536
	KindLabelRows               // roaring bitmap of the rows that carry a label
	KindManifest                // description of an index, JSON
	KindRotation                // mean, bias and matrix of a PCA rotation, F32
	KindSketch                  // int8 coordinates and squared norm of each row
	KindNeighbors               // neighbor lists of rows
	KindNodes                   // tree nodes, threshold F32 and dimension U32
	KindDirections              // sparse split directions
	KindLeafDir                 // position of every leaf's block, U32
	KindLeaves                  // leaf label-proportion tables
	KindMembers                 // rows of every leaf
	KindCatalog                 // collections and counters
	KindSparse                  // sparse vectors of a chunk of rows
	KindPostings                // arrays of an inverted index
	KindLabelMatrix             // labels of the training rows, and their names
	KindSimilarity              // feature–label similarities
	KindBudget                  // arrays of budgeted trees
	KindChange                  // labels, attributes and payload of a row that changed after it was written
	KindChanged                 // roaring bitmap of the rows with a block of KindChange
	KindRelabelled              // roaring bitmap of the rows whose labels changed since an index was made
	KindAttribute               // rows of a range by the value of an attribute, U32
	KindStale                   // roaring bitmap of the rows whose attributes the tables have not
	KindCenters                 // points near groups of rows, from which their sketches differ
	KindVectorless              // roaring bitmap of the rows without a vector
	KindQueries                 // sample of the queries of a collection, F32
	KindLabelTree               // arrays of linear classifiers of labels
	kindEnd
)

var kindNames = [...]string{
	"generic", "rows", "keys", "cold", "norms", "tail", "tombstones",
	"label-rows", "manifest", "rotation", "sketch", "neighbors", "nodes",
	"directions", "leaf-directory", "leaves", "members", "catalog",
	"sparse-rows", "postings", "label-matrix", "feature-labels", "budget",
	"change", "changed-rows", "relabelled-rows", "attribute-table", "stale-attributes", "centers",
	"vectorless-rows", "queries", "label-tree",
}

// String returns the kind's name as stats and errors print it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint16(k))
}

// Elem is the type of a payload's elements. The numbers are part of the format.
type Elem uint8

// The element types; all are little-endian.
const (
	BytesElem Elem = iota // opaque bytes
	U8
	I8
	U16
	U32
	U64
	F32
	F64
	elemEnd
)

// Size returns the length of one element in bytes.
func (e Elem) Size() int {
	switch e {
	case U16:
		return 2
	case U32, F32:
		return 4
	case U64, F64:
		return 8
	}
	return 1
}

// FlagZstd marks a payload stored as zstd frames. Only blocks of KindCold may have
// it: all other payloads are read in place, so they cannot be larger than the file.
const FlagZstd = 1

// zstdRatio is log2 of the largest expansion by zstd: its smallest block, four bytes
// that repeat one byte, decompresses to 128 KiB.
const zstdRatio = 15

// Header describes a block's payload. Encode takes Kind, Elem, Rows and Cols
// from the caller and fills in the rest. Rows and Cols are not checked against the
// payload: a reader takes elements with View, which checks their number.
type Header struct {
	Kind    Kind
	Version uint16 // format the block was written in
	Elem    Elem
	Flags   uint8  // FlagZstd or 0
	Rows    uint64 // rows of the payload, or elements if it has no rows
	Cols    uint32 // elements per row
	Stored  uint64 // payload bytes as stored
	Raw     uint64 // payload bytes once decompressed
}

// Block is a parsed block. Payload aliases the bytes it was parsed from.
type Block struct {
	Header
	Payload []byte // as stored
	head    []byte // HeaderSize bytes
	pad     []byte // the bytes after the payload, fewer than Align
}

// Key returns the 16-byte key of a block: object, section and chunk number, each
// big-endian, so that bytewise order sorts an object's sections and chunks.
func Key(object uint64, section Kind, chunk uint32) [KeySize]byte {
	var k [KeySize]byte
	binary.BigEndian.PutUint64(k[:8], object)
	binary.BigEndian.PutUint32(k[8:12], uint32(section))
	binary.BigEndian.PutUint32(k[12:], chunk)
	return k
}

// ParseKey splits a key made by Key. It returns zeros for bytes that Key cannot
// have made, of another length or with a section above 65,535. Objects are numbered
// from 1, so zeros name no block.
func ParseKey(key []byte) (object uint64, section Kind, chunk uint32) {
	if len(key) != KeySize {
		return 0, 0, 0
	}
	s := binary.BigEndian.Uint32(key[8:])
	if s > math.MaxUint16 {
		return 0, 0, 0
	}
	return binary.BigEndian.Uint64(key), Kind(s), binary.BigEndian.Uint32(key[12:])
}

// Encode frames a raw payload as a block to be stored under key. The result is
// newly allocated and its length is a multiple of Align. Encode copies the payload
// once and reads it once for the checksum.
func Encode(key []byte, h Header, payload []byte) []byte {
	h.Flags = 0
	h.Raw = uint64(len(payload))
	return seal(key, h, payload)
}

// seal writes the frame around a copy of a payload in its stored form.
func seal(key []byte, h Header, stored []byte) []byte {
	out := make([]byte, padded(len(stored)))
	copy(out[HeaderSize:], stored)
	h.Stored = uint64(len(stored))
	copy(out, magic[:])
	binary.LittleEndian.PutUint16(out[4:], FormatVersion)
	binary.LittleEndian.PutUint16(out[6:], uint16(h.Kind))
	out[8] = byte(h.Elem)
	out[9] = h.Flags
	binary.LittleEndian.PutUint64(out[16:], h.Rows)
	binary.LittleEndian.PutUint32(out[24:], h.Cols)
	binary.LittleEndian.PutUint64(out[32:], h.Stored)
	binary.LittleEndian.PutUint64(out[40:], h.Raw)
	binary.LittleEndian.PutUint32(out[48:], checksum(key, out[:48], stored))
	return out
}

// padded returns the length of a block whose stored payload has n bytes.
func padded(n int) int { return (HeaderSize + n + Align - 1) &^ (Align - 1) }

// checksum returns the CRC-32C of key, header and payload. It covers the key so that
// a block that bbolt returns for another key is as corrupt as one with a flipped bit.
func checksum(key, head, stored []byte) uint32 {
	c := crc32.Update(0, castagnoli, key)
	c = crc32.Update(c, castagnoli, head)
	return crc32.Update(c, castagnoli, stored)
}

// Parse reads the frame of a stored block without reading its payload, so that a
// lazily verified block costs one cache line. The result aliases value; its lengths
// are valid, its contents only after Verify.
//
// Errors: ErrNotBlock, ErrNewerFormat, ErrCorrupt.
func Parse(value []byte) (Block, error) {
	if len(value) < len(magic) || [4]byte(value[:4]) != magic {
		return Block{}, fmt.Errorf("%w: %d bytes that begin with [% x]",
			ErrNotBlock, len(value), value[:min(4, len(value))])
	}
	if len(value) < HeaderSize {
		return Block{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrCorrupt, len(value), HeaderSize)
	}
	b := Block{head: value[:HeaderSize:HeaderSize]}
	b.Version = binary.LittleEndian.Uint16(value[4:])
	b.Kind = Kind(binary.LittleEndian.Uint16(value[6:]))
	b.Elem = Elem(value[8])
	b.Flags = value[9]
	b.Rows = binary.LittleEndian.Uint64(value[16:])
	b.Cols = binary.LittleEndian.Uint32(value[24:])
	b.Stored = binary.LittleEndian.Uint64(value[32:])
	b.Raw = binary.LittleEndian.Uint64(value[40:])
	switch {
	case b.Version > FormatVersion:
		return Block{}, fmt.Errorf("%w: version %d, this program reads up to %d",
			ErrNewerFormat, b.Version, FormatVersion)
	case b.Version == 0:
		return Block{}, fmt.Errorf("%w: version 0", ErrCorrupt)
	case b.Kind >= kindEnd:
		return Block{}, fmt.Errorf("%w: unknown kind %d", ErrCorrupt, uint16(b.Kind))
	case b.Elem >= elemEnd:
		return Block{}, fmt.Errorf("%w: unknown element type %d", ErrCorrupt, uint8(b.Elem))
	case b.Flags&^FlagZstd != 0:
		return Block{}, fmt.Errorf("%w: unknown flags %#x", ErrCorrupt, b.Flags)
	case !zero(b.head[10:16]) || !zero(b.head[28:32]) || !zero(b.head[52:64]):
		return Block{}, fmt.Errorf("%w: reserved header bytes are not zero", ErrCorrupt)
	case b.Stored > uint64(len(value)-HeaderSize):
		return Block{}, fmt.Errorf("%w: payload of %d bytes in a value of %d", ErrCorrupt, b.Stored, len(value))
	case padded(int(b.Stored)) != len(value):
		return Block{}, fmt.Errorf("%w: value of %d bytes for a payload of %d", ErrCorrupt, len(value), b.Stored)
	case b.Flags&FlagZstd != 0 && b.Kind != KindCold:
		return Block{}, fmt.Errorf("%w: %v block is compressed, only %v blocks are", ErrCorrupt, b.Kind, KindCold)
	case b.Flags&FlagZstd == 0 && b.Raw != b.Stored:
		return Block{}, fmt.Errorf("%w: raw payload of %d bytes stored as %d", ErrCorrupt, b.Raw, b.Stored)
	case b.Raw > b.Stored<<zstdRatio:
		return Block{}, fmt.Errorf("%w: %d bytes cannot decompress to %d", ErrCorrupt, b.Stored, b.Raw)
	}
	end := HeaderSize + int(b.Stored)
	b.Payload, b.pad = value[HeaderSize:end:end], value[end:]
	return b, nil
}

// Verify checks the block's checksum with the key it was read under, and that the
// padding is zero: together with Parse this checks every bit of a value. It reads
// every byte once.
//
// Errors: ErrCorrupt.
func (b Block) Verify(key []byte) error {
	if len(b.head) != HeaderSize {
		return fmt.Errorf("%w: block was not parsed", ErrCorrupt)
	}
	want := binary.LittleEndian.Uint32(b.head[48:])
	if got := checksum(key, b.head[:48], b.Payload); got != want {
		return fmt.Errorf("%w: %v block: checksum %08x, stored %08x", ErrCorrupt, b.Kind, got, want)
	}
	if !zero(b.pad) {
		return fmt.Errorf("%w: %v block: padding is not zero", ErrCorrupt, b.Kind)
	}
	return nil
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
