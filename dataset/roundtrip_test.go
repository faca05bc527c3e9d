package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawRecords draws records that the format can hold. Text may have any bytes
// that the format allows.
func drawRecords(t *rapid.T, format string, dim int) []Record {
	value := rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32)
	text := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) []byte {
		if format == FormatParquet {
			return bytes.ToValidUTF8(b, nil)
		}
		if format != FormatJSONL {
			b = bytes.ReplaceAll(b, []byte("\r\n"), nil)
		}
		return b
	})
	label := rapid.StringMatching(`[a-z ",\t\n<é]{1,5}`)
	least := 0
	if format == FormatFvecs || format == FormatJSONL || format == FormatParquet {
		least = 1 // an empty file has no dimension
	}
	var all []Record
	for i := range rapid.IntRange(least, 6).Draw(t, "records") {
		rec := Record{Key: fmt.Append(nil, i), Vector: rapid.SliceOfN(value, dim, dim).Draw(t, "vector")}
		if !VectorsOnly(format) {
			rec.Key = append(text.Draw(t, "key"), rec.Key...)
			rec.Labels = rapid.SliceOfNDistinct(label, 0, 3, rapid.ID).Draw(t, "labels")
			rec.Payload = text.Draw(t, "payload")
			drawAttributes(t, format, &rec)
		}
		all = append(all, rec)
	}
	return all
}

// same compares bit for bit.
func same(a, b []Record) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d records, want %d", len(b), len(a))
	}
	for i := range a {
		for c := range a[i].Vector {
			if math.Float32bits(a[i].Vector[c]) != math.Float32bits(b[i].Vector[c]) {
				return fmt.Errorf("record %d, value %d: %v, want %v", i, c, b[i].Vector[c], a[i].Vector[c])
			}
		}
		if len(a[i].Vector) != len(b[i].Vector) || !slices.Equal(a[i].Features.Index, b[i].Features.Index) ||
			!slices.Equal(a[i].Features.Value, b[i].Features.Value) || !bytes.Equal(a[i].Key, b[i].Key) || !bytes.Equal(a[i].Payload, b[i].Payload) ||
			fmt.Sprintf("%q", a[i].Labels) != fmt.Sprintf("%q", b[i].Labels) {
			return fmt.Errorf("record %d: %+v, want %+v", i, b[i], a[i])
		}
		if a[i].Text != b[i].Text {
			return fmt.Errorf("record %d: %q, want %q", i, b[i].Text, a[i].Text)
		}
		if !maps.Equal(a[i].Attributes, b[i].Attributes) || !a[i].ExpiresAt.Equal(b[i].ExpiresAt) {
			return fmt.Errorf("record %d: %#v, %v, want %#v, %v", i, b[i].Attributes, b[i].ExpiresAt,
				a[i].Attributes, a[i].ExpiresAt)
		}
	}
	return nil
}

// What is written reads back the same, in every format, compressed or not,
// and is recognised without being told.
func TestRoundTrip(t *testing.T) {
	for _, format := range WritableFormats(Dense) {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			rapid.Check(t, func(rt *rapid.T) {
				path := filepath.Join(dir, "x."+format+rapid.SampledFrom([]string{"", ".gz"}).Draw(rt, "ending"))
				if format == FormatParquet {
					path = strings.TrimSuffix(path, ".gz")
				}
				dim := rapid.IntRange(1, 9).Draw(rt, "dim")
				want := drawRecords(rt, format, dim)
				schema := Schema{Format: "", Kind: Dense, Dim: dim}
				schema.Attributes, schema.Expires = columnsOf(want)
				w, err := Create(path, schema)
				must(rt, err)
				defer w.Abort()
				for i := range want {
					must(rt, w.Write(&want[i]))
				}
				must(rt, w.Close())
				r, err := Open(path, Options{})
				must(rt, err)
				defer r.Close()
				got, err := readAll(rt, r)
				if errors.Is(err, errNotUTF8) { // the format is named to take any bytes
					must(rt, r.Close())
					r, err = Open(path, Options{Format: format})
					must(rt, err)
					defer r.Close()
					got, err = readAll(rt, r)
				}
				must(rt, err)
				must(rt, same(want, got))
				if r.Schema().Dim != dim {
					rt.Fatalf("dimension %d, want %d", r.Schema().Dim, dim)
				}
			})
		})
	}
}

func mustCreate(t *testing.T, path, format string, dim int) Writer {
	t.Helper()
	w, err := Create(path, Schema{Format: format, Kind: Dense, Dim: dim})
	must(t, err)
	return w
}

// A file written by hand in another program's way must come out byte for byte.
func TestWrittenBytes(t *testing.T) {
	rec := Record{Key: []byte("k,1"), Vector: []float32{1, 2.5}, Labels: []string{"a", "b"}, Payload: []byte("say \"x\"")}
	tests := map[string][]byte{
		FormatFvecs: le(uint32(2), []float32{1, 2.5}),
		FormatNPY: npyFile(1,
			fmt.Sprintf("%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"),
			le([]float32{1, 2.5})),
		FormatCSV:   []byte("key,v0,v1,labels,payload\n\"k,1\",1,2.5,a|b,\"say \"\"x\"\"\"\n"),
		FormatTSV:   []byte("key\tv0\tv1\tlabels\tpayload\nk,1\t1\t2.5\ta|b\t\"say \"\"x\"\"\"\n"),
		FormatJSONL: []byte(`{"key":"k,1","vector":[1,2.5],"labels":["a","b"],"payload":"say \"x\""}` + "\n"),
	}
	for _, format := range WritableFormats(Dense) {
		if format == FormatParquet { // compressed
			continue
		}
		path := filepath.Join(t.TempDir(), "out")
		w := mustCreate(t, path, format, 2)
		must(t, w.Write(&rec))
		must(t, w.Close())
		got, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(got, tests[format]) {
			t.Errorf("%s:\n%q, want\n%q", format, got, tests[format])
		}
	}
}

