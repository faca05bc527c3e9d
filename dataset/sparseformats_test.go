package dataset

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/vector"
)

// record makes a record with features at their places, as key its number.
func record(key string, labels string, pairs ...float32) Record {
	rec := Record{Key: []byte(key), Labels: strings.Fields(labels)}
	for i := 0; i < len(pairs); i += 2 {
		rec.Features.Index = append(rec.Features.Index, uint32(pairs[i]))
		rec.Features.Value = append(rec.Features.Value, pairs[i+1])
	}
	return rec
}

// What each format means, detected by content under a name that says nothing.
func TestSparseFormats(t *testing.T) {
	xml := tempFile(t, "l.xml", []byte(`<?xml version="1.0"?><labels><label name="b"><label name="it's"/></label></labels>`))
	keys := tempFile(t, "k.txt", []byte("first\r\nsecond\n\n"))
	arffRows := []Record{record("0", "b", 0, 1, 1, 2.5, 3, 1), record("1", "it's", 1, -1, 2, 1), record("2", "b it's", 0, 2, 4, 1)}
	arffHead := "% a comment\n@RELATION x\n\n@attribute n {0,1,2}\n@attribute b {0, 1}\n@attribute \"v w\" REAL\n" +
		"@attribute 'it\\'s' numeric\n@attribute colour {red,'dark green',blue}\n@DATA\n"
	for _, tt := range []struct {
		test, format, data string
		o                  Options
		want               []Record
	}{
		{"one label", FormatLibsvm, "+1 1:0.5 3:2\n-1 2:1\n", Options{},
			[]Record{record("0", "1", 0, .5, 2, 2), record("1", "-1", 1, 1)}},
		{"many labels, none, comments", FormatLibsvm, "1,2,1 3:0.5 # note\n\n\t4:1\n7\r\n", Options{},
			[]Record{record("0", "1 2", 2, .5), record("1", "", 3, 1), record("2", "7")}},
		{"a zero says base zero", FormatLibsvm, "1 1:1\n2 0:3\n", Options{},
			[]Record{record("0", "1", 1, 1), record("1", "2", 0, 3)}},
		{"10: is no zero", FormatLibsvm, "1 10:1 20:0\n", Options{}, []Record{record("0", "1", 9, 1)}},
		{"said base zero", FormatLibsvm, "1 1:1\n", Options{Base: BaseZero}, []Record{record("0", "1", 1, 1)}},
		{"unsorted, zeros", FormatLibsvm, "a 5:1 2:0 1:-2e1\n", Options{}, []Record{record("0", "a", 0, -20, 4, 1)}},
		{"keys", FormatLibsvm, "1 1:1\n2 2:1\n", Options{KeysPath: keys}, []Record{record("first", "1", 0, 1), record("second", "2", 1, 1)}},
		{"limit", FormatLibsvm, "1 1:1\n2 x\n", Options{Max: 1}, []Record{record("0", "1", 0, 1)}},

		{"xmc", FormatXMC, "4 5 3   \n0,2 0:1 4:0.25\n 1:2\n\n1\n\n", Options{},
			[]Record{record("0", "0 2", 0, 1, 4, .25), record("1", "", 1, 2), record("2", ""), record("3", "1")}},
		{"xmc without rows", FormatXMC, "0 5 3\n", Options{}, nil},
		{"xmc without a blank", FormatXMC, "1 5 3\n2:1 3:0\n", Options{}, []Record{record("0", "", 2, 1)}},
		{"xmc names", FormatXMC, "1 5 2\n1,0,1 2:1\n", Options{LabelNames: []string{"a", "b"}}, []Record{record("0", "b a", 2, 1)}},
		{"xmc limit", FormatXMC, "2 5 2\n1 2:1\nx", Options{Max: 1}, []Record{record("0", "1", 2, 1)}},

		{"arff dense", FormatARFF, arffHead + "1,1,2.5,0,red\n0, 0 ,-1,1,'red'\n\n% end\n2,1,0,1,\"dark green\"\n", Options{LabelsXML: xml},
			[]Record{record("0", "b", 0, 1, 1, 2.5, 2, 1), record("1", "it's", 1, -1, 2, 1), record("2", "b it's", 0, 2, 3, 1)}},
		{"arff sparse", FormatARFF, arffHead + "{0 1,1 1,2 2.5,4 'dark green'}\n{ 3 1 , 2 -1 }\n{0 2,1 1,3 1,4 blue} % note\n", Options{LabelsXML: xml}, arffRows},
		{"meka, first", FormatARFF, "@relation 'x: -C 2 -I'\n@attribute a {1,0}\n@attribute b {0,1}\n@attribute f {2,0}\n@data\n{}\n{0 0,1 1,2 0}\n",
			Options{}, []Record{record("0", "a", 0, 2), record("1", "b")}},
		{"meka, last", FormatARFF, "@relation x:-C -1\n@attribute f numeric\n@attribute a{0,1}\n@data\n3,1\n", Options{}, []Record{record("0", "a", 0, 3)}},
		{"arff without rows", FormatARFF, "@relation '-C 0'\n@attribute f integer\n@data\n", Options{}, nil},

		{"jsonl names", FormatJSONL, `{"key":"k","features":{"x":1,"y":0.5},"labels":["a","b","a"],"payload":{"p":1}}` + "\n\n" + `{"key":2,"features":{"z":3,"indices":4,"x":0}}`,
			Options{}, []Record{{Key: []byte("k"), Labels: []string{"a", "b"}, Payload: []byte(`{"p":1}`),
				Features: vector.Sparse{Index: []uint32{0, 1}, Value: []float32{1, .5}}}, record("2", "", 2, 3, 3, 4)}},
		{"jsonl names go on", FormatJSONL, `{"features":{"z":3,"x":1}}`, Options{FeatureNames: []string{"x", "y"}}, []Record{record("0", "", 0, 1, 2, 3)}},
		{"jsonl parts", FormatJSONL, `{"features":{"indices":[7,2],"values":[1,-2]},"labels":"a"}`, Options{}, []Record{record("0", "a", 2, -2, 7, 1)}},
		{"jsonl pairs", FormatJSONL, ` {"id":5,"f":[[2,1],[4,0.5]],"tags":[9],"skip":null}`,
			Options{KeyColumn: "id", FeaturesField: "f", LabelColumns: []string{"tags"}, IgnoreColumns: []string{"skip"}}, []Record{record("5", "9", 2, 1, 4, .5)}},
	} {
		t.Run(tt.test, func(t *testing.T) {
			for _, data := range [][]byte{[]byte(tt.data), zipped(t, []byte(tt.data)), []byte(byteOrderMark + tt.data)} {
				r, err := Open(tempFile(t, "data", data), asSparse(tt.o))
				must(t, err)
				got, err := readAll(t, r)
				must(t, err)
				if r.Schema().Format != tt.format {
					t.Errorf("format %s", r.Schema().Format)
				}
				if err := same(tt.want, got); err != nil {
					t.Error(err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if err := r.Close(); err != nil {
					t.Error("second Close:", err)
				}
			}
		})
	}
}

// What a file says of its features and labels as a whole.
func TestSparseNames(t *testing.T) {
	for _, tt := range []struct {
		data                 string
		o                    Options
		features, labels     int
		featureNames, listed []string
	}{
		{"1 1:1\n", Options{}, 0, 0, nil, nil},
		{"1 1:1\n", Options{FeatureNames: []string{"x"}}, 1, 0, []string{"x"}, nil},
		{"0 4 2\n", Options{}, 4, 2, nil, nil},
		{"0 1 2\n", Options{FeatureNames: []string{"x"}, LabelNames: []string{"a", "b"}}, 1, 2, []string{"x"}, []string{"a", "b"}},
		{"@relation '-C 1'\n@attribute l {0,1}\n@attribute f numeric\n@attribute g {u,v}\n@data\n", Options{}, 3, 1, []string{"f", "g=u", "g=v"}, []string{"l"}},
		{`{"features":{"x":1,"y":2}}`, Options{}, 0, 0, []string{"x", "y"}, nil},
	} {
		r, err := NewReader("x", strings.NewReader(tt.data), asSparse(tt.o))
		must(t, err)
		if err := r.Read(new(Record)); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if r.Schema().Dim != tt.features || r.Schema().Labels != tt.labels || !slices.Equal(r.Schema().FeatureNames, tt.featureNames) || !slices.Equal(r.Schema().LabelNames, tt.listed) {
			t.Errorf("%q: %d features %v, %d labels %v", tt.data, r.Schema().Dim, r.Schema().FeatureNames, r.Schema().Labels, r.Schema().LabelNames)
		}
	}
}

// The XML file beside an ARFF file is found by the longest common name.
func TestXMLBeside(t *testing.T) {
	dir := t.TempDir()
	for name, label := range map[string]string{"x.xml": "a", "x-y.xml": "b", "z.xml": "c"} {
		must(t, WriteLabelsXML(filepath.Join(dir, name), []string{label}))
	}
	data := "@relation r\n@attribute a {0,1}\n@attribute b {0,1}\n@data\n1,1\n"
	for name, want := range map[string]string{"x-train.arff": "a", "x-y-train.arff": "b", "x.arff": "a"} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(data), 0o600))
		r, err := Open(path, asSparse(Options{}))
		must(t, err)
		if got := r.Schema().LabelNames; len(got) != 1 || got[0] != want {
			t.Errorf("%s: labels %v, want %s", name, got, want)
		}
		r.Close()
	}
}

