package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/rows"
)

// A file may come from an untrusted source, and valid checksums are easy to compute. Therefore
// the work and the memory that a block causes are bounded by its length, and the decoded length
// is bounded by the limit of its kind.

// PageSize is the page size of new files.
const PageSize = page.Size

const (
	// maxCatalog is the largest size of a catalog in bytes, about 100,000 collections.
	maxCatalog = 16 << 20
	// maxManifest is the largest size of an index manifest in bytes. Most of it are the
	// thresholds of a label model: about a million labels.
	maxManifest = 32 << 20
	// maxObjects and maxValues bound the objects and the values in the JSON text of either: two
	// bytes of it may decode to an object of hundreds of bytes.
	maxObjects = 1 << 18
	maxValues  = 1 << 22

	// maxCold is the largest size in bytes of an encoded rows.Cold.
	maxCold = rows.MaxPayload + rows.MaxText + binary.MaxVarintLen32 + rows.MaxLabels*(rows.MaxKey+2) +
		2 + attribute.MaxRow
	// maxTail is the largest size of a row that is not in a chunk yet.
	maxTail = 4 + max(4*kind.MaxDim, 8*rows.MaxFeatures) + 2 + rows.MaxKey + maxCold
	// maxSet is the largest size of a set of 65,536 rows: a bitmap and its header.
	maxSet = 8<<10 + 64

	// maxObject bounds object numbers. No database reaches it.
	maxObject = 1 << 61
)

// The limits that the forms of rows and indexes do not determine; package db documents them.
const (
	MaxName = 255
	// MaxRows is the largest number of rows, one less than the number of row numbers, so that a
	// count of rows fits a uint32.
	MaxRows = 1<<32 - 1
)

// LimitOf returns the largest size in bytes of a block of the kind after decompression. Blocks
// that are read in place have no limit of their own.
func LimitOf(section codec.Kind) uint64 {
	switch section {
	case codec.KindCatalog:
		return maxCatalog
	case codec.KindManifest:
		return maxManifest
	case codec.KindTail:
		return maxTail
	case codec.KindChange:
		return 8 + maxCold
	case codec.KindTombstones, codec.KindLabelRows, codec.KindChanged, codec.KindRelabelled,
		codec.KindStale, codec.KindVectorless:
		return maxSet
	case codec.KindCold:
		return rows.ColdRun + maxCold + 8 + 4*rows.MaxChunk
	case codec.KindAttribute:
		return attribute.MaxTable
	case codec.KindGeneric:
		return PageSize
	}
	return codec.MaxRaw
}

// checkShape returns an error if a JSON text would take much more memory than its length
// suggests.
func checkShape(text []byte) error {
	if n := bytes.Count(text, []byte{'{'}); n > maxObjects {
		return fmt.Errorf("%d objects, want at most %d", n, maxObjects)
	}
	if n := bytes.Count(text, []byte{','}); n > maxValues {
		return fmt.Errorf("%d values, want at most %d", n, maxValues)
	}
	return nil
}