// A record that does not fit is refused, and the file goes on without it.
func TestRefusedRecords(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	v := []float32{1}
	tests := []struct {
		format string
		rec    Record
	}{
		{FormatFvecs, Record{}}, {FormatFvecs, Record{Vector: []float32{1, 2}}},
		{FormatNPY, Record{Vector: []float32{nan}}}, {FormatCSV, Record{Key: []byte("k"), Vector: []float32{inf}}},
		{FormatCSV, Record{Vector: v}}, {FormatJSONL, Record{Vector: v}},
		{FormatCSV, Record{Key: []byte("k"), Vector: v, Labels: []string{"a|b"}}},
		{FormatTSV, Record{Key: []byte("k"), Vector: v, Labels: []string{""}}},
		{FormatCSV, Record{Key: []byte("a\r\nb"), Vector: v}},
		{FormatCSV, Record{Key: []byte("k"), Vector: v, Payload: []byte("\r\n")}},
		{FormatCSV, Record{Key: []byte("k"), Vector: v, Labels: []string{"\r\n"}}},
		{FormatJSONL, Record{Key: []byte("k"), Vector: v, Labels: []string{"\xff"}}},
		{FormatParquet, Record{Vector: v}}, {FormatParquet, Record{Key: []byte("\xff"), Vector: v}},
		{FormatParquet, Record{Key: []byte("k"), Vector: v, Labels: []string{""}}},
		{FormatParquet, Record{Key: []byte("k"), Vector: v, ExpiresAt: time.Now()}},
		{FormatParquet, Record{Key: []byte("k"), Vector: v, Attributes: map[string]any{"a": "b"}}},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "x."+tt.format)
		w := mustCreate(t, path, "", 1)
		good := Record{Key: []byte("0"), Vector: v}
		if err := w.Write(&tt.rec); !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), path+": record 0: ") {
			t.Errorf("%s %+v: %v", tt.format, tt.rec, err)
		}
		must(t, w.Write(&good))
		must(t, w.Close())
		r, err := Open(path, Options{})
		must(t, err)
		got, err := readAll(t, r)
		must(t, err)
		if err := same([]Record{good}, got); err != nil {
			t.Errorf("%s: %v", tt.format, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The path changes on Close and not before.
func TestCreateReplacesOnClose(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	content := func() string {
		b, err := os.ReadFile(path)
		must(t, err)
		return string(b)
	}
	rec := Record{Vector: []float32{1}}
	w := mustCreate(t, path, "", 1)
	must(t, w.Write(&rec))
	if err := w.Abort(); err != nil || content() != "old" {
		t.Errorf("after Abort: %v, %q", err, content())
	}
	if err := w.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
	if err := w.Write(&rec); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Abort: %v", err)
	}
	w = mustCreate(t, path, "", 1)
	if content() != "old" {
		t.Error("changed before Close")
	}
	if err := w.Close(); err != nil || !strings.HasPrefix(content(), npyMagic) {
		t.Errorf("after Close: %v, %q", err, content())
	}
	if err := w.Abort(); err != nil || !strings.HasPrefix(content(), npyMagic) {
		t.Errorf("Abort after Close: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	for _, bad := range []func() (Writer, error){
		func() (Writer, error) {
			return Create(filepath.Join(dir, "x"), Schema{Format: "", Kind: Dense, Dim: 1})
		},
		func() (Writer, error) {
			return Create(filepath.Join(dir, "x"), Schema{Format: "xls", Kind: Dense, Dim: 1})
		},
		func() (Writer, error) {
			return Create(filepath.Join(dir, "x.csv"), Schema{Format: "", Kind: Dense, Dim: 0})
		},
		func() (Writer, error) {
			return Create(filepath.Join(dir, "x.csv"), Schema{Format: "", Kind: Dense, Dim: DefaultMaxDim + 1})
		},
		func() (Writer, error) { return Create(os.DevNull, Schema{Format: FormatNPY, Kind: Dense, Dim: 1}) },
	} {
		if _, err := bad(); !errors.Is(err, ErrOption) {
			t.Errorf("want ErrOption, have %v", err)
		}
	}
	if _, err := Create(filepath.Join(dir, "no", "x.csv"), Schema{Format: "", Kind: Dense, Dim: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}

// No file that the caller did not name is written, whatever links another user of
// the folder has prepared, and what is written is private.
func TestCreateFollowsNoLinks(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "x.csv")
	must(t, os.WriteFile(victim, []byte("precious"), 0o644))
	if err := os.Symlink(victim, path+".partial"); err != nil {
		t.Skip("SKIPPED: no symbolic links here:", err)
	}
	w := mustCreate(t, path, "", 1)
	must(t, w.Write(&Record{Key: []byte("a"), Vector: []float32{1}}))
	must(t, w.Close())
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want a regular file of mode 0600", info.Mode(), err)
	}
	w = mustCreate(t, path, "", 1)
	if err := w.Chmod(0o640); err != nil {
		t.Error(err)
	}
	must(t, w.Close())
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v, want mode 0640", info.Mode(), err)
	}
	link := filepath.Join(dir, "link.csv")
	must(t, os.Symlink(victim, link))
	if _, err := Create(link, Schema{Format: "", Kind: Dense, Dim: 1}); !errors.Is(err, ErrOption) {
		t.Errorf("a link to a file: %v, want ErrOption", err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the other file has %q, %v", b, err)
	}
}
