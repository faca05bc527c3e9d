package dataset

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// Every fault is a FormatError at the right line that says what is wrong.
func TestBadSparseFiles(t *testing.T) {
	arff := func(attributes, data string) string {
		return "@relation '-C 1'\n@attribute l {0,1}\n" + attributes + "@data\n" + data
	}
	f := "@attribute f numeric\n"
	for _, tt := range []struct {
		test, data   string
		record, line int64
		says         string
	}{
		{"empty", "", -1, 0, "empty file"},
		{"blank", "\n \n", -1, 1, "no records"},
		{"binary", "\x00\x01\x02", -1, 0, "not a text"},
		{"prose", "Dear reader,\nthis is no data.\n", -1, 1, "begins no known format"},
		{"csv", "1,2,x\n3,4,y\n", -1, 1, "begins no known format"},

		{"comment only", "1 1:1 # ok\n2 : 3\n", 1, 2, "no whole number"},
		{"no colon", "1 1:1\n\n2 2\n", 1, 3, "no feature:value"},
		{"zero late", "1 1:1\n2 5:1 " + strings.Repeat(" ", bufferSize) + "0:1\n", 1, 2, "the base must be given as 0"},
		{"negative feature", "1 1:1\n1 -1:1\n", 1, 2, "no whole number"},
		{"large feature", "1 268435457:1\n", 0, 1, "at most 268435456 from 1 on"},
		{"huge feature", "1 1:1\n1 99999999999999999999:1\n", 1, 2, "no whole number"},
		{"repeated feature", "1 1:1\n1 3:1 2:1 3:2\n", 1, 2, "feature 3 is given twice"},
		{"repeated zero", "1 3:0 3:0\n", 0, 1, "feature 3 is given twice"},
		{"NaN", "1 1:NaN\n", 0, 1, "not finite"},
		{"infinite", "1 1:-inf\n", 0, 1, "not finite"},
		{"range", "1 1:1e39\n", 0, 1, "range of float32"},
		{"no value", "1 1:\n", 0, 1, "not a number"},
		{"query id", "1 1:1\n1 qid:x 1:1\n", 1, 2, "query number"},
		{"empty label", "1,,2 1:1\n", 0, 1, "empty label"},

		{"xmc short", "3 2 2\n0 0:1\n", -1, 3, "promises 2 more records"},
		{"xmc long", "1 2 2\n0 0:1\n1 1:1\n", 1, 3, "more records"},
		{"xmc label", "1 2 2\n2 0:1\n", 0, 2, "label 2"},
		{"xmc word", "1 2 2\na 0:1\n", 0, 2, "no whole number"},
		{"xmc comma", "1 2 2\n1, 0:1\n", 0, 2, "comma after the last"},
		{"xmc feature", "1 2 2\n1 2:1\n", 0, 2, "at most 2 from 0 on"},
		{"xmc huge header", "1 999999999999 2\n", -1, 1, "features, at most"},
		{"xmc huge labels", "1 2 999999999999\n", -1, 1, "labels, at most"},

		{"arff cut", "@relation x\n@attribute a numeric\n", -1, 3, "no @data"},
		{"arff no attributes", "@relation '-C 1'\n@data\n", -1, 2, "no attributes"},
		{"arff no labels", "@relation x\n@attribute a {0,1}\n@data\n", -1, 1, "which attributes are labels"},
		{"arff too many labels", "@relation '-C 2'\n@attribute a numeric\n@data\n", -1, 1, "there are 1 attributes"},
		{"arff keyword", "@relation x\nattribute a numeric\n", -1, 2, "was due"},
		{"arff nameless", arff("@attribute\n", ""), -1, 3, "without a name"},
		{"arff typeless", arff("@attribute a\n", ""), -1, 3, "no type"},
		{"arff string", arff("@attribute a string\n", ""), -1, 4, "type \"string\""},
		{"arff quote", arff("@attribute 'a numeric\n", ""), -1, 3, "no closing quote"},
		{"arff brace", arff("@attribute a {0,1\n", ""), -1, 3, "closing brace"},
		{"arff twice", arff(f+f, ""), -1, 4, "is given twice"},
		{"arff value twice", arff("@attribute a {0,0}\n", ""), -1, 3, "is given twice"},
		{"arff label values", "@relation '-C 1'\n@attribute l {yes,no}\n@data\n", -1, 3, "must be 0 and 1"},
		{"arff label value", "@relation '-C 1'\n@attribute l numeric\n@data\n0.5\n", 0, 4, "neither 0 nor 1"},
		{"arff few", arff(f, "1\n"), 0, 5, "1 values, want 2"},
		{"arff many", arff(f, "0,1\n1,2,3\n"), 1, 6, "more than 2 values"},
		{"arff missing", arff(f, "1,?\n"), 0, 5, "missing value"},
		{"arff no value", arff(f, "1,\n"), 0, 5, "1 values, want 2"},
		{"arff nominal", arff(f, "2,1\n"), 0, 5, "not one of its values"},
		{"arff number", arff(f, "1,x\n"), 0, 5, "not a number"},
		{"arff after quote", arff(f, "'1'x,2\n"), 0, 5, "after a quoted"},
		{"arff sparse number", arff(f, "{x 1}\n"), 0, 5, "no attribute number"},
		{"arff sparse beyond", arff(f, "{2 1}\n"), 0, 5, "there are 2 from 0 on"},
		{"arff sparse twice", arff(f, "{1 1,1 0}\n"), 0, 5, "is given twice"},
		{"arff sparse label twice", arff(f, "{0 1,0 1}\n"), 0, 5, "is given twice"},
		{"arff sparse open", arff(f, "{1 1\n"), 0, 5, "no closing brace"},
		{"arff empty cell", arff(f, "1,,2\n"), 0, 5, "no value"},
		{"arff quotes", arff(f, "0,''\n"), 0, 5, "not a number"},
		{"arff sparse no value", arff(f, "{1}\n"), 0, 5, "no value"},
		{"arff weight", arff(f, "{1 1}, {5}\n"), 0, 5, "after the row"},

		{"jsonl syntax", "{\"features\":{\"a\":1}}\n{\"features\":}\n", 1, 2, "byte 13"},
		{"jsonl missing", "{\"key\":1}\n", 0, 1, "missing"},
		{"jsonl text", `{"features":"a"}`, 0, 1, "neither an object nor an array"},
		{"jsonl value", `{"features":{"a":"b"}}`, 0, 1, "not a number"},
		{"jsonl nested", `{"features":{"a":[1]}}`, 0, 1, "not a number"},
		{"jsonl range", `{"features":{"a":1e99}}`, 0, 1, "range of float32"},
		{"jsonl twice", `{"features":{"a":1,"b":2,"a":1}}`, 0, 1, "is given twice"},
		{"jsonl index twice", `{"features":[[1,1],[1,2]]}`, 0, 1, "feature 1 is given twice"},
		{"jsonl lengths", `{"features":{"indices":[1],"values":[]}}`, 0, 1, "1 indices with 0 values"},
		{"jsonl negative", `{"features":[[-1,1]]}`, 0, 1, "no whole number"},
		{"jsonl large", `{"features":[[268435456,1]]}`, 0, 1, "at most 268435456"},
		{"jsonl triple", `{"features":[[1,1,1]]}`, 0, 1, "entry 0"},
		{"jsonl flat", `{"features":[1,1]}`, 0, 1, "not an array of"},
		{"jsonl mixed", "{\"features\":{\"a\":1}}\n{\"features\":[[1,1]]}\n", 1, 2, "have numbers here and names"},
		{"jsonl unknown field", `{"features":{},"lables":[]}`, 0, 1, `unknown field "lables"`},
		{"jsonl key come", "{\"features\":{}}\n{\"key\":1,\"features\":{}}\n", 1, 2, "either all records"},
	} {
		t.Run(tt.test, func(t *testing.T) {
			_, err := load(t, "x", []byte(tt.data), asSparse(Options{}))
			f := wantFormatError(t, err)
			if f.Record != tt.record || f.Line != tt.line || f.Path != "x" {
				t.Errorf("at record %d, line %d, want %d, %d: %v", f.Record, f.Line, tt.record, tt.line, err)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

func TestBadSparseSideFiles(t *testing.T) {
	for _, tt := range []struct{ keys, says string }{
		{"a\n", "1 keys for more records"},
		{"a\nb\nc\n", "more keys than the 2 records"},
		{"a\n\nb\n", "empty key"},
	} {
		_, err := load(t, "x", []byte("1 1:1\n2 2:1\n"), asSparse(Options{KeysPath: tempFile(t, "keys", []byte(tt.keys))}))
		if f := wantFormatError(t, err); !strings.HasSuffix(f.Path, "keys") || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("keys %q: %v", tt.keys, err)
		}
	}
	for _, tt := range []struct{ xml, says string }{
		{"<labels></labels>", "no labels"},
		{"<labels><label/></labels>", "without a name"},
		{"<labels>\n<label name='a'/><label name='a'/></labels>", "line 2: label \"a\" is given twice"},
		{"<labels><label name='a'>", "XML"},
		{"<labels><label name='q'/></labels>", "no attribute is named like the label \"q\""},
	} {
		_, err := load(t, "x", []byte("@relation x\n@attribute a {0,1}\n@data\n"), asSparse(Options{LabelsXML: tempFile(t, "l.xml", []byte(tt.xml))}))
		if wantFormatError(t, err); !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.xml, err)
		}
	}
	for _, tt := range []struct {
		names  string
		column int
	}{{"a\n\nb\n", 0}, {"a\n", 2}, {"\tb\n", 1}} {
		_, err := ReadNames(tempFile(t, "names", []byte(tt.names)), tt.column)
		wantFormatError(t, err)
	}
	// Lists of names that do not fit the header.
	for _, header := range []string{"0 1 1\n", "0 2 2\n"} {
		_, err := load(t, "x", []byte(header), Options{FeatureNames: []string{"x"}, LabelNames: []string{"a", "b"}, Kind: Sparse})
		wantFormatError(t, err)
	}
}

// A damaged or cut compressed file is found out at the latest at the end.
func TestDamagedSparseGzip(t *testing.T) {
	for _, data := range []string{"1 1:1\n2 2:1\n", "1 2 2\n0 0:1\n", "{\"features\":{\"a\":1}}\n", "@relation '-C 0'\n@attribute f real\n@data\n1\n"} {
		z := zipped(t, []byte(data))
		flipped := append([]byte(nil), z...)
		flipped[len(z)-5] ^= 1 // in the checksum
		_, err := load(t, "x", flipped, asSparse(Options{}))
		wantFormatError(t, err)
		_, err = load(t, "x", z[:len(z)-8], asSparse(Options{}))
		if f := wantFormatError(t, err); !errors.Is(f, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	}
	_, err := load(t, "x", []byte("BZh91AY&SY and no more"), asSparse(Options{}))
	wantFormatError(t, err)
}

func TestSparseOptionErrors(t *testing.T) {
	two := []string{"a", "a"}
	for _, o := range []Options{
		{Format: "csv"}, {Max: -1}, {Base: 9}, {MaxFeatures: -1}, {MaxFeatures: 1<<32 + 1},
		{FeatureNames: two}, {LabelNames: two}, {FeatureNames: []string{"a", "b"}, MaxFeatures: 1},
	} {
		if _, err := load(t, "x", []byte("1 1:1\n"), asSparse(o)); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := ReadNames("x", -1); !errors.Is(err, ErrOption) {
		t.Errorf("column -1: %v", err)
	}
	dir := t.TempDir()
	for _, tt := range []struct {
		name, format string
		h            Schema
	}{
		{"x", "", Schema{Kind: Sparse}}, {"x", "csv", Schema{Kind: Sparse}}, {"x.arff", "", Schema{Kind: Sparse, Dim: 1}},
		{"x.arff", "", Schema{Kind: Sparse, LabelNames: []string{"a"}}}, {"x.svm", "", Schema{Kind: Sparse, Base: 9}},
		{"x.svm", "", Schema{Kind: Sparse, Dim: -1}}, {"x.svm", "", Schema{Kind: Sparse, Dim: 1, FeatureNames: []string{"a", "b"}}},
		{"x.svm", "", Schema{Kind: Sparse, LabelNames: two}}, {"x.arff", "", Schema{Kind: Sparse, FeatureNames: []string{"a"}, LabelNames: []string{"a"}}},
		{"x.arff", "", Schema{Kind: Sparse, Dim: 1, LabelNames: []string{""}}},
	} {
		tt.h.Format = tt.format
		if _, err := Create(filepath.Join(dir, tt.name), tt.h); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	for _, names := range [][]string{two, {""}, {"a\x00"}, {"\xff"}} {
		if err := WriteLabelsXML(filepath.Join(dir, "l.xml"), names); !errors.Is(err, ErrOption) {
			t.Errorf("XML of %q: %v", names, err)
		}
	}
	for _, name := range []string{"", " ", "a\nb"} {
		if err := WriteNames(filepath.Join(dir, "l"), []string{name}, 0o600); !errors.Is(err, ErrOption) {
			t.Errorf("list of %q: %v", name, err)
		}
	}
}
