package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// copyOf returns a record that shares nothing with rec.
func copyOf(rec *Record) Record {
	return Record{
		Key: bytes.Clone(rec.Key), Vector: slices.Clone(rec.Vector),
		Features: vector.Sparse{Index: slices.Clone(rec.Features.Index), Value: slices.Clone(rec.Features.Value)},
		Text:     rec.Text, Labels: slices.Clone(rec.Labels), Payload: bytes.Clone(rec.Payload),
		Attributes: maps.Clone(rec.Attributes), ExpiresAt: rec.ExpiresAt,
	}
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readAll reads to the end; it checks what every reader promises on the way.
func readAll(t rapid.TB, r Reader) ([]Record, error) {
	t.Helper()
	var all []Record
	var rec Record
	for {
		err := r.Read(&rec)
		if err != nil {
			if again := r.Read(&rec); again != err {
				t.Errorf("the second Read after the end gives %v, the first gave %v", again, err)
			}
			if err == io.EOF {
				if n := r.Schema().Records; n >= 0 && n != int64(len(all)) {
					t.Errorf("Len says %d, read %d", n, len(all))
				}
				return all, nil
			}
			return all, err
		}
		checkValues(t, r.Schema(), &rec)
		if len(rec.Key) == 0 {
			t.Fatal("empty key")
		}
		all = append(all, copyOf(&rec))
	}
}

// checkValues checks what every reader promises of a record's values.
func checkValues(t rapid.TB, s Schema, rec *Record) {
	t.Helper()
	for name, v := range rec.Attributes {
		typ, err := TypeOf(v)
		if at, ok := v.(time.Time); err != nil || ok && at.Location() != time.UTC {
			t.Fatalf("attribute %q is %v: %v", name, v, err)
		}
		if a := (Attribute{name, typ}); s.Attributes != nil && !slices.Contains(s.Attributes, a) &&
			!slices.Contains(s.Attributes, Attribute{Name: name}) {
			t.Fatalf("attribute %v, the file has %v", a, s.Attributes)
		}
	}
	if l, twice := repeated(rec.Labels); twice {
		t.Fatalf("label %q twice", l)
	}
	if s.Kind == Dense {
		if s.Dim < 1 || len(rec.Vector) != s.Dim || rec.Features.Len() > 0 {
			t.Fatalf("%d values, Dim is %d", len(rec.Vector), s.Dim)
		}
		for _, v := range rec.Vector {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("value %v", v)
			}
		}
		return
	}
	if s.Kind == Text {
		if n := len(rec.Vector); !utf8.ValidString(rec.Text) || n > 0 && n != s.Dim || rec.Features.Len() > 0 {
			t.Fatalf("text %q with a vector of %d values and %d features", rec.Text, len(rec.Vector), rec.Features.Len())
		}
		return
	}
	if err := rec.Features.Validate(); err != nil || s.Kind != Sparse || len(rec.Vector) > 0 {
		t.Fatal(err, s.Kind, rec.Vector)
	}
	n := rec.Features.Len()
	if s.Dim > 0 && n > 0 && int(rec.Features.Index[n-1]) >= s.Dim {
		t.Fatalf("feature %d, Dim is %d", rec.Features.Index[n-1], s.Dim)
	}
	if slices.Contains(rec.Features.Value, 0) {
		t.Fatal("a zero is listed")
	}
}

// asSparse makes options refuse dense files.
func asSparse(o Options) Options {
	o.Kind = Sparse
	return o
}

// load reads data under a name.
func load(t testing.TB, name string, data []byte, o Options) ([]Record, error) {
	t.Helper()
	r, err := NewReader(name, bytes.NewReader(data), o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(t, r)
}

// mustLoad is load for data that must be sound.
func mustLoad(t testing.TB, name string, data []byte, o Options) []Record {
	t.Helper()
	all, err := load(t, name, data, o)
	must(t, err)
	return all
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func tempFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

// le and be lay numbers of fixed size out in bytes, an encoder of its own so
// that reader and writer cannot agree on a mistake.
func le(values ...any) []byte { return lay(binary.LittleEndian, values) }
func be(values ...any) []byte { return lay(binary.BigEndian, values) }

func lay(order binary.ByteOrder, values []any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, order, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// npyFile makes a npy file of the given version.
func npyFile(version byte, dict string, body []byte) []byte {
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = append(b, le(uint16(len(dict)))...)
	} else {
		b = append(b, le(uint32(len(dict)))...)
	}
	return append(append(b, dict...), body...)
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func wantFormatError(t *testing.T, err error) *FormatError {
	t.Helper()
	var f *FormatError
	if !errors.As(err, &f) || !errors.Is(err, ErrFormat) {
		t.Fatalf("want a FormatError, have %v", err)
	}
	return f
}
