package dataset

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// maxTensorHeader bounds the description of the tensors of a safetensors file: about 100,000 of them.
const maxTensorHeader = 16 << 20

// tensorKinds maps the types of tensors to number types. Those of 8 bits and less are not read.
var tensorKinds = map[string]elemKind{
	"BOOL": kindU8, "U8": kindU8, "U16": kindU16, "U32": kindU32, "U64": kindU64, "I8": kindI8, "I16": kindI16,
	"I32": kindI32, "I64": kindI64, "F16": kindF16, "BF16": kindBF16, "F32": kindF32, "F64": kindF64,
}

// tensor is an array of a safetensors file.
type tensor struct {
	name    string
	Type    string    `json:"dtype"`
	Shape   []uint64  `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"` // of its bytes, from the end of the header on
}

// openSafetensors reads one tensor of two or more dimensions: the first counts the records, the others,
// multiplied, are the vector's dimensions. Source: the description of the format by Hugging Face.
func openSafetensors(s *source, o Options) (decoder, error) {
	tensors, err := tensorsOf(s)
	if err != nil {
		return nil, err
	}
	var members []member
	for i := range tensors {
		_, _, fault := tensors[i].rows(maxMaxDim)
		members = append(members, member{tensors[i].name, fault == nil, fault})
	}
	i, err := o.member(members)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	t := &tensors[i]
	e, dim, err := t.rows(o.MaxDim)
	if err != nil {
		return nil, s.bad(-1, 0, fmt.Errorf("tensor %.60q: %w", t.name, err))
	}
	size := int64(t.Offsets[1] - t.Offsets[0])
	part := io.NewSectionReader(s.at, s.offset+int64(t.Offsets[0]), size)
	inner := &source{
		path: s.path + ": " + t.name, format: s.format, size: size, at: part,
		br: bufio.NewReaderSize(part, bufferSize),
	}
	dec, err := newFixed(inner, e, dim, int64(t.Shape[0]), false)
	return memberDecoder{dec, t.name}, err
}

// tensorsOf takes the header from s: its length and a JSON object of the tensors, whose bytes follow without
// gaps to the end of the file. It returns them in this order.
func tensorsOf(s *source) (tensors []tensor, err error) {
	var head [8]byte
	if err := s.readFull(head[:]); err != nil {
		return nil, s.fail(-1, err)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxTensorHeader || int64(n) > s.size-s.offset {
		return nil, s.bad(-1, 0, fmt.Errorf("a header of %d bytes in a file of %d, want at most %d",
			n, s.size, maxTensorHeader))
	}
	text := make([]byte, n)
	if err := s.readFull(text); err != nil {
		return nil, s.fail(-1, err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, s.bad(-1, 8, fmt.Errorf("header: %w", err))
	}
	for name, value := range all {
		if name == "__metadata__" {
			continue
		}
		t := tensor{name: name}
		if err := json.Unmarshal(value, &t); err != nil {
			return nil, s.bad(-1, 8, fmt.Errorf("header: tensor %.60q: %w", name, err))
		}
		tensors = append(tensors, t)
	}
	slices.SortFunc(tensors, func(a, b tensor) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]),
			cmp.Compare(a.name, b.name))
	})
	end := uint64(0)
	for _, t := range tensors {
		if t.Offsets[0] != end || t.Offsets[1] < end {
			return nil, s.bad(-1, 8, fmt.Errorf("tensor %.60q has the bytes %d to %d, want them from %d on",
				t.name, t.Offsets[0], t.Offsets[1], end))
		}
		end = t.Offsets[1]
	}
	if body := uint64(s.size - s.offset); end != body {
		return nil, s.bad(-1, s.size, fmt.Errorf("the tensors have %d bytes, the file %d behind its header: %w",
			end, body, io.ErrUnexpectedEOF))
	}
	return tensors, nil
}

// rows returns the number type and the dimension of the tensor's records.
func (t *tensor) rows(maxDim int) (e elem, dim int, err error) {
	kind, ok := tensorKinds[t.Type]
	if !ok {
		return e, 0, fmt.Errorf("numbers of type %.20q: save it as F32", t.Type)
	}
	if len(t.Shape) < 2 {
		return e, 0, fmt.Errorf("%d dimensions, want rows and columns", len(t.Shape))
	}
	e.kind = kind
	if dim, err = product(t.Shape[1:], maxDim); err != nil {
		return e, 0, err
	}
	over, size := bits.Mul64(t.Shape[0], uint64(dim*e.size()))
	if over != 0 || size != t.Offsets[1]-t.Offsets[0] {
		return e, 0, errors.New("its shape and its bytes differ")
	}
	return e, dim, nil
}

// isTensors reports whether a file begins as those of tensors do: the length of a JSON object, and a brace.
func isTensors(head []byte) bool {
	return len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxTensorHeader
}
