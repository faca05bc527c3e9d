package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Open opens a file, or a folder of text files, for reading. Gzip, bzip2 and zstd are recognised
// by their magic numbers whatever the name. With o.Format "" the format is detected: by its
// content where that can be no other format, then by the name, then by what the text
// looks like.
//
// Errors: fs errors as they come, [ErrOption] for bad options, *[FormatError]
// for content that cannot be read. The caller closes the Reader.
func Open(path string, o Options) (Reader, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() && formatNamed(FormatFolder).holds(o.Kind) &&
		(o.Format == "" && o.open == nil || o.Format == FormatFolder) {
		o.Format = FormatFolder
		return newReader(folderSource(o.Context, path), o)
	}
	s, err := openSource(o.Context, path)
	if err != nil {
		return nil, err
	}
	return newReader(s, o)
}

// NewReader reads a data set from r like [Open]. The name stands for the path
// in errors and in detection; no file next to it is looked for. Closing the Reader
// does not close r.
func NewReader(name string, r io.Reader, o Options) (Reader, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	s, err := newSource(o.Context, name, r, -1)
	if err != nil {
		return nil, err
	}
	return newReader(s, o)
}

// decoder is what the formats differ in.
type decoder interface {
	// next adds record n to rec, which comes empty but for n as its key. It returns
	// io.EOF after the last record, once the rest of the file has been verified.
	next(rec *Record, n int64) error
	// schema describes the file; Format and Keyed are filled in by the caller where
	// the decoder leaves them out.
	schema() Schema
}

// newReader puts the decoder of the format, the side files of labels and keys, and
// the limit together. It closes s on error.
func newReader(s *source, o Options) (_ Reader, err error) {
	r := &reader{src: s, o: o}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if o.open == nil {
		if err := r.choose(&o); err != nil {
			return nil, err
		}
	}
	if r.dec, err = o.open(s, o); err != nil {
		return nil, err
	}
	s.texts = r.dec.schema().Kind == Text
	if err := r.labelsFit(o.LabelsPath); err != nil {
		return nil, err
	}
	if err := r.openSides(o); err != nil {
		return nil, err
	}
	if f := formatNamed(o.Format); f != nil && f.firstTells || r.awaits() {
		if err := r.readAhead(); err != nil {
			return nil, err
		}
	}
	return r, r.labelsFit(o.LabelsPath)
}

// choose chooses the format, and refuses options that do not suit it.
func (r *reader) choose(o *Options) (err error) {
	s := r.src
	if o.Format == "" {
		s.detected = true
		if o.Format, err = detect(s, *o); err != nil {
			return err
		}
	}
	s.format, s.texts = o.Format, o.Kind == Text
	f := formatNamed(o.Format)
	o.open = f.open
	bad := ""
	switch {
	case !f.holds(o.Kind):
		return s.bad(-1, -1, fmt.Errorf("%s files hold no %v records", f.name, o.Kind))
	case (o.TextColumn != "" || o.Kind == Text && o.vectorNamed) && !f.attributes:
		bad = fmt.Sprintf("a %s has no columns or fields", f.name)
	case o.attributes() && !f.attributes:
		bad = f.name + " files have no attributes"
	case o.Member != "" && !f.members:
		bad = f.name + " files have one array and no names"
	case f.seek && s.at == nil:
		return s.bad(-1, 0, errors.New("files of this format are not read through a pipe or a compression: "+
			"save it as a plain file"))
	default:
		return nil
	}
	return fmt.Errorf("dataset: %w: %s: %s", ErrOption, s.path, bad)
}

// reader is a Reader over the decoder of a format.
type reader struct {
	src     *source
	dec     decoder
	o       Options
	sides   []*side
	ahead   []held // read while opening, still to be given
	at      place  // of the record read last
	ended   bool   // no record is left behind those of ahead
	n       int64  // records given
	place   int64  // records read, those that were rejected among them
	failure error
}

