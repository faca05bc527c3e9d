package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// errNotChromem is the error of a file that does not begin as an export does.
var errNotChromem = errors.New("not what ExportToFile of chromem-go writes, or encrypted: " +
	"export the database without an encryption key")

// isChromem reports whether a file begins with the type of an export: a struct with a field Collections.
func isChromem(head []byte) bool {
	return bytes.Contains(head[:min(len(head), 64)], []byte("\x0bCollections"))
}

// chromem reads the documents of a collection in an export of chromem-go, which is one gob: a map of
// collections, each with a map of documents. It reads a document at a time.
type chromem struct {
	gob                  gobReader
	o                    Options
	top, in              gobFields // of the export, of the collection that is read
	collection, document int64     // their types
	left, docs           uint64    // collections and documents still to come
	inside, found        bool      // in the collection that is read; there is one
	records              int64
	dim                  int
	names                nameList // of the collections so far
}

// openChromem reads the only collection, or that of Options.Member.
func openChromem(s *source, o Options) (decoder, error) {
	if !isChromem(s.peek(64)) {
		return nil, s.bad(-1, 0, errNotChromem)
	}
	d := &chromem{gob: newGobReader(s), o: o, records: -1}
	d.top = d.gob.fields(d.gob.begin())
	if d.gob.find(&d.top, "Collections") {
		d.collection, d.left = d.gob.mapOf(d.top.id)
	}
	if d.left > 1 && o.Member == "" {
		for ; d.left > 0 && d.gob.err == nil; d.left-- {
			d.name()
			d.gob.skip(d.collection, 0)
		}
		d.gob.fail(fmt.Errorf("%w The file has the collections %s", ErrMember, listed(d.names.names)))
	}
	return d, d.gob.err
}

// name takes the name of a collection.
func (d *chromem) name() string {
	d.gob.taken = 0
	name := d.gob.text()
	if err := d.names.add(name); err != nil {
		d.gob.fail(err)
	}
	return name
}

// schema implements decoder. chromem-go has scaled the vectors to unit length.
func (d *chromem) schema() Schema {
	s := Schema{Kind: Text, Dim: d.dim, Base: BaseZero, Records: d.records, Keyed: true, Distance: "cosine"}
	if d.o.Kind == Dense {
		s.Kind = Dense
	}
	return s
}

// awaits implements awaiter.
func (d *chromem) awaits() bool { return d.o.Kind != Dense && d.dim == 0 }

func (d *chromem) next(rec *Record, n int64) error {
	d.gob.record = n
	for d.docs == 0 {
		if err := d.advance(); err != nil {
			return err
		}
	}
	d.docs--
	d.gob.taken = 0
	fault := d.take(rec)
	switch {
	case d.gob.err != nil:
		return d.gob.err
	case fault != nil:
		return d.gob.src.badRecord(n, d.gob.src.offset, fault)
	case d.dim == 0:
		d.dim = len(rec.Vector)
	}
	return nil
}

// advance goes to the documents of the collection, or returns io.EOF at the end of the file.
func (d *chromem) advance() error {
	g := &d.gob
	if d.inside {
		d.inside = false
		g.rest(&d.in)
	}
	for d.left > 0 && g.err == nil {
		d.left--
		if name := d.name(); d.o.Member != "" && name != d.o.Member {
			g.skip(d.collection, 0)
			continue
		}
		d.inside, d.found = true, true
		d.in = g.fields(d.collection)
		if g.find(&d.in, "Documents") {
			d.document, d.docs = g.mapOf(d.in.id)
			d.records = int64(min(d.docs, math.MaxInt64))
		}
		return g.err
	}
	g.rest(&d.top)
	switch {
	case g.err != nil:
	case g.src.offset != g.end:
		g.fail(errors.New("the length of the export is not that of its documents"))
	case !d.found && d.o.Member != "":
		g.fail(fmt.Errorf("%w There is no %.60q, only %s", ErrMember, d.o.Member, listed(d.names.names)))
	default:
		g.err = g.src.end(g.record)
	}
	if g.err != nil {
		return g.err
	}
	return io.EOF
}

// take takes a document. Its error is a fault of the document, which has been taken as a whole.
func (d *chromem) take(rec *Record) (fault error) {
	g := &d.gob
	keep := func(err error) {
		if fault == nil {
			fault = err
		}
	}
	if rec.Key = append(rec.Key[:0], g.text()...); len(rec.Key) == 0 {
		keep(errEmptyKey)
	}
	for f := g.fields(d.document); g.next(&f); {
		switch f.name {
		case "Metadata":
			elem, n := g.mapOf(f.id)
			for g.expect(elem == gobString); n > 0 && g.err == nil; n-- {
				name, value := g.text(), g.text()
				keep(d.metadata(rec, name, value))
			}
		case "Embedding":
			keep(d.vector(rec, f.id))
		case "Content":
			g.expect(f.id == gobString)
			if rec.Text = g.text(); !utf8.ValidString(rec.Text) {
				keep(errNotText)
			}
		default: // the ID is the key of the map
			g.skip(f.id, 0)
		}
	}
	if d.o.Kind != Dense {
		if len(rec.Vector) == 0 && rec.Text == "" {
			keep(errors.New("neither a content nor an embedding"))
		}
		return fault
	}
	if rec.Payload, rec.Text = append(rec.Payload[:0], rec.Text...), ""; len(rec.Vector) == 0 {
		keep(errors.New("no embedding"))
	}
	return fault
}

// metadata adds a value of the metadata: an attribute, a label or the expiry.
func (d *chromem) metadata(rec *Record, name, value string) (err error) {
	switch i := slices.IndexFunc(d.o.Attributes, func(a Attribute) bool { return a.Name == name }); {
	case slices.Contains(d.o.IgnoreColumns, name):
	case slices.Contains(d.o.LabelColumns, name):
		for label := range strings.SplitSeq(value, d.o.LabelSeparator) {
			if err = rec.addLabel(label); err != nil {
				break
			}
		}
	case d.o.ExpiryColumn != "" && name == d.o.ExpiryColumn:
		var at any
		if at, err = TimeType.Parse(value); at != nil && err == nil {
			rec.ExpiresAt = at.(time.Time)
		}
	case !utf8.ValidString(name + value):
		err = errNotText
	case i < 0:
		err = rec.setAttribute(name, value)
	default:
		var v any
		if v, err = d.o.Attributes[i].Type.Parse(value); v != nil && err == nil {
			err = rec.setAttribute(name, v)
		}
	}
	if err != nil {
		return fmt.Errorf("metadata %.60q: %w", name, err)
	}
	return nil
}

// vector takes the embedding.
func (d *chromem) vector(rec *Record, id int64) (fault error) {
	g := &d.gob
	t := g.types[id]
	g.expect(t != nil && t.kind == gobSlice && t.elem == gobFloat)
	n := g.uint()
	if n > uint64(d.o.MaxDim) {
		g.fail(fmt.Errorf("an embedding of %d values, want at most %d", n, d.o.MaxDim))
	}
	for i := uint64(0); i < n && g.err == nil; i++ {
		v := float32(math.Float64frombits(bits.ReverseBytes64(g.uint())))
		if !finite(v) && fault == nil {
			fault = fmt.Errorf("value %d is %v: not finite", i, v)
		}
		rec.Vector = append(rec.Vector, v)
	}
	if d.dim > 0 && n > 0 && n != uint64(d.dim) && fault == nil {
		fault = fmt.Errorf("an embedding of %d values, the records before have %d", n, d.dim)
	}
	return fault
}
