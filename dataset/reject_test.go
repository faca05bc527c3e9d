package dataset

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReject: the lines of bad records are named, and the others read.
func TestReject(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		good int
		bad  []int64 // lines
	}{
		"csv":        {"key,v\na,1\nb,x\nc,2,3\nd,4\n,5\ne,\"6\"\n", 3, []int64{3, 4, 6}},
		"csv quotes": {"key,v,payload\na,1,\"x\ny\"\nb,x,\"p\nq\"\nc,2\"3,\nd,4,\n", 2, []int64{4, 6}},
		"csv first":  {"key,v\na,x\nb,1", 1, []int64{2}},
		"csv no end": {"key,v\na,1\nb,\"2\nc,3\n", 1, []int64{3}},
		"no header":  {"1,2\n3\n4,5\n", 2, []int64{2}},
		"list":       {"v\n1 2\n1\n1 z\n3 4\n", 2, []int64{3, 4}},
		"jsonl": {
			"{\"vector\":[1]}\n{\n{\"vector\":[1,2]}\n\n{\"vector\":[3]}\n{\"vector\":", 2, []int64{2, 3, 6},
		},
		"libsvm":      {"1 1:1\n1 1\n2 3:4\nx 3:1 2:2 3:1\n", 2, []int64{2, 4}},
		"labels last": {"key,v,labels\nb,x,p|q\na,1,l\n", 1, []int64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			format := FormatCSV
			if name == FormatJSONL || name == FormatLibsvm {
				format = name
			}
			var bad []int64
			o := Options{Format: format, Reject: func(err *FormatError) error {
				bad = append(bad, err.Line)
				return nil
			}}
			got := mustLoad(t, "x", []byte(c.text), o)
			if len(got) != c.good || !slices.Equal(bad, c.bad) {
				t.Errorf("%d records, lines %d rejected; want %d, %d", len(got), bad, c.good, c.bad)
			}
			for i, rec := range got { // nothing is left of what was rejected
				if len(rec.Vector) > 2 || len(rec.Labels) > 1 {
					t.Errorf("record %d: %+v", i, rec)
				}
			}
			stop := errors.New("stop")
			o.Reject = func(*FormatError) error { return stop }
			if _, err := load(t, "x", []byte(c.text), o); !errors.Is(err, stop) {
				t.Errorf("%v, want that of Reject", err)
			}
		})
	}
	reject := func(*FormatError) error { return nil }
	// What is not the fault of a record ends the file.
	for name, data := range map[string][]byte{
		"x.csv":    append(zipped(t, []byte("1,2\n")), "rest"...),
		"x.jsonl":  []byte("[\n{\"vector\":[1]},\n{\"vector\":[1]}\n]\n"),
		"y.jsonl":  []byte("{\n\"vector\":[1]\n}\n"),
		"x.libsvm": []byte("1 1:1\n1 0:1\n"),
	} {
		_, err := load(t, name, data, Options{Reject: reject, Base: BaseOne})
		wantFormatError(t, err)
	}
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

