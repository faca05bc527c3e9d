package dataset

import (
	"bytes"
	"fmt"
	"io"
)

// blanks separate the fields of word vectors.
const blanks = " \t"

// words reads word vectors as GloVe, word2vec and fastText write them as text: a word and its numbers in a
// line, perhaps after a line with the number of words and the dimension.
type words struct {
	dim, maxDim int   // dim is 0 until the first row is read
	promised    int64 // rows; -1: the file does not say
	rows        int64
}

func openWords(s *source, o Options) (decoder, error) {
	w := &words{maxDim: o.MaxDim, promised: -1}
	in := newLines(s)
	if n, dim, ok := wordsHeader(s.peek(bufferSize)); ok {
		if _, err := in.next(-1); err != nil {
			return nil, err
		}
		if dim < 1 || dim > uint64(o.MaxDim) {
			return nil, in.bad(-1, fmt.Errorf("dimension %d, want 1..%d", dim, o.MaxDim))
		}
		w.dim, w.promised = int(dim), int64(n)
	}
	return &lineDecoder{rowDecoder: w, lines: in}, nil
}

// wordsHeader returns the counts in the first line of a text, if it has these and the second line is a row
// of that dimension.
func wordsHeader(text []byte) (n, dim uint64, ok bool) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(first)
	if len(fields) != 2 {
		return 0, 0, false
	}
	n, ok = parseNumber(fields[0])
	if !ok {
		return 0, 0, false
	}
	if dim, ok = parseNumber(fields[1]); !ok {
		return 0, 0, false
	}
	second, _, whole := bytes.Cut(rest, []byte("\n"))
	row := bytes.Fields(second)
	// A vector of two numbers could as well be a word and one number.
	switch {
	case len(row) == 0:
		return n, dim, n == 0
	case !whole:
		return n, dim, len(row) > 1
	}
	return n, dim, uint64(len(row)) > dim && len(row) > 1 && (dim != 1 || !number(string(row[0])))
}

// isWords reports whether a text begins like word vectors.
func isWords(text []byte) bool {
	if n, _, ok := wordsHeader(text); ok && n > 0 {
		return true
	}
	first, _, whole := bytes.Cut(text, []byte("\n"))
	if bytes.IndexByte(first, '\t') >= 0 {
		return false
	}
	fields := bytes.Fields(first)
	if !whole && len(fields) > 1 && len(text) == headSize {
		fields = fields[:len(fields)-1] // cut short
	}
	if len(fields) < 3 || number(string(fields[0])) {
		return false
	}
	for _, f := range fields[1:] {
		if !number(string(f)) {
			return false
		}
	}
	return true
}

func (w *words) schema() Schema {
	return Schema{Kind: Dense, Dim: w.dim, Base: BaseZero, Records: w.promised, Keyed: true}
}

func (w *words) end(int64) error {
	if w.rows < w.promised {
		return fmt.Errorf("truncated: the first line promises %d more rows: %w",
			w.promised-w.rows, io.ErrUnexpectedEOF)
	}
	return nil
}

// decode reads from the right, for a word may have blanks.
func (w *words) decode(rec *Record, line []byte) (bool, error) {
	line = bytes.TrimRight(trimLineEnd(line), blanks)
	if len(line) == 0 {
		return false, nil
	}
	if w.rows++; w.promised >= 0 && w.rows > w.promised {
		return false, fmt.Errorf("more rows than the %d that the first line promises", w.promised)
	}
	dim := w.dim
	if dim == 0 {
		if dim = len(bytes.Fields(line)) - 1; dim < 1 || dim > w.maxDim {
			return false, fmt.Errorf("a word and %d numbers, want 1..%d", dim, w.maxDim)
		}
	}
	rec.Vector = resize(rec.Vector, dim)
	for i := dim - 1; i >= 0; i-- {
		at := bytes.LastIndexAny(line, blanks)
		if at < 0 {
			return false, fmt.Errorf("%d numbers, the rows before have %d", dim-1-i, dim)
		}
		v, err := parseValue(line[at+1:])
		if err != nil {
			return false, fmt.Errorf("value %d: %w", i, err)
		}
		rec.Vector[i] = v
		line = bytes.TrimRight(line[:at], blanks)
	}
	if len(line) == 0 {
		return false, errEmptyKey
	}
	if at := bytes.LastIndexAny(line, blanks); at >= 0 && number(string(line[at+1:])) {
		return false, fmt.Errorf("more than %d numbers", dim)
	}
	w.dim = dim
	rec.Key = append(rec.Key[:0], line...)
	return true, nil
}
