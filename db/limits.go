package db

import (
	"bytes"
	"fmt"

	"github.com/anndb/anndb/codec"
)

// A file may come from anywhere, and checksums are easily made right. So the
// work and the memory that a block causes are bounded by its length, and the
// length of what is decoded as a whole by what it may hold.

const (
	// maxCatalog is the longest catalog in bytes, some 100,000 collections.
	maxCatalog = 16 << 20
	// maxManifest is the longest manifest of an index in bytes. The thresholds of
	// a label model are most of it: up to some million labels.
	maxManifest = 32 << 20
	// maxObjects and maxValues bound the objects and the values of such a JSON
	// text: two bytes of it may be an object of hundreds of bytes in memory.
	maxObjects = 1 << 18
	maxValues  = 1 << 22

	// maxCold is the most bytes of labels and payload of one row.
	maxCold = MaxPayload + MaxLabels*(MaxKey+2) + 2
	// maxTail is the longest row that no chunk holds yet.
	maxTail = 4 + max(4*MaxDim, 8*MaxFeatures) + 2 + MaxKey + maxCold
	// maxSet is the longest set of 65,536 rows: a bitmap, with what stands
	// before it.
	maxSet = 8<<10 + 64

	// maxObject bounds object numbers. Nobody will give out that many.
	maxObject = 1 << 61
)

// limitOf is the most bytes that a block of the kind may have, once decompressed.
// Those that are read in place may have any number.
func limitOf(kind codec.Kind) uint64 {
	switch kind {
	case codec.KindCatalog:
		return maxCatalog
	case codec.KindManifest:
		return maxManifest
	case codec.KindTail:
		return maxTail
	case codec.KindTombstones, codec.KindLabelRows:
		return maxSet
	case codec.KindCold:
		return coldRun + maxCold + 8 + 4*maxChunkRows
	case codec.KindGeneric:
		return pageSize
	}
	return codec.MaxRaw
}

// checkShape reports what of a JSON text would take more memory than its length
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
