package dataset

import (
	"encoding/binary"
	"fmt"
)

// binElems maps the formats of the big-ann benchmarks to their number types.
var binElems = map[string]elem{
	FormatFbin: {kind: kindF32}, FormatU8bin: {kind: kindU8},
	FormatI8bin: {kind: kindI8}, FormatIbin: {kind: kindI32},
}

// openBin reads fbin, u8bin, i8bin and ibin: the number of records and the number of dimensions, both
// of 32 bits, and the values. Source: the format description of big-ann-benchmarks.
func openBin(s *source, o Options) (decoder, error) {
	var head [8]byte
	if err := s.readFull(head[:]); err != nil {
		return nil, s.fail(-1, err)
	}
	n, d := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if d < 1 || uint64(d) > uint64(o.MaxDim) {
		return nil, s.bad(-1, 4, fmt.Errorf("dimension %d, want 1..%d", d, o.MaxDim))
	}
	return newFixed(s, binElems[o.Format], int(d), int64(n), false)
}
