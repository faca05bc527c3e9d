package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
)

// vecsElems maps the formats of the TEXMEX corpus to their number types.
var vecsElems = map[string]elem{
	FormatFvecs: {kind: kindF32}, FormatBvecs: {kind: kindU8}, FormatIvecs: {kind: kindI32},
}

// openVecs reads fvecs, bvecs and ivecs. The first record's dimension, which
// all others must have, is looked at without taking it. Source: the format
// description of the TEXMEX corpus.
func openVecs(s *source, o Options) (decoder, error) {
	head := s.peek(4)
	if len(head) < 4 {
		if _, err := s.br.Peek(4); err != nil {
			return nil, s.fail(0, err)
		}
	}
	d := int32(binary.LittleEndian.Uint32(head))
	if d < 1 || int64(d) > int64(o.MaxDim) {
		return nil, s.bad(0, 0, fmt.Errorf("dimension %d, want 1..%d", d, o.MaxDim))
	}
	return newFixed(s, vecsElems[o.Format], int(d), -1, true)
}

// vecsEncoder writes fvecs, bvecs and ivecs.
type vecsEncoder struct {
	noHeader
	format string
}

func newVecsEncoder(s Schema) (encoder, error) { return vecsEncoder{format: s.Format}, nil }

func (e vecsEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(rec.Vector)))
	if e.format == FormatFvecs {
		return appendFloats(dst, rec.Vector), nil
	}
	low, high := float32(0), float32(256)
	if e.format == FormatIvecs {
		low, high = -1<<31, 1<<31
	}
	for i, v := range rec.Vector {
		if v < low || v >= high || v != float32(math.Trunc(float64(v))) {
			return dst, fmt.Errorf("value %d is %v: %s holds whole numbers from %.0f to below %.0f",
				i, v, e.format, low, high)
		}
		if e.format == FormatBvecs {
			dst = append(dst, byte(v))
		} else {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(int32(v)))
		}
	}
	return dst, nil
}
