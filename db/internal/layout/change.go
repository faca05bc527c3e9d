package layout

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/rows"
)

// Labels, attributes and payload of a row can change; its key, vector and number cannot. A change
// is a small block of its own, keyed by the row, that replaces what the row's chunk or tail block has. The
// block of the row itself is not written again, for two reasons: a block that never changes is
// verified once per process, and a salvage may use any copy of it that it finds. Changes have
// revisions, so that of several copies of a change the latest is known, and so that a
// transaction notices that a row which it has read was changed.
//
// The set of rows with a change makes reads of other rows cheap, and reveals that a change is
// missing. A change remains when its row is sealed into a chunk, and is deleted with the row. A
// compaction that gives rows new numbers writes the rows as they are at present.

// Change holds the present labels, attributes and payload of a row that were changed after it was
// written.
type Change struct {
	Revision uint64
	rows.Cold
}

// EncodeChange returns the block of a change: the revision (uint64, little-endian), then the
// encoded Cold.
func EncodeChange(key []byte, x *Change) []byte {
	p := binary.LittleEndian.AppendUint64(nil, x.Revision)
	h := codec.Header{Kind: codec.KindChange, Rows: 1, Cols: 1}
	return codec.Encode(key, h, rows.AppendCold(p, &x.Cold))
}

// DecodeChange decodes the payload of a change. The result does not alias it.
func DecodeChange(p []byte) (*Change, error) {
	if len(p) < 8 {
		return nil, fmt.Errorf("change of %d bytes is too short for a revision", len(p))
	}
	x := &Change{Revision: binary.LittleEndian.Uint64(p)}
	var err error
	x.Cold, err = rows.DecodeCold(p[8:])
	x.Payload = slices.Clone(x.Payload)
	return x, err
}

// ReadChange decodes and verifies the block of a change.
func ReadChange(c *Collection, key, value []byte) (*Change, error) {
	p, err := DecodeBlock(c.Name, key, value, true)
	if err != nil {
		return nil, err
	}
	x, err := DecodeChange(p)
	if err == nil && (x.Revision == 0 || x.Revision > c.Revision) {
		err = fmt.Errorf("revision %d of %d", x.Revision, c.Revision)
	}
	if err != nil {
		_, _, row := codec.ParseKey(key)
		return nil, BlockError(c.Name, c.ID, codec.KindChange, row, err)
	}
	return x, nil
}
