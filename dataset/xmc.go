package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// xmc reads the format of the extreme classification repository. A line is a
// record even if it is empty, up to the number promised. Newer sets have a header without the number of
// labels, and the labels in another file.
type xmc struct {
	pairs
	features int
	labels   uint64
	parts    bool  // the labels are in another file
	left     int64 // records promised and not yet read
	names    xmcNames
	o        Options
	records  int64
}

// xmcNames names labels by number.
type xmcNames struct {
	given []string
	texts interned // the numbers where no names are given
}

// newXMCNames checks that there are as many names as labels.
func newXMCNames(given []string, labels uint64) (xmcNames, error) {
	if given != nil && uint64(len(given)) != labels {
		return xmcNames{}, fmt.Errorf("%d labels, %d label names were given", labels, len(given))
	}
	if labels > maxLabels {
		return xmcNames{}, fmt.Errorf("%d labels, at most %d are read", labels, uint64(maxLabels))
	}
	return xmcNames{given, interned{}}, nil
}

func (x *xmcNames) of(l uint32) string {
	if x.given != nil {
		return x.given[l]
	}
	var digits [10]byte
	return x.texts.get(strconv.AppendUint(digits[:0], uint64(l), 10))
}

// isXMCHeader reports whether a line is two or three whole numbers.
func isXMCHeader(line []byte) bool {
	fields := bytes.Fields(line)
	if len(fields) != 2 && len(fields) != 3 {
		return false
	}
	for _, f := range fields {
		if _, ok := parseNumber(f); !ok {
			return false
		}
	}
	return true
}

// isXMC reports whether text is the beginning of an xmc file: a header, and behind
// it a record with a feature. Where the file's name or kind says so, the header is
// enough, as three numbers in a line are no other sparse record.
func isXMC(head, records []byte, named *format, kind Kind) bool {
	header, _, _ := bytes.Cut(head, []byte("\n"))
	if !isXMCHeader(header) {
		return false
	}
	if kind == Sparse || named != nil && named.sparse {
		return true
	}
	if bytes.IndexByte(header, '\t') >= 0 {
		return false
	}
	second, _, _ := bytes.Cut(bytes.TrimLeft(records, "\r\n"), []byte("\n"))
	return hasPair(bytes.Fields(second))
}

// xmcHeader reads a line of at least and at most so many numbers.
func xmcHeader(in *lines, least, most int) ([]uint64, error) {
	line, err := in.next(-1)
	if err == io.EOF {
		return nil, in.bad(-1, errors.New("empty file"))
	}
	if err != nil {
		return nil, err
	}
	fields := bytes.Fields(line)
	if !isXMCHeader(line) || len(fields) < least || len(fields) > most {
		return nil, in.bad(-1, fmt.Errorf("%.40q is no header \"rows features labels\", nor \"rows features\" "+
			"or \"rows labels\" of a set in two files", bytes.TrimSpace(line)))
	}
	var n []uint64
	for _, f := range fields {
		x, _ := parseNumber(f) // isXMCHeader has checked
		n = append(n, x)
	}
	return n, nil
}

func openXMC(s *source, o Options) (decoder, error) {
	in := newLines(s)
	n, err := xmcHeader(in, 2, 3)
	if err != nil {
		return nil, err
	}
	if n[1] > uint64(o.MaxFeatures) {
		return nil, in.bad(-1, fmt.Errorf("%d features, at most %d are read", n[1], o.MaxFeatures))
	}
	if o.FeatureNames != nil && uint64(len(o.FeatureNames)) != n[1] {
		return nil, in.bad(-1, fmt.Errorf("%d features, %d feature names were given", n[1], len(o.FeatureNames)))
	}
	x := &xmc{features: int(n[1]), parts: len(n) == 2, left: int64(n[0]), records: int64(n[0]), o: o}
	x.limit = n[1]
	switch {
	case !x.parts:
		x.labels = n[2]
		if x.names, err = newXMCNames(o.LabelNames, n[2]); err != nil {
			return nil, in.bad(-1, err)
		}
	case o.LabelNames != nil && o.LabelsPath == "":
		return nil, in.bad(-1, errors.New("there are names of labels, and the labels are in another file, "+
			"which was not given"))
	}
	return &lineDecoder{rowDecoder: x, lines: in}, nil
}

// isXMCPart reports whether the decoder reads a file whose labels are in another one.
func isXMCPart(d decoder) bool {
	l, ok := d.(*lineDecoder)
	if !ok {
		return false
	}
	x, ok := l.rowDecoder.(*xmc)
	return ok && x.parts
}

func (x *xmc) schema() Schema {
	return Schema{
		Kind: Sparse, Dim: x.features, Base: BaseZero, Labels: int(x.labels), Records: x.records,
		FeatureNames: x.o.FeatureNames, LabelNames: x.names.given,
	}
}

func (x *xmc) end(int64) error {
	if x.left > 0 {
		return fmt.Errorf("truncated: the header promises %d more records: %w", x.left, io.ErrUnexpectedEOF)
	}
	return nil
}

func (x *xmc) decode(rec *Record, line []byte) (bool, error) {
	line = bytes.TrimRight(line, " \t\r\n")
	if x.left == 0 {
		if len(line) > 0 {
			return false, errors.New("more records than the header promises")
		}
		return false, nil
	}
	x.left--
	// A line that begins with a blank has no labels; nor has one that begins
	// with a feature.
	head, rest := cutField(line)
	if x.parts || bytes.IndexByte(head, ':') >= 0 {
		head, rest = nil, line
	}
	for len(head) > 0 {
		text, tail, more := bytes.Cut(head, []byte(","))
		l, ok := parseNumber(text)
		if !ok {
			return false, fmt.Errorf("label %.40q is no whole number", text)
		}
		if l >= x.labels {
			return false, fmt.Errorf("label %d, the header promises %d from 0 on", l, x.labels)
		}
		if more && len(tail) == 0 {
			return false, errors.New("a comma after the last label")
		}
		if err := rec.addLabel(x.names.of(uint32(l))); err != nil {
			return false, err
		}
		head = tail
	}
	return true, x.parse(&rec.Features, rest)
}
