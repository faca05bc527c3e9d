package dataset

import (
	"errors"
	"fmt"
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

// The XML file beside an ARFF file is found by the longest common name.
func TestXMLBeside(t *testing.T) {
	dir := t.TempDir()
	for name, label := range map[string]string{"x.xml": "a", "x-y.xml": "b", "z.xml": "c"} {
		text := fmt.Appendf(nil, "<labels><label name=%q/></labels>", label)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
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
	xml := tempFile(t, "l.xml", []byte(`<labels xmlns="http://mulan.sourceforge.net/labels">`+
		`<label name="a&lt;b&amp;&#34;'"><label name="TAG_m\'usica"></label></label>`+
		`<label name=" é&#x9;"/></labels>`))
	want = []string{"a<b&\"'", "TAG_m\\'usica", " é\t"}
	if names, err = readLabelsXML(t.Context(), xml); err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
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
		{features, Options{LabelsPath: of("3 4\n0:1\n")}, "the header promises 2 more"},
		{features, Options{LabelsPath: of("3 4\n0:1\n\n\n0:1")}, "more labels than the 3 records"},
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