// Schema implements Reader.
func (r *reader) Schema() Schema {
	s := r.dec.schema()
	s.Format = r.src.format
	for _, side := range r.sides {
		own := side.Schema()
		s.Keyed, s.Labels, s.Dim = s.Keyed || own.Keyed, s.Labels+own.Labels, s.Dim+own.Dim
		s.LabelNames = append(s.LabelNames, own.LabelNames...)
	}
	s.FeatureNames, s.LabelNames = slices.Clip(s.FeatureNames), slices.Clip(s.LabelNames)
	if r.o.Max > 0 && s.Records >= 0 {
		s.Records = min(s.Records, r.o.Max)
	}
	return s
}

// Read implements Reader.
func (r *reader) Read(rec *Record) error {
	if r.failure == nil {
		r.failure = r.read(rec)
	}
	return r.failure
}

func (r *reader) read(rec *Record) error {
	if r.o.Max > 0 && r.n == r.o.Max {
		return io.EOF
	}
	for {
		err := r.next(rec)
		if err == nil {
			if err = r.checked(rec); err == nil {
				r.n++
				return nil
			}
		}
		if err == io.EOF {
			return r.end()
		}
		if err := r.rejected(err); err != nil {
			return err
		}
	}
}

// place is the position of a record in the file.
type place struct {
	path         string
	record, line int64 // line is 0 in formats without lines
}

// here returns the place of the record that was decoded last.
func (r *reader) here() place {
	if d, ok := r.dec.(*folder); ok {
		return place{d.file, r.place - 1, 0}
	}
	return place{r.src.path, r.place - 1, r.src.line}
}

// held is a record that was read while the file was opened.
type held struct {
	rec Record
	at  place
}

// awaiter is a decoder of texts that may have vectors, whose dimension one of the first records tells.
type awaiter interface {
	awaits() bool
}

func (r *reader) awaits() bool {
	d, ok := r.dec.(awaiter)
	return ok && d.awaits()
}

// mostAhead is the number of texts that are read for the dimension of the vectors next to them.
const mostAhead = 1024

// readAhead reads the first record that is not rejected, and more while the dimension is not known.
func (r *reader) readAhead() error {
	for len(r.ahead) == 0 || r.awaits() && len(r.ahead) < mostAhead && r.place != r.o.Max {
		var h held
		err := r.decode(&h.rec)
		h.at = r.here()
		switch {
		case err == nil:
			r.ahead = append(r.ahead, h)
			continue
		case err == io.EOF && len(r.ahead) > 0:
			r.ended = true
			return nil
		case err == io.EOF && r.place == 0:
			return r.src.bad(-1, -1, errNoRecords)
		case err == io.EOF:
			return r.src.bad(-1, -1, fmt.Errorf("none of the %d records can be read", r.place))
		}
		r.at = h.at
		if err := r.rejected(err); err != nil {
			return err
		}
	}
	return nil
}

// next returns a record that was read ahead, or the next one.
func (r *reader) next(rec *Record) error {
	if len(r.ahead) == 0 && r.ended {
		return io.EOF
	}
	if len(r.ahead) == 0 {
		err := r.decode(rec)
		r.at = r.here()
		return err
	}
	rec.clear()
	r.ahead[0].rec.addTo(rec)
	r.at, r.ahead = r.ahead[0].at, r.ahead[1:]
	return nil
}

// decode decodes the next record with its label and key from the other files. Those of a record that
// cannot be decoded are passed over.
func (r *reader) decode(rec *Record) error {
	rec.clear()
	rec.Key = strconv.AppendInt(rec.Key[:0], r.place, 10)
	err := r.dec.next(rec, r.place)
	if err != nil && !skippable(err) {
		return err
	}
	for _, side := range r.sides {
		fault := side.add(rec, r)
		if fault != nil && !skippable(fault) {
			return fault
		}
		if err == nil {
			err = fault
		}
	}
	r.place++
	return err
}