func TestNameLists(t *testing.T) {
	names, err := ReadNames(tempFile(t, "l", zipped(t, []byte("7\tseven\n8\tei ght\r\n\n"))), 2)
	if err != nil || !slices.Equal(names, []string{"seven", "ei ght"}) {
		t.Errorf("%q, %v", names, err)
	}
	path := filepath.Join(t.TempDir(), "names.gz")
	want := []string{"a", " b\tc", "é"}
	must(t, WriteNames(path, want, 0o600))
	if names, err = ReadNames(path, 0); err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
	xml := filepath.Join(t.TempDir(), "l.xml")
	want = []string{"a<b&\"'", "TAG_m\\'usica", " é\t"}
	must(t, WriteLabelsXML(xml, want))
	if names, err = ReadLabelsXML(xml); err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestARFFLabels: what is a label where neither an XML file nor Meka's -C says so.
func TestARFFLabels(t *testing.T) {
	rec := func(key, label string, values ...float32) Record {
		r := Record{Key: []byte(key)}
		if label != "" {
			r.Labels = []string{label}
		}
		for i, v := range values {
			if v != 0 {
				r.Features.Index, r.Features.Value = append(r.Features.Index, uint32(i)), append(r.Features.Value, v)
			}
		}
		return r
	}
	other := "@relation x\n@attribute name string\n@attribute b {0,1}\n@attribute kind {x,y}\n@attribute at date 'yyyy'\n" +
		"@attribute v real\n@data\n'a b',1,y,2000,2\n?,0,x,?,0\n"
	ignore := []string{"name", "at"}
	for name, c := range map[string]struct {
		text string
		o    Options
		want []Record
		says string
	}{
		"class":        {seedIris, Options{}, []Record{rec("0", "setosa", 1.5), rec("1", "", 2), rec("2", "setosa", 3), rec("3", "virgi nica")}, ""},
		"binary class": {"@relation x\n@attribute a real\n@attribute Class {0,1}\n@data\n2,1\n", Options{}, []Record{rec("0", "1", 2)}, ""},
		"a word class": {"@relation x\n@attribute tag {0,1}\n@attribute class {0,1}\n@data\n1,1\n", Options{}, nil, "which attributes are labels"},
		"no class":     {"@relation x\n@attribute a real\n@data\n2\n", Options{}, []Record{rec("0", "", 2)}, ""},
		"none":         {other, Options{IgnoreColumns: ignore, NoLabels: true}, []Record{rec("0", "", 1, 0, 1, 2), rec("1", "", 0, 1)}, ""},
		"values":       {other, Options{IgnoreColumns: ignore, LabelColumns: []string{"kind"}}, []Record{rec("0", "y", 1, 2), rec("1", "x")}, ""},
		"binary":       {other, Options{IgnoreColumns: ignore, LabelColumns: []string{"b"}}, []Record{rec("0", "b", 0, 1, 2), rec("1", "", 1)}, ""},
		"text":         {other, Options{IgnoreColumns: []string{"at"}, LabelColumns: []string{"name"}}, []Record{rec("0", "a b", 1, 0, 1, 2), rec("1", "", 0, 1)}, ""},
		"asks":         {other, Options{IgnoreColumns: ignore}, nil, "which attributes are labels?"},
		"no such":      {other, Options{IgnoreColumns: []string{"x"}, NoLabels: true}, nil, `no attribute "x"`},
		"no label":     {other, Options{LabelColumns: []string{"x"}}, nil, `no attribute "x"`},
		"a date":       {other, Options{NoLabels: true}, nil, `type "string"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, "x.arff", []byte(c.text), c.o)
			if c.says != "" {
				if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
					t.Errorf("%q does not say %q", err, c.says)
				}
				return
			}
			must(t, err)
			compare(t, got, c.want)
		})
	}
}

// TestXMCParts: the features and labels of newer sets are in two files, headed by two numbers.
func TestXMCParts(t *testing.T) {
	const features, labels = "3 5\n0:1 4:2\n\n2:1\n", "3 4\n0:1 1:1\n\n3:1\n"
	of := func(text string) string { return tempFile(t, "trn_X_Y.txt", []byte(text)) }
	want := func(labels ...[]string) []Record {
		return []Record{
			{Key: []byte("0"), Features: vector.Sparse{Index: []uint32{0, 4}, Value: []float32{1, 2}}, Labels: labels[0]},
			{Key: []byte("1"), Labels: labels[1]},
			{Key: []byte("2"), Features: vector.Sparse{Index: []uint32{2}, Value: []float32{1}}, Labels: labels[2]},
		}
	}
	names := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		o      Options
		labels [][]string
	}{
		{Options{}, [][]string{nil, nil, nil}},
		{Options{Kind: Sparse, LabelsPath: of(labels)}, [][]string{{"0", "1"}, nil, {"3"}}},
		{Options{LabelsPath: of(labels + "\n"), LabelNames: names}, [][]string{{"a", "b"}, nil, {"d"}}},
		{Options{LabelsPath: of("3 4\n1:0 2:1\n\n"), Max: 2}, [][]string{{"2"}, nil}},
	} {
		r, err := NewReader("trn_X_Xf.txt", strings.NewReader(features), c.o)
		must(t, err)
		all, err := readAll(t, r)
		must(t, err)
		compare(t, all, want(append(c.labels, nil)...)[:len(c.labels)])
		if s := r.Schema(); s.Format != FormatXMC || s.Dim != 5 || c.o.LabelsPath != "" && s.Labels != 4 ||
			len(s.LabelNames) != len(c.o.LabelNames) {
			t.Errorf("%+v", s)
		}
		must(t, r.Close())
	}
	for _, c := range []struct {
		text string
		o    Options
		says string
	}{
		{features, Options{LabelNames: names}, "the labels are in another file"},
		{features, Options{LabelsPath: of(labels), LabelNames: names[1:]}, "4 labels, 3 label names"},
		{features, Options{LabelsPath: of("2 4\n0:1\n\n")}, "2 labels for the 3 records"},
		{features, Options{LabelsPath: of("4 4\n0:1\n\n\n\n")}, "4 labels for the 3 records"},
		{features, Options{LabelsPath: of("3 4\n0:1\n")}, "1 labels for more records"},
		{features, Options{LabelsPath: of("3 4\n0:1\n\n\n0:1")}, "more rows than the header"},
		{features, Options{LabelsPath: of("3 4\n4:1\n\n\n")}, "label 4, there are at most 4"},
		{features, Options{LabelsPath: of("7 8\n")}, "7 labels for the 3 records"},
		{"1 5\n3 0:1\n", Options{Format: FormatXMC}, `"3" is no feature:value`},
		{"5\n", Options{Format: FormatXMC}, "no header"},
	} {
		_, err := load(t, "x.txt", []byte(c.text), c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q does not say %q", err, c.says)
		}
	}
	for name, text := range map[string]string{
		"x.xmc": "1 5 2\n1 0:1\n", "x.svm": "1 1:1\n", "x.jsonl": `{"features":{"a":1}}`,
	} {
		if _, err := load(t, name, []byte(text), Options{LabelsPath: of("1 2\n0:1\n")}); !errors.Is(err, ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestQueryNumbers: qid of files for learning to rank is an attribute.
func TestQueryNumbers(t *testing.T) {
	text := "3 qid:1 1:1 2:0.5 # doc-a\nqid:10 1:2\n1 1:3\n"
	qid := func(n int64) map[string]any { return map[string]any{"qid": n} }
	x := func(index []uint32, value ...float32) vector.Sparse { return vector.Sparse{Index: index, Value: value} }
	for _, o := range []Options{{}, {Format: FormatLibsvm}} {
		compare(t, mustLoad(t, "x", []byte(text), o), []Record{
			{Key: []byte("0"), Labels: []string{"3"}, Features: x([]uint32{0, 1}, 1, 0.5), Attributes: qid(1)},
			{Key: []byte("1"), Features: x([]uint32{0}, 2), Attributes: qid(10)},
			{Key: []byte("2"), Labels: []string{"1"}, Features: x([]uint32{0}, 3)},
		})
	}
	for _, text := range []string{"1 qid:x 1:1\n", "1 qid: 1:1\n", "1 1:1 qid:1\n", "1 qid:1 qid:2\n"} {
		_, err := load(t, "x", []byte(text), Options{Format: FormatLibsvm})
		wantFormatError(t, err)
	}
}
