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

// TestTextRoundTrip: texts that are written read back the same, with all that belongs to them.
func TestTextRoundTrip(t *testing.T) {
	for _, format := range WritableFormats(Text) {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			rapid.Check(t, func(rt *rapid.T) {
				path := filepath.Join(dir, "x."+format)
				want := drawRecords(rt, format, 1)
				for i := range want {
					text := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "text")
					if format != FormatJSONL {
						text = bytes.ReplaceAll(text, []byte("\r\n"), nil)
					}
					want[i].Vector, want[i].Text = nil, string(bytes.ToValidUTF8(text, nil))
				}
				schema := Schema{Kind: Text}
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
		fmt.Fprintf(&b, "%s %q %v %v\n", r.Key, r.Text, r.Labels, r.Attributes)
	}
	return b.String()
}

// TestTexts: texts are found in each format, without being told where the file can be nothing else.
func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		o          Options
		want       string
	}{
		{"x.csv", "id,text,year\na,\"one, two\",1990\n", Options{}, `a "one, two" [] map[year:1990]`},
		{"x.csv", "Text\none\n", Options{}, `0 "one" [] map[]`},
		{"x.csv", "body,label,v0,v1\none,x,3,4\n", Options{TextColumn: "body"}, `0 "one" [x] map[v0:3 v1:4]`},
		{"x.csv", "k,one\nl,two\n", Options{TextColumn: "2", KeyColumn: "1"}, "k \"one\" [] map[]\nl \"two\" [] map[]"},
		{"x.csv", "id,sentence\na,one two\n", Options{Kind: Text}, `a "one two" [] map[]`},
		{"x.csv", "one two\nthree\n", Options{Kind: Text}, "0 \"one two\" [] map[]\n1 \"three\" [] map[]"},
		{"x.csv", "id,text\na,\n", Options{Kind: Text}, `a "" [] map[]`},
		{"x.tsv", "text\tprice:float\none, two\t2\n", Options{}, `0 "one, two" [] map[price:2]`},
		{"x", "text\tyear\na\t2\n", Options{TextColumn: "text"}, `0 "a" [] map[year:2]`},
		{"x.txt", "text,year\na,2\n", Options{TextColumn: "text"}, `0 "a" [] map[year:2]`},
		{"x", `{"key":"a","text":"one","labels":"x"}`, Options{}, `a "one" [x] map[]`},
		{"x", `{"body":"one\ntwo","n":1}`, Options{TextColumn: "body", Attributes: []Attribute{{Name: "n"}}},
			`0 "one\ntwo" [] map[n:1]`},
		{"x", `{"text":null}`, Options{Kind: Text}, `0 "" [] map[]`},
		{"x.txt", "\ufeffThe first text.\r\n\n  \nAnother, and 3 more\n", Options{},
			"0 \"The first text.\" [] map[]\n1 \"Another, and 3 more\" [] map[]"},
		{"x", "one\ntwo", Options{Kind: Text}, "0 \"one\" [] map[]\n1 \"two\" [] map[]"},
		{"x.txt.gz", string(zipped(t, []byte("one two\n"))), Options{}, `0 "one two" [] map[]`},
	} {
		all, err := load(t, tt.name, []byte(tt.data), tt.o)
		if err != nil {
			t.Errorf("%s %q: %v", tt.name, tt.data, err)
		} else if got := strings.TrimSpace(shown(all)); got != tt.want {
			t.Errorf("%s %q:\n%s\nwant\n%s", tt.name, tt.data, got, tt.want)
		}
	}
}

