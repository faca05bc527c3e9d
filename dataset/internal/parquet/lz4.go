package parquet

import "errors"

var errLZ4 = errors.New("damaged LZ4 block")

// unlz4 decompresses an LZ4 block, which has no frame, to at most most bytes.
//
// Source: LZ4 Block Format Description, 2022-07-31.
func unlz4(b []byte, most int64) ([]byte, error) {
	const maxRatio = 256 // a byte of a length stands for at most 255
	out := make([]byte, 0, min(most, maxRatio*int64(len(b))))
	// length takes the rest of a length whose first four bits are n.
	length := func(n int) int {
		for more := n == 15; more && len(b) > 0; b = b[1:] {
			n += int(b[0])
			more = b[0] == 255
		}
		return n
	}
	for len(b) > 0 {
		token := int(b[0])
		b = b[1:]
		n := length(token >> 4)
		if n > len(b) || int64(n) > most-int64(len(out)) {
			return nil, errLZ4
		}
		out, b = append(out, b[:n]...), b[n:]
		if len(b) == 0 {
			return out, nil // the last sequence has no match
		}
		if len(b) < 2 {
			return nil, errLZ4
		}
		offset := int(b[0]) | int(b[1])<<8
		b = b[2:]
		n = length(token&15) + 4
		if offset == 0 || offset > len(out) || int64(n) > most-int64(len(out)) {
			return nil, errLZ4
		}
		for n > 0 { // a match may overlap what it writes
			from := len(out) - offset
			k := min(n, offset)
			out = append(out, out[from:from+k]...)
			n -= k
		}
	}
	return nil, errLZ4
}
