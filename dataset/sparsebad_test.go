package dataset

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

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
		{"<labels>\n<label name='a'/><label name='a'/></labels>", "label \"a\" is given twice"},
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
		{"x", "", Schema{Kind: Sparse}}, {"x", "csv", Schema{Kind: Sparse}}, {"x.arff", "", Schema{Kind: Sparse, Dim: 1}}, {"x.svm", "", Schema{Kind: Sparse, Base: 9}},
		{"x.svm", "", Schema{Kind: Sparse, Dim: -1}}, {"x.svm", "", Schema{Kind: Sparse, Dim: 1, FeatureNames: []string{"a", "b"}}},
		{"x.svm", "", Schema{Kind: Sparse, LabelNames: two}},
	} {
		tt.h.Format = tt.format
		if _, err := Create(filepath.Join(dir, tt.name), tt.h); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	for _, name := range []string{"", " ", "a\nb"} {
		if err := WriteNames(filepath.Join(dir, "l"), []string{name}, 0o600); !errors.Is(err, ErrOption) {
			t.Errorf("list of %q: %v", name, err)
		}
	}
}
