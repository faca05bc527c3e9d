package dataset

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestReject: the lines of bad records are passed on, and the others read.
func TestReject(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		good int
		bad  string // lines
	}{
		"csv":         {"key,v\na,1\nb,x\nc,2,3\nd,4\n,5\ne,\"6\"\n", 3, "key,v\nb,x\nc,2,3\n,5\n"},
		"csv quotes":  {"key,v,payload\na,1,\"x\ny\"\nb,x,\"p\nq\"\nc,2\"3,\nd,4,\n", 2, "key,v,payload\nb,x,\"p\nq\"\nc,2\"3,\n"},
		"csv first":   {"key,v\na,x\nb,1", 1, "key,v\na,x\n"},
		"csv no end":  {"key,v\na,1\nb,\"2\nc,3\n", 1, "key,v\nb,\"2\nc,3\n"},
		"no header":   {"1,2\n3\n4,5\n", 2, "3\n"},
		"list":        {"v\n1 2\n1\n1 z\n3 4\n", 2, "v\n1\n1 z\n"},
		"jsonl":       {"{\"vector\":[1]}\n{\n{\"vector\":[1,2]}\n\n{\"vector\":[3]}\n{\"vector\":", 2, "{\n{\"vector\":[1,2]}\n{\"vector\":"},
		"libsvm":      {"1 1:1\n1 1\n2 3:4\nx 3:1 2:2 3:1\n", 2, "1 1\nx 3:1 2:2 3:1\n"},
		"labels last": {"key,v,labels\nb,x,p|q\na,1,l\n", 1, "key,v,labels\nb,x,p|q\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []byte
			faults := 0
			format := FormatCSV
			if name == FormatJSONL || name == FormatLibsvm {
				format = name
			}
			o := Options{Format: format, Reject: func(bad []byte, err *FormatError) error {
				lines = append(lines, bad...)
				if err != nil {
					faults++
				}
				return nil
			}}
			got := mustLoad(t, "x", []byte(c.text), o)
			if len(got) != c.good || string(lines) != c.bad {
				t.Errorf("%d records, %q rejected; want %d, %q", len(got), lines, c.good, c.bad)
			}
			for i, rec := range got { // nothing is left of what was rejected
				if len(rec.Vector) > 2 || len(rec.Labels) > 1 {
					t.Errorf("record %d: %+v", i, rec)
				}
			}
			stop := errors.New("stop")
			o.Reject = func(_ []byte, err *FormatError) error {
				if err == nil {
					return nil
				}
				return stop
			}
			if _, err := load(t, "x", []byte(c.text), o); !errors.Is(err, stop) {
				t.Errorf("%v, want that of Reject", err)
			}
		})
	}
	reject := func([]byte, *FormatError) error { return nil }
	for _, o := range []Options{{Format: FormatARFF}, {Format: FormatFvecs}, {Format: FormatCSV, KeysPath: "x"}} {
		o.Reject = reject
		if _, err := load(t, "x", seedFvecs, o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// What is not the fault of a record ends the file.
	_, err := load(t, "x.csv", append(zipped(t, []byte("1,2\n")), "rest"...), Options{Reject: reject})
	wantFormatError(t, err)
}

// TestNewWriter writes to a stream what Create writes to a file.
func TestNewWriter(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter("x.csv", &b, Schema{Dim: 2})
	must(t, err)
	rec := Record{Key: []byte("k"), Vector: []float32{1, 2}}
	for _, err := range []error{w.Chmod(0o644), w.Write(&rec), w.Close(), w.Abort()} {
		if err != nil {
			t.Error(err)
		}
	}
	if b.String() != "key,v0,v1,labels,payload\nk,1,2,,\n" {
		t.Errorf("%q", b.String())
	}
	if _, err := NewWriter("x.npy", &b, Schema{Format: FormatNPY, Dim: 2}); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "length") {
		t.Error(err)
	}
}
