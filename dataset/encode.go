package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// newEncoder returns nil for an unknown format.
func newEncoder(format string, dim int) encoder {
	switch format {
	case FormatIDX:
		return idxEncoder{dim: dim}
	case FormatNPY:
		return npyEncoder{dim: dim}
	case FormatFvecs, FormatBvecs, FormatIvecs:
		return vecsEncoder{format: format}
	case FormatCSV:
		return delimitedEncoder{dim: dim, comma: ','}
	case FormatTSV:
		return delimitedEncoder{dim: dim, comma: '\t'}
	case FormatJSONL:
		return jsonlEncoder{}
	}
	return nil
}

// idxEncoder writes float32, which holds every vector.
type idxEncoder struct{ dim int }

func (idxEncoder) counted() bool { return true }

func (e idxEncoder) header(n int64) ([]byte, error) {
	if n > math.MaxUint32 {
		return nil, fmt.Errorf("%d records, an idx file holds at most %d", n, uint32(math.MaxUint32))
	}
	b := []byte{0, 0, 0x0d, 2}
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, uint32(e.dim)), nil
}

func (idxEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	for _, v := range rec.Vector {
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst, nil
}

// npyEncoder writes version 1, little-endian float32, C order.
type npyEncoder struct{ dim int }

// npyHeaderLength is that of a whole header: a multiple of 64, as NumPy aligns
// the data, with room for the largest shape.
const npyHeaderLength = 128

func (npyEncoder) counted() bool { return true }

func (e npyEncoder) header(n int64) ([]byte, error) {
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, e.dim)
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, npyHeaderLength-10)
	b = append(b, text...)
	b = append(b, bytes.Repeat([]byte(" "), npyHeaderLength-1-len(b))...)
	return append(b, '\n'), nil
}

func (npyEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	return appendFloats(dst, rec.Vector), nil
}

func appendFloats(dst []byte, vector []float32) []byte {
	for _, v := range vector {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// vecsEncoder writes fvecs, bvecs and ivecs.
type vecsEncoder struct{ format string }

func (vecsEncoder) counted() bool                { return false }
func (vecsEncoder) header(int64) ([]byte, error) { return nil, nil }

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
			return dst, fmt.Errorf("value %d is %v: %s holds whole numbers from %.0f to below %.0f", i, v, e.format, low, high)
		}
		if e.format == FormatBvecs {
			dst = append(dst, byte(v))
		} else {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(int32(v)))
		}
	}
	return dst, nil
}

// delimitedEncoder writes csv and tsv: key, v0, v1, …, labels, payload.
type delimitedEncoder struct {
	dim   int
	comma byte
}

func (delimitedEncoder) counted() bool { return false }

func (e delimitedEncoder) header(int64) ([]byte, error) {
	b := []byte("key")
	for i := range e.dim {
		b = append(b, e.comma, 'v')
		b = strconv.AppendInt(b, int64(i), 10)
	}
	for _, name := range []string{"labels", "payload"} {
		b = append(b, e.comma)
		b = append(b, name...)
	}
	return append(b, '\n'), nil
}

func (e delimitedEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	for i, label := range rec.Labels {
		if label == "" || strings.Contains(label, "|") {
			return dst, fmt.Errorf("label %d, %.40q, is empty or has a |, which parts labels in csv", i, label)
		}
	}
	labels := strings.Join(rec.Labels, "|")
	// encoding/csv, for one, reads these two bytes as one line feed.
	if bytes.Contains(rec.Key, []byte("\r\n")) || bytes.Contains(rec.Payload, []byte("\r\n")) || strings.Contains(labels, "\r\n") {
		return dst, errors.New("carriage return and line feed in a text: csv readers would change them, jsonl keeps them")
	}
	dst = e.appendCell(dst, string(rec.Key))
	for _, v := range rec.Vector {
		dst = append(dst, e.comma)
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, labels)
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, string(rec.Payload))
	return append(dst, '\n'), nil
}

// appendCell quotes a text where RFC 4180 asks for it.
func (e delimitedEncoder) appendCell(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, "\"\r\n"+string(rune(e.comma))) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}

var errEmptyKey = errors.New("empty key")

// jsonlEncoder writes one object a line.
type jsonlEncoder struct{}

func (jsonlEncoder) counted() bool                { return false }
func (jsonlEncoder) header(int64) ([]byte, error) { return nil, nil }

func (jsonlEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	dst = append(dst, '{')
	dst, err := appendText(dst, "key", fieldKeyBase64, rec.Key)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"vector":[`...)
	for i, v := range rec.Vector {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	dst = append(dst, ']')
	if len(rec.Labels) > 0 {
		for i, label := range rec.Labels {
			if !utf8.ValidString(label) {
				return dst, fmt.Errorf("label %d, %.40q, is not UTF-8", i, label)
			}
		}
		list, err := json.Marshal(rec.Labels)
		if err != nil {
			return dst, err
		}
		dst = append(dst, `,"labels":`...)
		dst = append(dst, list...)
	}
	if len(rec.Payload) > 0 {
		dst = append(dst, ',')
		if dst, err = appendText(dst, "payload", fieldPayloadBase64, rec.Payload); err != nil {
			return dst, err
		}
	}
	return append(dst, '}', '\n'), nil
}

// appendText writes a field as a string, or, since JSON has no other place for
// bytes that are not UTF-8, under its second name in base64.
func appendText(dst []byte, name, name64 string, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		dst = append(dst, '"')
		dst = append(dst, name64...)
		dst = append(dst, `":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, text)
		return append(dst, '"'), nil
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return dst, err
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, quoted...), nil
}
