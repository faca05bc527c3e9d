package db

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/rows"
)

// Labels and payload of a row can change; its key, vector and number cannot. A change is a small
// block of its own, keyed by the row, that replaces what the row's chunk or tail block has. The
// block of the row itself is not written again, for two reasons: a block that never changes is
// verified once per process, and a salvage may use any copy of it that it finds. Changes have
// revisions, so that of several copies of a change the latest is known, and so that a
// transaction notices that a row which it has read was changed.
//
// The set of rows with a change makes reads of other rows cheap, and reveals that a change is
// missing. A change remains when its row is sealed into a chunk, and is deleted with the row. A
// compaction that gives rows new numbers writes the rows with their present labels and payloads.

// change holds the present labels and payload of a row that were changed after it was written.
type change struct {
	revision uint64
	labels   []string
	payload  []byte
}

// encodeChange returns the block of a change: the revision (uint64, little-endian), then labels
// and payload.
func encodeChange(key []byte, x *change) []byte {
	p := binary.LittleEndian.AppendUint64(nil, x.revision)
	h := codec.Header{Kind: codec.KindChange, Rows: 1, Cols: 1}
	return codec.Encode(key, h, rows.AppendCold(p, x.labels, x.payload))
}

// decodeChange decodes the payload of a change. The result does not alias it.
func decodeChange(p []byte) (*change, error) {
	if len(p) < 8 {
		return nil, fmt.Errorf("change of %d bytes is too short for a revision", len(p))
	}
	x := &change{revision: binary.LittleEndian.Uint64(p)}
	var err error
	x.labels, x.payload, err = rows.DecodeCold(p[8:])
	x.payload = slices.Clone(x.payload)
	return x, err
}

// readChange decodes and verifies the block of a change.
func readChange(c *collection, key, value []byte) (*change, error) {
	p, err := decodeBlock(c.Name, key, value, true)
	if err != nil {
		return nil, err
	}
	x, err := decodeChange(p)
	if err == nil && (x.revision == 0 || x.revision > c.Revision) {
		err = fmt.Errorf("revision %d of %d", x.revision, c.Revision)
	}
	if err != nil {
		_, _, row := codec.ParseKey(key)
		return nil, blockError(c.Name, c.ID, codec.KindChange, row, err)
	}
	return x, nil
}
