package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// side is a file next to the records that has a part of each: keys, labels or vectors.
type side struct {
	*reader
	what string // the records of the file
	move func(to, from *Record) error
	rec  Record
}

// openSides opens the files next to the records that the options name.
func (r *reader) openSides(o Options) error {
	labels := func(to, from *Record) error {
		to.Labels = append(to.Labels, from.Labels...)
		return nil
	}
	keys := func(to, from *Record) error {
		to.Key = append(to.Key[:0], from.Key...)
		return nil
	}
	vector := func(to, from *Record) error {
		if len(to.Vector) > 0 {
			return fmt.Errorf("a vector, and another one in %s", o.VectorsPath)
		}
		to.Vector = append(to.Vector, from.Vector...)
		return nil
	}
	if s := r.dec.schema(); o.VectorsPath != "" && (s.Kind != Text || s.Dim > 0 || r.awaits()) {
		return fmt.Errorf("dataset: %w: %s: the records have vectors of their own, and take none from %s",
			ErrOption, r.src.path, o.VectorsPath)
	}
	for _, f := range []struct {
		path string
		side
		options Options
	}{
		{
			o.LabelsPath, side{what: "labels", move: labels},
			Options{open: openLabels, LabelNames: o.LabelNames},
		},
		{o.KeysPath, side{what: "keys", move: keys}, Options{open: openKeys}},
		{o.VectorsPath, side{what: "vectors", move: vector}, Options{Kind: Dense, Queries: o.Queries}},
	} {
		if f.path == "" {
			continue
		}
		f.options.Context, f.options.MaxDim = o.Context, o.MaxDim
		in, err := Open(f.path, f.options)
		if err != nil {
			return err
		}
		f.reader = in.(*reader)
		r.sides = append(r.sides, &f.side)
		// With a limit a file need only be long enough, which Read checks.
		n, own := r.dec.schema().Records, f.Schema().Records
		if r.o.Max == 0 && n >= 0 && own >= 0 && n != own {
			return f.count("%d %s for the %d records of %s", own, f.what, n, r.src.path)
		}
	}
	return nil
}

// count is the error of a file that has not as many records as there are.
func (s *side) count(text string, args ...any) error {
	return &FormatError{Path: s.src.path, Record: -1, Offset: -1, Err: fmt.Errorf(text, args...)}
}

// add adds the next part to a record of r.
func (s *side) add(rec *Record, r *reader) error {
	err := s.next(&s.rec)
	switch {
	case err == io.EOF:
		return s.count("%d %s for more records in %s", s.place, s.what, r.src.path)
	case err != nil:
		return err
	}
	if err := s.move(rec, &s.rec); err != nil {
		return r.src.badRecord(r.place, -1, err)
	}
	return nil
}

// end checks that the file ends with the n records of a path. Empty keys at its end are none.
func (s *side) end(n int64, path string) error {
	for {
		err := s.next(&s.rec)
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, errEmptyKey):
		case err == nil || skippable(err):
			return s.count("more %s than the %d records of %s", s.what, n, path)
		default:
			return err
		}
	}
}

// keyLines reads a key a line.
type keyLines struct{}

func openKeys(s *source, _ Options) (decoder, error) {
	return &lineDecoder{rowDecoder: keyLines{}, lines: newLines(s)}, nil
}

func (keyLines) schema() Schema  { return Schema{Records: -1, Keyed: true} }
func (keyLines) end(int64) error { return nil }

func (keyLines) decode(rec *Record, line []byte) (bool, error) {
	if line = trimLineEnd(line); len(line) == 0 {
		return true, errEmptyKey
	}
	rec.Key = append(rec.Key[:0], line...)
	return true, nil
}

// openLabels opens labels as an idx file, or as the XMC repository has them in a file of their own.
func openLabels(s *source, o Options) (decoder, error) {
	first, _, _ := bytes.Cut(s.peek(headSize), []byte("\n"))
	if isText(first) && len(bytes.Fields(first)) == 2 {
		return openXMCLabels(s, o)
	}
	e, sizes, err := idxHeader(s)
	if err != nil {
		return nil, err
	}
	if len(sizes) != 1 || !e.integer() {
		return nil, s.bad(-1, 2,
			fmt.Errorf("labels must be whole numbers in one dimension, not %d", len(sizes)))
	}
	numbers, err := newFixed(s, e, 1, int64(sizes[0]), false)
	return idxLabels{numbers}, err
}

// idxLabels makes labels of the numbers of an idx file.
type idxLabels struct{ *fixed }

func (l idxLabels) schema() Schema { return Schema{Records: l.length} }

func (l idxLabels) next(rec *Record, n int64) error {
	if err := l.fixed.next(rec, n); err != nil {
		return err
	}
	rec.Labels = append(rec.Labels, strconv.Itoa(int(rec.Vector[0])))
	return nil
}

// xmcLabels reads the labels of a set whose features are in another file: a line "rows labels", and for
// each row a line of "label:value".
type xmcLabels struct {
	xmc
	row Record // with the labels as features
}

func openXMCLabels(s *source, o Options) (decoder, error) {
	in := newLines(s)
	n, err := xmcHeader(in, 2, 2)
	if err != nil {
		return nil, err
	}
	l := &xmcLabels{xmc: xmc{
		pairs: pairs{what: "label", limit: n[1]}, parts: true,
		left: int64(n[0]), records: int64(n[0]), labels: n[1],
	}}
	if l.names, err = newXMCNames(o.LabelNames, n[1]); err != nil {
		return nil, in.bad(-1, err)
	}
	return &lineDecoder{rowDecoder: l, lines: in}, nil
}

func (l *xmcLabels) decode(rec *Record, line []byte) (bool, error) {
	l.row.clear()
	ok, err := l.xmc.decode(&l.row, line)
	for _, label := range l.row.Features.Index {
		if err == nil {
			err = rec.addLabel(l.names.of(label))
		}
	}
	return ok, err
}