// clear empties a record and keeps its memory.
func (r *Record) clear() {
	r.Key, r.Vector, r.Labels, r.Payload = r.Key[:0], r.Vector[:0], r.Labels[:0], r.Payload[:0]
	r.Features.Index, r.Features.Value = r.Features.Index[:0], r.Features.Value[:0]
	r.Text, r.ExpiresAt = "", time.Time{}
	clear(r.Attributes)
}

// checked calls Options.Check for the record that has just been read.
func (r *reader) checked(rec *Record) error {
	if r.o.Check == nil {
		return nil
	}
	if err := r.o.Check(rec); err != nil {
		return &FormatError{
			Path: r.at.path, Format: r.src.format, Record: r.at.record, Line: r.at.line, Offset: -1, Err: err,
			Skippable: true,
		}
	}
	return nil
}

// skippable reports whether the error is the fault of one record.
func skippable(err error) bool {
	f := (*FormatError)(nil)
	return errors.As(err, &f) && f.Skippable
}

// rejected passes a record over, or returns its error.
func (r *reader) rejected(err error) error {
	f := (*FormatError)(nil)
	if r.o.Reject == nil || !errors.As(err, &f) || !f.Skippable {
		return err
	}
	return r.o.Reject(f)
}

// end checks that the files next to the records end with them.
func (r *reader) end() error {
	for _, side := range r.sides {
		if err := side.end(r.place, r.src.path); err != nil {
			return err
		}
	}
	return io.EOF
}

// labelsFit refuses a file of labels next to records that have labels of their own.
func (r *reader) labelsFit(path string) error {
	if path == "" || r.dec.schema().Kind != Sparse || isXMCPart(r.dec) {
		return nil
	}
	return fmt.Errorf("dataset: %w: %s: the records have labels of their own, and take none from %s",
		ErrOption, r.src.path, path)
}

// Close implements Reader.
func (r *reader) Close() error {
	err := r.src.Close()
	for _, side := range r.sides {
		err = errors.Join(err, side.Close())
	}
	return err
}

// errNotUTF8 is the error of a text in Latin-1 or the like, where the format was detected.
var errNotUTF8 = errors.New("a text that is not UTF-8: convert it (iconv -f latin1 -t utf-8), " +
	"or name the format to take its bytes as they are")

// errNotText is the same in a file of texts, whose bytes are never taken as they are.
var errNotText = errors.New("a text that is not UTF-8: convert it (iconv -f latin1 -t utf-8)")

// headSize is how much of a file detection looks at.
const headSize = 4096

// detect returns the format of s without taking bytes from it.
func detect(s *source, o Options) (string, error) {
	head := s.peek(headSize)
	_, isIDX := idxMagic(head)
	named := formatNamed(FormatOf(s.path, o.Kind))
	utf16 := bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
	switch {
	case len(head) == 0:
		if _, err := s.br.Peek(1); err != nil && err != io.EOF {
			return "", s.fail(-1, err)
		}
		return "", s.bad(-1, 0, errors.New("empty file"))
	case bytes.HasPrefix(head, []byte(hdf5Magic)):
		return FormatHDF5, nil
	case bytes.HasPrefix(head, []byte(parquetMagic)) && !isText(head) && o.Kind != Sparse:
		return FormatParquet, nil
	case !isText(head) && o.Kind == Text && !utf16 && named != nil:
		return named.name, nil // its decoder names the record
	case isChromem(head) && !isText(head) && o.Kind != Sparse:
		return FormatChromem, nil
	case !isText(head) && o.Kind >= Sparse && !utf16:
		return "", s.bad(-1, 0, fmt.Errorf("not a text: no format of %v records", o.Kind))
	case bytes.HasPrefix(head, []byte(npyMagic)):
		return FormatNPY, nil
	case bytes.HasPrefix(head, []byte(zipMagic)):
		return FormatNPZ, nil
	case isFAISS(head) && !isText(head):
		return FormatFAISS, nil
	case isTensors(head):
		return FormatTensors, nil
	case isIDX:
		return FormatIDX, nil
	}
	switch {
	case isText(head) && (named != nil || IsText(head)):
		return detectText(s, head, named, o)
	case isText(head):
		return "", s.bad(-1, 0, errNotUTF8)
	case utf16 && (named == nil || named.text):
		return "", s.bad(-1, 0, errors.New("a text in UTF-16: convert it to UTF-8"))
	case named != nil:
		return named.name, nil
	}
	return "", s.bad(-1, 0, errors.New("unknown binary format "+
		"(vecs and bin files need their file name extension or an explicit format)"))
}

