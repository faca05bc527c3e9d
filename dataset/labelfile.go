package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// labelFile reads labels from a file next to the records.
type labelFile interface {
	// add adds the labels of record n of the file records.
	add(rec *Record, n int64, records string) error
	// end checks that the labels end with n records of the file records.
	end(n int64, records string) error
	// describe adds what is known of the labels to the schema of the records, and returns for how many
	// records there are labels.
	describe(s *Schema) int64
	Close() error
}

// openLabelFile opens labels as an idx file, or as the XMC repository has them in a file of their own.
func openLabelFile(s *source, o Options) (labelFile, error) {
	if first, _, _ := bytes.Cut(s.peek(headSize), []byte("\n")); isText(first) && len(bytes.Fields(first)) == 2 {
		return openXMCLabels(s, o)
	}
	e, sizes, err := idxHeader(s)
	if err != nil {
		return nil, err
	}
	if len(sizes) != 1 || !e.integer() {
		return nil, s.bad(-1, 2, fmt.Errorf("labels must be whole numbers in one dimension, not %d", len(sizes)))
	}
	return &idxLabels{source: s, elem: e, n: int64(sizes[0])}, nil
}

// tooFew is the error of a file that has labels for n records only.
func tooFew(n int64, records string) error {
	return fmt.Errorf("%d labels for more records in %s", n, records)
}

// tooMany is the error of a file that has labels for all records and more.
func tooMany(labels, n int64, records string) error {
	return fmt.Errorf("%d labels for the %d records of %s", labels, n, records)
}

// idxLabels reads an idx file of one dimension and whole numbers.
type idxLabels struct {
	*source
	elem elem
	n, i int64
}

func (l *idxLabels) describe(*Schema) int64 { return l.n }

func (l *idxLabels) add(rec *Record, n int64, records string) error {
	if l.i == l.n {
		return l.bad(n, l.offset, tooFew(l.n, records))
	}
	var b [4]byte
	if err := l.readFull(b[:l.elem.size()]); err != nil {
		return l.fail(l.i, err)
	}
	l.i++
	rec.Labels = append(rec.Labels, strconv.FormatInt(l.elem.int(b[:], 0), 10))
	return nil
}

func (l *idxLabels) end(n int64, records string) error {
	if n < l.n {
		return l.bad(n, l.offset, tooMany(l.n, n, records))
	}
	return l.source.end(n)
}

// xmcLabels reads the labels of a set whose features are in another file: a line "rows labels", and for
// each row a line of "label:value".
type xmcLabels struct {
	lines  *lines
	n, i   int64
	labels pairs
	row    Record // with the labels as features
	names  xmcNames
}

func openXMCLabels(s *source, o Options) (labelFile, error) {
	in := newLines(s)
	n, err := xmcHeader(in, 2, 2)
	if err != nil {
		return nil, err
	}
	l := &xmcLabels{lines: in, n: int64(n[0]), labels: pairs{what: "label", limit: n[1]}}
	l.names, err = newXMCNames(o.LabelNames, n[1])
	if err != nil {
		return nil, in.bad(-1, err)
	}
	return l, nil
}

func (l *xmcLabels) describe(s *Schema) int64 {
	s.Labels, s.LabelNames = int(l.labels.limit), l.names.given
	return l.n
}

func (l *xmcLabels) Close() error { return l.lines.src.Close() }

func (l *xmcLabels) add(rec *Record, n int64, records string) error {
	line, err := l.lines.next(n)
	if err == io.EOF || err == nil && l.i == l.n {
		return l.lines.bad(n, tooFew(l.i, records))
	}
	if err != nil {
		return err
	}
	l.i++
	l.row.clear()
	if err := l.labels.parse(&l.row.Features, bytes.TrimRight(line, " \t\r\n")); err != nil {
		return l.lines.badRecord(n, err)
	}
	for _, label := range l.row.Features.Index {
		if rec.Labels, err = appendLabel(rec.Labels, l.names.of(label)); err != nil {
			return l.lines.badRecord(n, err)
		}
	}
	return nil
}

func (l *xmcLabels) end(n int64, records string) error {
	if n < l.n {
		return l.lines.bad(n, tooMany(l.n, n, records))
	}
	for {
		line, err := l.lines.next(n)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(bytes.TrimSpace(line)) > 0:
			return l.lines.bad(n, errors.New("more rows than the header promises"))
		}
	}
}
