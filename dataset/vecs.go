package dataset

import (
	"encoding/binary"
	"fmt"
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
	f, err := newFixed(s, vecsElems[o.Format], int(d), -1, true)
	if err != nil {
		return nil, err
	}
	f.maxDim = o.MaxDim
	return f, nil
}

// fvecsEncoder writes fvecs.
type fvecsEncoder struct{ noHeader }

func newFvecsEncoder(Schema) (encoder, error) { return fvecsEncoder{}, nil }

func (fvecsEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(rec.Vector)))
	return appendFloats(dst, rec.Vector), nil
}