// detectText tells the text formats apart. named is the format that the file's name
// suggests, or nil.
func detectText(s *source, head []byte, named *format, o Options) (string, error) {
	whole := len(head) < headSize
	head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	body := bytes.TrimLeft(head, " \t\r\n")
	first, rest, complete := bytes.Cut(body, []byte("\n"))
	complete = complete || whole
	switch {
	case named != nil && !named.text:
		// The complaint of that decoder (wrong magic number) says more than a csv
		// error would.
		return named.name, nil
	case len(body) == 0 && o.Kind == Sparse:
		return "", s.badLine(-1, 1, errors.New("no records"))
	case isJSON(body):
		return FormatJSONL, nil
	case o.Kind == Text && named != nil && (o.TextColumn == "" || named.attributes):
		return named.name, nil
	case o.Kind == Text && o.TextColumn == "":
		return FormatLines, nil
	case o.Kind == Text && bytes.IndexByte(first, '\t') >= 0:
		return FormatTSV, nil
	case o.Kind == Text:
		return FormatCSV, nil
	case o.Kind != Dense && isARFF(first, named):
		return FormatARFF, nil
	case o.Kind != Dense && complete && isXMC(head, rest, named, o.Kind):
		return FormatXMC, nil
	case named != nil && named.dense && o.Kind != Sparse:
		return named.name, nil
	case named != nil && (named.name == FormatXMC || named.name == FormatARFF):
		return named.name, nil
	}
	// The last field of what was looked at may be cut short.
	fields := bytes.Fields(first)
	if !complete && len(fields) > 1 {
		fields = fields[:len(fields)-1]
	}
	switch {
	case o.Kind != Dense && looksLibsvm(fields) && (o.Kind == Sparse || named != nil || hasPair(fields)):
		return FormatLibsvm, nil
	case named != nil:
		return named.name, nil
	case o.Kind != Sparse && o.KeyColumn == "" && o.Separator == 0 && isWords(head):
		return FormatWords, nil
	case o.Kind == Sparse:
		return "", s.badLine(-1, 1, fmt.Errorf("%.40q begins no known format of sparse records", first))
	case o.Kind == AnyKind && FormatOf(s.path, Text) == FormatLines && isProse(head):
		return FormatLines, nil
	case bytes.Count(first, []byte("\t")) > bytes.Count(first, []byte(",")):
		return FormatTSV, nil
	}
	return FormatCSV, nil
}

// isJSON reports whether text begins with a brace and a quoted name, or with an empty object, or with an
// array of objects, which the decoder refuses by name. No other format does.
func isJSON(text []byte) bool {
	if rest, ok := bytes.CutPrefix(text, []byte("[")); ok {
		text = bytes.TrimLeft(rest, " \t\r\n")
	}
	rest, ok := bytes.CutPrefix(text, []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && len(rest) > 0 && (rest[0] == '"' || rest[0] == '}')
}

// IsText reports whether the first bytes of a file are a text in UTF-8.
func IsText(head []byte) bool {
	for i := 0; i < utf8.UTFMax && len(head) > 0; i++ { // the last character may be cut short
		if r, n := utf8.DecodeLastRune(head); r != utf8.RuneError || n > 1 {
			break
		}
		head = head[:len(head)-1]
	}
	return isText(head) && utf8.Valid(head)
}

// isText reports whether b has no control bytes but white space.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}
