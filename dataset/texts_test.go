package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTextRoundTrip: texts that are written read back the same, with all that belongs to them, which can be
// a vector. Each of the two can be missing.
func TestTextRoundTrip(t *testing.T) {
	for _, format := range WritableFormats(Text) {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			rapid.Check(t, func(rt *rapid.T) {
				path := filepath.Join(dir, "x."+format)
				dim := rapid.IntRange(0, 3).Draw(rt, "dim")
				want := drawRecords(rt, format, dim)
				for i := range want {
					text := bytes.ToValidUTF8(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "text"), nil)
					if format != FormatJSONL {
						text = bytes.ReplaceAll(text, []byte("\r\n"), []byte(" ")) // none is left or made
					}
					want[i].Text = string(text)
					if rapid.Bool().Draw(rt, "missing") {
						want[i].Vector = nil
					}
				}
				schema := Schema{Kind: Text, Dim: dim}
				schema.Attributes, schema.Expires = columnsOf(want)
				w, err := Create(path, schema)
				must(rt, err)
				defer w.Abort()
				for i := range want {
					must(rt, w.Write(&want[i]))
				}
				must(rt, w.Close())
				r, err := Open(path, Options{Format: format, Kind: Text})
				must(rt, err)
				defer r.Close()
				got, err := readAll(rt, r)
				must(rt, err)
				must(rt, same(want, got))
			})
		})
	}
}

// shown are records as one line each.
func shown(all []Record) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%s %q %v %v", r.Key, r.Text, r.Labels, r.Attributes)
		if len(r.Vector) > 0 {
			fmt.Fprint(&b, " ", r.Vector)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestParquetTexts: a Parquet file without vectors is one of texts if a column of strings is named so.
func TestParquetTexts(t *testing.T) {
	for _, c := range []struct {
		file string
		o    Options
		want string
	}{
		{"texts", Options{}, `a "é, b" [x] map[body:third n:1]`},
		{"texts", Options{TextColumn: "body", IgnoreColumns: []string{"text"}}, `a "third" [x] map[n:1]`},
		{"texts", Options{TextColumn: "n"}, "which column has the texts? No column of strings is named"},
		{"texts", Options{TextColumn: "none"}, `no column "none" among 5`},
		{"both", Options{}, `a "" [x] map[body:third n:1 text:é, b] [1 2]`},
		{"both", Options{Kind: Text}, `a "é, b" [x] map[body:third n:1] [1 2]`},
		{
			"both", Options{TextColumn: "text", VectorField: "vector"},
			`a "é, b" [x] map[body:third n:1] [1 2]`,
		},
	} {
		all, err := load(t, "x", parquetFile(t, c.file), c.o)
		got := shown(all)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s, %+v: %s, want %s", c.file, c.o, got, c.want)
		}
	}
}

// TestTextsWithVectors: a vector next to the text is in another file.
func TestTextsWithVectors(t *testing.T) {
	dir := t.TempDir()
	vectors := func(name, data string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(data), 0o600))
		return path
	}
	for _, tt := range []struct {
		name, data string
		o          Options
		want       string
	}{
		{"x.txt", "one\n\ntwo\n", Options{VectorsPath: vectors("v.csv", "1,2\n3,4\n")},
			"0 \"one\" [] map[] [1 2]\n1 \"two\" [] map[] [3 4]"},
		{"x", `{"text":"a"}`, Options{VectorsPath: vectors("more.csv", "1,2\n3,4\n"), Max: 1}, `0 "a" [] map[] [1 2]`},
	} {
		r, err := NewReader(tt.name, strings.NewReader(tt.data), tt.o)
		if err != nil {
			t.Errorf("%s %q: %v", tt.name, tt.data, err)
			continue
		}
		dim := r.Schema().Dim
		all, err := readAll(t, r)
		if got := strings.TrimSpace(shown(all)); err != nil || got != tt.want || dim != r.Schema().Dim {
			t.Errorf("%s %q: %d, %v\n%s\nwant\n%s", tt.name, tt.data, dim, err, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name, data string
		o          Options
		want       string
	}{
		{"x.txt", "a b\n", Options{VectorsPath: filepath.Join(dir, "more.csv")}, "more.csv: more vectors than the 1 records of x.txt"},
		{
			"x.txt", "a b\nc d\ne f\n", Options{VectorsPath: filepath.Join(dir, "v.csv")},
			"v.csv: 2 vectors for more records in x.txt",
		},
		{"x", `{"text":"a","vector":[1]}`, Options{VectorsPath: filepath.Join(dir, "v.csv")}, "a vector, and another one in"},
		{"x.txt", "a b\n", Options{VectorsPath: filepath.Join(dir, "no.npy")}, "no.npy"},
	} {
		_, err := load(t, tt.name, []byte(tt.data), tt.o)
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s %.40q: %v, want %s", tt.name, tt.data, err, tt.want)
		}
	}
	rejected := 0
	o := Options{
		VectorsPath: vectors("nan.csv", "1\nNaN\n3\n"),
		Reject:      func(*FormatError) error { rejected++; return nil },
	}
	r, err := NewReader("x.txt", strings.NewReader("a b\nc d\ne f\n"), o)
	must(t, err)
	defer r.Close()
	all, err := readAll(t, r)
	if got := shown(all); err != nil || rejected != 1 || got != "0 \"a b\" [] map[] [1]\n2 \"e f\" [] map[] [3]\n" {
		t.Errorf("%d, %v\n%s", rejected, err, got)
	}
}