// TestRejectRecord: in every format, a record that cannot be read, also the first or the last one, is
// passed over when asked, by its number and reason, and the others keep their numbers as keys.
func TestRejectRecord(t *testing.T) {
	nan := float32(math.NaN())
	npy := func(fortran string, values any) []byte {
		return npyFile(1, "{'descr': '<f4', 'fortran_order': "+fortran+", 'shape': (3, 2), }\n", le(values))
	}
	for name, c := range map[string]struct {
		format string
		data   []byte
		o      Options
		bad    int64 // number of the record
		says   string
	}{
		"npy":         {"", npy("False", []float32{1, 2, nan, 4, 5, 6}), Options{}, 1, "not finite"},
		"npy first":   {"", npy("False", []float32{nan, 2, 3, 4, 5, 6}), Options{}, 0, "not finite"},
		"npy last":    {"", npy("False", []float32{1, 2, 3, 4, 5, nan}), Options{}, 2, "not finite"},
		"npy columns": {"", npy("True", []float32{1, nan, 3, 4, 5, 6}), Options{}, 1, "not finite"},
		"npz": {
			"", npzOf(t, 0, npy("False", []float32{1, 2, nan, 4, 5, 6})), Options{}, 1, "not finite",
		},
		"idx": {
			"", be(uint32(0x0d02), uint32(3), uint32(1), []float32{1, nan, 3}), Options{}, 1, "not finite",
		},
		"fbin": {FormatFbin, le(uint32(3), uint32(1), []float32{1, 2, nan}), Options{}, 2, "not finite"},
		"fvecs": {
			FormatFvecs, le(uint32(1), float32(1), uint32(1), nan, uint32(1), float32(1)), Options{},
			1, "not finite",
		},
		"fvecs wider": {
			FormatFvecs, le(uint32(1), float32(1), uint32(2), nan, nan, uint32(1), float32(1)), Options{},
			1, "dimension 2",
		},
		"bvecs": {
			FormatBvecs, []byte{2, 0, 0, 0, 7, 8, 1, 0, 0, 0, 9, 2, 0, 0, 0, 9, 9}, Options{},
			1, "dimension 1",
		},
		"ivecs": {FormatIvecs, le([]int32{1, 2, 1, 1<<24 + 1, 1, 3}), Options{}, 1, "exactly"},
		"hdf5":  {"", nanHDF5(t), Options{Max: 2}, 1, "not finite"},
		"csv":   {FormatCSV, []byte("1,2\n3,\n5,6\n"), Options{}, 1, "not a number"},
		"jsonl first": {
			FormatJSONL, []byte("{\"vector\":[1,null]}\n{\"vector\":[1]}\n{\"vector\":[2]}\n"), Options{},
			0, "not a number",
		},
		"jsonl kind": {
			FormatJSONL, []byte("{\"key\":\"\",\"features\":{}}\n{\"vector\":[1]}\n{\"vector\":[2]}\n"),
			Options{}, 0, "empty key",
		},
		"libsvm": {FormatLibsvm, []byte("1 1\n1 1:1\n2 3:4\n"), Options{}, 0, "no feature:value"},
		"xmc":    {FormatXMC, []byte("3 8 4\n0,3 1:0.5\n9 2:1\n1 2:1\n"), Options{}, 1, "label 9"},
		"arff": {
			FormatARFF, []byte("@relation r\n@attribute a real\n@attribute class {x,y}\n@data\n" +
				"1,x\nz,y\n2,y\n"), Options{}, 1, "not a number",
		},
		"check": {FormatLibsvm, []byte("1 1:1\n1 1:-1\n2 3:4\n"), Options{Check: func(rec *Record) error {
			if rec.Features.Value[0] < 0 {
				return errors.New("negative")
			}
			return nil
		}}, 1, "negative"},
		"check first": {
			FormatJSONL, []byte("{\"vector\":[0]}\n{\"vector\":[1]}\n{\"vector\":[2]}\n"),
			Options{Check: func(rec *Record) error {
				if rec.Vector[0] == 0 {
					return errors.New("zero")
				}
				return nil
			}}, 0, "zero",
		},
		"keys": {
			"", npy("False", []float32{1, 2, 3, 4, 5, 6}),
			Options{KeysPath: tempFile(t, "keys", []byte("0\n\n2\n"))}, 1, "empty key",
		},
		"labels": {
			"", npy("False", []float32{1, 2, nan, 4, 5, 6}),
			Options{LabelsPath: tempFile(t, "labels", be(uint32(0x0801), uint32(3), []byte{0, 1, 2}))},
			1, "not finite",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Format = c.format
			_, err := load(t, "x", c.data, c.o)
			if f := wantFormatError(t, err); !f.Skippable || f.Record != c.bad {
				t.Errorf("without Reject: %+v", f)
			}
			n := 0
			c.o.Reject = func(err *FormatError) error {
				n++
				if err.Record != c.bad || !strings.Contains(err.Error(), c.says) {
					t.Errorf("rejected record %d: %v", err.Record, err)
				}
				return nil
			}
			r, err := NewReader("x", bytes.NewReader(c.data), c.o)
			must(t, err)
			defer r.Close()
			var keys []string
			for rec, err := range All(r) {
				must(t, err)
				keys = append(keys, string(rec.Key))
				if c.o.LabelsPath != "" && !slices.Equal(rec.Labels, keys[len(keys)-1:]) {
					t.Errorf("record %s has the label %q", rec.Key, rec.Labels)
				}
			}
			want := slices.Delete([]string{"0", "1", "2"}, int(c.bad), int(c.bad)+1)
			if n != 1 || !slices.Equal(keys, want) {
				t.Errorf("%d rejected, records %q are left", n, keys)
			}
		})
	}
	// A file of nothing else is none.
	o := Options{Format: FormatJSONL, Reject: func(*FormatError) error { return nil }}
	_, err := load(t, "x", []byte("{}\n{}\n"), o)
	if f := wantFormatError(t, err); !strings.Contains(f.Error(), "none of the 2 records") {
		t.Error(f)
	}
}

// nanHDF5 is a file of h5py in which a value of record 1 is not finite.
func nanHDF5(t *testing.T) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", "hdf5", "ann.h5"))
	must(t, err)
	row1 := le([]float32{-114, -113, -112, -111, -110, -109})
	at := bytes.Index(data, row1)
	copy(data[at:], le(float32(math.NaN())))
	return data
}