// TestParquetTexts: a Parquet file without vectors is one of texts if a column of strings is named so.
func TestParquetTexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	rec := Record{
		Key: []byte("a"), Text: "é, b", Labels: []string{"x"},
		Attributes: map[string]any{"text": "other", "body": "third", "n": int64(1)},
	}
	write := func(s Schema) {
		s.Attributes, s.Expires = columnsOf([]Record{rec})
		w, err := Create(path, s)
		must(t, err)
		must(t, w.Write(&rec))
		must(t, w.Close())
	}
	read := func(o Options) string {
		r, err := Open(path, o)
		if err != nil {
			return err.Error()
		}
		defer r.Close()
		all, err := readAll(t, r)
		must(t, err)
		return shown(all)
	}
	write(Schema{Kind: Text})
	if got := read(Options{}); got != "a \"é, b\" [x] map[body:third n:1 text:other]\n" {
		t.Error(got)
	}
	if got := read(Options{TextColumn: "body", IgnoreColumns: []string{"text"}}); got !=
		"a \"third\" [x] map[n:1 text:other]\n" {
		t.Error(got)
	}
	for _, o := range []Options{{TextColumn: "n"}, {TextColumn: "none"}} {
		if got := read(o); !strings.Contains(got, "which column has the texts? No column of strings is named") {
			t.Errorf("%s: %s", o.TextColumn, got)
		}
	}
	rec.Text, rec.Vector = "", []float32{1, 2}
	write(Schema{Kind: Dense, Dim: 2})
	if got := read(Options{}); got != "a \"\" [x] map[body:third n:1 text:other]\n" {
		t.Error(got)
	}
	if got := read(Options{Kind: Text}); !strings.Contains(got, `column "vector": a list that is neither`) {
		t.Error(got)
	}
}

// TestNoTexts: a column that happens to be named text does not make a file of vectors one of texts.
func TestNoTexts(t *testing.T) {
	for name, data := range map[string]string{
		"a.csv": "key,text:string,v0,v1\na,x,1,2\n",
		"b.csv": "key,text,embedding\na,x,\"[1, 2]\"\n",
		"c.csv": "text,v\n1,2\n",
		"d":     `{"vector":[1,2],"attributes":{"text":"x"}}`,
		"e.txt": "1 2 3\n4 5 6\n",
		"f.txt": "the 0.1 0.2\nof 0.3 0.4\n",
	} {
		r, err := NewReader(name, strings.NewReader(data), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s := r.Schema(); s.Kind != Dense {
			t.Errorf("%s: %v", name, s.Kind)
		}
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
		{"x.csv", "text\na\nb\xe9\n", Options{Format: FormatCSV}, "x.csv: line 3: record 1: column 1 (\"text\"): " +
			"the text is not UTF-8, byte 1 of it is 0xe9: convert"},
		{"x.txt", "one\n\xff\n", Options{Format: FormatLines}, "x.txt: line 2: record 1: the text is not UTF-8"},
		{"x.txt", long, Options{Kind: Text}, "line 1: record 0: record longer"},
		{"x.csv", "text\n\"" + long + "\"\n", Options{}, "record longer"},
		{"x", "\x00one\n", Options{Kind: Text}, "not a text: no format of text records"},
		{"x.txt", "", Options{Format: FormatLines}, "no records"},
		{"x.csv", "a,b\nc,d\n", Options{Kind: Text}, "which column has the texts?"},
		{"x.csv", "text,embedding\na,\"[1, 2]\"\n", Options{TextColumn: "text"}, "column 2 (\"embedding\") is neither ignored"},
		{"x.csv", "text\na\n", Options{TextColumn: "body"}, `no column "body"`},
		{"x", `{"text":1}`, Options{Kind: Text}, `line 1: record 0: field "text": "1" is not a string`},
		{"x", `{"vector":[1]}`, Options{Kind: Text}, `field "text": missing`},
		{"x", `{"text":"a","title":"b"}`, Options{}, `unknown field "title"`},
		{"x.npy", string(seedNPY), Options{Kind: Text}, "no format of text records"},
	} {
		_, err := load(t, tt.name, []byte(tt.data), tt.o)
		if err == nil {
			t.Errorf("%s %.40q is read", tt.name, tt.data)
			continue
		}
		wantFormatError(t, err)
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %.40q: %v, want %s", tt.name, tt.data, err, tt.want)
		}
	}
	for _, o := range []Options{
		{TextColumn: "a", Kind: Dense}, {TextColumn: "a", VectorField: "b"}, {TextColumn: "a", Format: FormatLines},
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
	r, err := Open(dir, Options{Reject: func([]byte, *FormatError) error { n++; return nil }})
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