// TestBadTexts: what is wrong with texts is said with the file, the record and the line.
func TestBadTexts(t *testing.T) {
	long := strings.Repeat("long ", maxTextRecord/5+bufferSize)
	for _, tt := range []struct {
		name, data string
		o          Options
		want       string
	}{
		{"x.txt", long, Options{Kind: Text}, "line 1: record 0: record longer"},
		{"x.csv", "text\n\"" + long + "\"\n", Options{}, "record longer"},
		{"x.npy", string(seedNPY), Options{Kind: Text}, "no format of text records"},
	} {
		_, err := load(t, tt.name, []byte(tt.data), tt.o)
		wantFormatError(t, err)
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %.40q: %v, want %s", tt.name, tt.data, err, tt.want)
		}
	}
	for _, o := range []Options{
		{TextColumn: "a", Kind: Dense}, {VectorsPath: "v", Kind: Dense}, {TextColumn: "a", Format: FormatLines},
		{Format: FormatFolder}, {Kind: Text, Format: FormatNPY},
	} {
		if _, err := NewReader("x", strings.NewReader("a\n"), o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, rec := range []Record{{Text: "\xff"}, {Text: "a\r\nb"}, {Text: "a", Vector: []float32{1}}} {
		rec.Key = []byte("k")
		w, err := Create(filepath.Join(t.TempDir(), "x.csv"), Schema{Kind: Text})
		must(t, err)
		if err := w.Write(&rec); !errors.Is(err, ErrRecord) {
			t.Errorf("%+v written: %v", rec, err)
		}
		must(t, w.Abort())
	}
}

// TestFolder: a folder gives the text of each of its files, and leaves out what is hidden.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"b.md": "\ufeff# Title\n\ntext\n", "sub/deep/a.txt": "one", "sub/z.gz": string(zipped(t, []byte("two"))),
		".git/x": "no", "sub/.hidden": "no", "empty": "",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	read := func(o Options) (string, error) {
		r, err := Open(dir, o)
		if err != nil {
			return "", err
		}
		defer r.Close()
		all, err := readAll(t, r)
		return shown(all), err
	}
	want := "b.md \"# Title\\n\\ntext\\n\" [] map[]\nempty \"\" [] map[]\nsub/deep/a.txt \"one\" [] map[]\n" +
		"sub/z.gz \"two\" [] map[]\n"
	if got, err := read(Options{}); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := read(Options{FolderLabels: true}); err != nil || !strings.Contains(got, `"one" [sub/deep]`) ||
		!strings.Contains(got, `text\n" []`) {
		t.Errorf("labels: %v\n%s", err, got)
	}
	refuse := Options{Check: func(r *Record) error {
		if string(r.Key) == "sub/z.gz" {
			return errors.New("refused")
		}
		return nil
	}}
	if _, err := read(refuse); err == nil || !strings.Contains(err.Error(), filepath.Join("sub", "z.gz")+": record 3: refused") {
		t.Errorf("a record that is refused: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "c.jpg"), []byte("\xff\xd8\xff"), 0o600))
	_, err := read(Options{})
	if f := wantFormatError(t, err); f.Path != filepath.Join(dir, "c.jpg") || f.Record != 1 || !f.Skippable {
		t.Errorf("no text: %+v", f)
	}
	n := 0
	r, err := Open(dir, Options{Reject: func(*FormatError) error { n++; return nil }})
	must(t, err)
	defer r.Close()
	var got []Record
	for rec, err := range All(r) {
		must(t, err)
		got = append(got, copyOf(rec))
	}
	if n != 1 || shown(got) != want {
		t.Errorf("%d rejected:\n%s", n, shown(got))
	}
	for _, o := range []Options{{Kind: Dense}, {Format: FormatCSV}, {TextColumn: "a"}} {
		if _, err := read(o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Open(t.TempDir(), Options{}); !strings.Contains(fmt.Sprint(err), "no files") {
		t.Errorf("an empty folder: %v", err)
	}
}
