package dataset

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDetect: a file is read as what it is, so that its faults are those of its format.
func TestDetect(t *testing.T) {
	arff := "@RELATION 'x: -C 1'\n@attribute l {0,1}\n@attribute f real\n@data\n1,2\n"
	for _, tt := range []struct {
		name, data string
		kind       Kind
		format     string
		sparse     bool
	}{
		{"x", arff, AnyKind, FormatARFF, true},
		{"x.csv", arff, AnyKind, FormatARFF, true},
		{"x", "% note\n\n" + arff, AnyKind, FormatARFF, true},
		{"x", "\n" + arff, Sparse, FormatARFF, true},
		{"x.csv", "%,label\n5,a\n", AnyKind, FormatCSV, false},
		{"x", "2 10 5\n0,4 1:1 2:2\n1 3:1\n", AnyKind, FormatXMC, true},
		{"x.xmc", "1 10 5\n4\n", AnyKind, FormatXMC, true},
		{"x.csv", "1 10 5\n4 0:1\n", AnyKind, FormatXMC, true},
		{"x", "1 10 5\n4\n", Sparse, FormatXMC, true},
		{"x", "1\t10\t5\n4\t1\t2\n", AnyKind, FormatTSV, false},
		{"x", "a,b 1:1\n", AnyKind, FormatLibsvm, true},
		{"x.txt", "1:1\n", AnyKind, FormatLibsvm, true},
		{"x.svm", "7\n", AnyKind, FormatLibsvm, true},
		{"x", "7\n", AnyKind, FormatCSV, false},
		{"x", "7\n", Sparse, FormatLibsvm, true},
		{"x", "1,2\n3,4\n", AnyKind, FormatCSV, false},
		{"x.tsv", "1\n2\n", AnyKind, FormatTSV, false},
		{"x.csv", `{"features":{"a":1}}`, AnyKind, FormatJSONL, true},
		{"x", `{"vector":[1]}`, AnyKind, FormatJSONL, false},
		{"x", `{"vector":[1],"features":[2]}`, Sparse, "", true},
	} {
		r, err := NewReader(tt.name, strings.NewReader(tt.data), Options{Kind: tt.kind})
		if tt.format == "" {
			wantFormatError(t, err)
			continue
		}
		if err != nil {
			t.Errorf("%s %q: %v", tt.name, tt.data, err)
			continue
		}
		s := r.Schema()
		if s.Format != tt.format || (s.Kind == Sparse) != tt.sparse {
			t.Errorf("%s %q: read as %s, %v; want %s", tt.name, tt.data, s.Format, s.Kind, tt.format)
		}
		for err == nil {
			err = r.Read(new(Record))
		}
		if err != io.EOF {
			t.Errorf("%s %q: %v", tt.name, tt.data, err)
		}
	}
}

// TestFaultsOfTheirFormat: what is damaged or out of range is reported as such.
func TestFaultsOfTheirFormat(t *testing.T) {
	arff := zipped(t, []byte("@relation 'x: -C 0'\n@attribute f real\n@data\n"+strings.Repeat("1\n2\n3\n", 9000)))
	for _, tt := range []struct {
		data   []byte
		format string
		says   string
	}{
		{arff[:len(arff)-20], FormatARFF, "truncated"},
		{[]byte("2 10 5\n9 1:1\n"), FormatXMC, "label 9, the header promises 5"},
		{[]byte("2 10 5\n1 11:1\n"), FormatXMC, "feature 11"},
		{[]byte("key;a;b\nx;1;2;3\n"), FormatCSV, `is ';' the separator?`},
		{[]byte("1 2 x\n3 4 y\n"), FormatCSV, `is ' ' the separator?`},
	} {
		_, err := load(t, "data", tt.data, Options{})
		if f := wantFormatError(t, err); f.Format != tt.format || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%.20q: %s, %v; want %s", tt.data, f.Format, err, tt.says)
		}
	}
}

func TestSeparator(t *testing.T) {
	want := []Record{{Key: []byte("x"), Vector: []float32{1.5, 2}, Labels: []string{"p", "q"}}}
	for _, text := range []string{
		"key,a,b,label\nx,1.5,2,p|q\n", "key;a;b;label\nx;1.5;2;p|q\n\n", "key\ta\tb\tlabel\nx\t1.5\t2\tp|q",
		"key|a|b|label\nx|1.5|2|\"p|q\"\n", "key,v,label\nx,\"[1.5, 2]\",p|q\n", "key;v;label\nx;[1.5, 2];p|q\n",
		"key;v;label\nx;1.5 2;p|q\n", "key\tv\tlabel\nx\t(1.5,2)\tp|q\n", "x;[1.5,2];p|q\n",
	} {
		o := Options{}
		if !strings.HasPrefix(text, "key") {
			o = Options{KeyColumn: "1", LabelColumns: []string{"3"}}
		}
		compare(t, mustLoad(t, "x.csv", []byte(text), o), want)
	}
	got := mustLoad(t, "x", []byte("key;a;label\nx;1.5;p|q\n"), Options{Separator: ';', Format: FormatCSV})
	compare(t, got, []Record{{Key: []byte("x"), Vector: []float32{1.5}, Labels: []string{"p", "q"}}})
	for _, c := range "\"\r\n\uFFFD" {
		if _, err := load(t, "x.csv", []byte("1\n"), Options{Separator: c}); !errors.Is(err, ErrOption) {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// TestListColumn: a column with a list of numbers is the vector.
func TestListColumn(t *testing.T) {
	one := numbered([]float32{1, 2}, []float32{3, 4})
	compare(t, mustLoad(t, "x.csv", []byte("1 2\n3 4\n"), Options{}), one)
	compare(t, mustLoad(t, "x.csv", []byte("n,e,m\n7,\"[1,2]\",\"[5]\"\n8,\" 3  4 \",[6]\n"),
		Options{VectorField: "e", IgnoreColumns: []string{"n", "m"}}), one)
	compare(t, mustLoad(t, "x.csv", []byte("e\n[1]\n"), Options{}), numbered([]float32{1}))
	for _, c := range []struct {
		text string
		o    Options
		says string
	}{
		{",e\n7,\"[1,2]\"\n", Options{}, `column 1 ("") is neither ignored nor an attribute`},
		{"n,e\n[7],\"[1,2]\"\n", Options{VectorField: "e"}, `column 1 ("n") is neither ignored nor an attribute`},
		{"e,a\n1,x\n", Options{}, `column 2 ("a"): "x" is not a number: what is the column for?`},
		{"a,b\n[1],[2]\n", Options{}, "which column has the vectors? Columns 1 (\"a\") and 2 (\"b\")"},
		{"a\n[1]\n", Options{VectorField: "e"}, `no column "e"`},
		{"e\n1 2\n3\n", Options{}, "1 values, the records before have 2"},
		{"e\n1 2\n3 x\n", Options{}, `value 1: "x" is not a number`},
		{"e\n1 2\n3 NaN\n", Options{}, "not finite"},
		{"vector\n[]\n", Options{VectorField: "vector"}, "0 columns of numbers"},
	} {
		_, err := load(t, "x.csv", []byte(c.text), c.o)
		if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %q does not say %q", c.text, err, c.says)
		}
	}
}

// TestKeysBeside: a list of keys goes with every format.
func TestKeysBeside(t *testing.T) {
	keys := tempFile(t, "keys", []byte("first\nsecond\n"))
	got := mustLoad(t, "x.csv", []byte("1\n2\n"), Options{KeysPath: keys})
	compare(t, got, []Record{{Key: []byte("first"), Vector: []float32{1}}, {Key: []byte("second"), Vector: []float32{2}}})
}
