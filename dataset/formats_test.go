package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// numbered makes records as files without keys give them.
func numbered(vectors ...[]float32) []Record {
	var all []Record
	for i, v := range vectors {
		all = append(all, Record{Key: []byte(fmt.Sprint(i)), Vector: v})
	}
	return all
}

// wholeBytes compares long payloads at once, where cmp compares byte by byte.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 || len(b) > 0 }, cmp.Comparer(bytes.Equal))

func compare(t *testing.T, got, want []Record) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), wholeBytes); d != "" {
		t.Errorf("records differ (-want +got):\n%s", d)
	}
}

func TestBinaryFormats(t *testing.T) {
	dict := func(descr, shape string) string {
		return fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	}
	two := numbered([]float32{1, 2, 3}, []float32{4, 5, 6})
	signed := numbered([]float32{-1, 2}, []float32{-3, 4})
	half := numbered([]float32{0.5, -1.25})
	tests := []struct {
		test, name string
		data       []byte
		want       []Record
	}{
		{"idx u8", "x", join(be(uint32(0x0802), uint32(2), uint32(3)), []byte{1, 2, 3, 4, 5, 6}), two},
		{"idx images", "x", join(be(uint32(0x0803), uint32(1), uint32(2), uint32(2)), []byte{1, 2, 3, 255}), numbered([]float32{1, 2, 3, 255})},
		{"idx i8", "x", be(uint32(0x0902), uint32(2), uint32(2), []int8{-1, 2, -3, 4}), signed},
		{"idx i16", "x", be(uint32(0x0b02), uint32(2), uint32(2), []int16{-1, 2, -3, 4}), signed},
		{"idx i32", "x", be(uint32(0x0c02), uint32(2), uint32(2), []int32{-1, 2, -3, 4}), signed},
		{"idx f32", "x", be(uint32(0x0d02), uint32(1), uint32(2), []float32{0.5, -1.25}), half},
		{"idx f64", "x", be(uint32(0x0e02), uint32(1), uint32(2), []float64{0.5, -1.25}), half},
		{"idx no records", "x", be(uint32(0x0802), uint32(0), uint32(3)), nil},
		{"fvecs", "a.fvecs", le(uint32(2), []float32{0.5, -1.25}), half},
		{"bvecs", "a.bvecs", le(uint32(3), []uint8{1, 2, 3}, uint32(3), []uint8{4, 5, 6}), two},
		{"ivecs", "a.IVECS", le(uint32(2), []int32{-1, 2}, uint32(2), []int32{-3, 4}), signed},
		{"npy f4", "x", npyFile(1, dict("<f4", "(1, 2)"), le([]float32{0.5, -1.25})), half},
		{"npy big f4", "x", npyFile(1, dict(">f4", "(1, 2)"), be([]float32{0.5, -1.25})), half},
		{"npy f8", "x", npyFile(2, dict("<f8", "(1, 2)"), le([]float64{0.5, -1.25})), half},
		{"npy u1", "x", npyFile(3, dict("|u1", "(2, 3)"), le([]uint8{1, 2, 3, 4, 5, 6})), two},
		{"npy i1", "x", npyFile(1, dict("|i1", "(2, 2)"), le([]int8{-1, 2, -3, 4})), signed},
		{"npy i4", "x", npyFile(1, dict("<i4", "(2L, 2L)"), le([]int32{-1, 2, -3, 4})), signed},
		{"npy i8", "x", npyFile(1, dict("<i8", "(2,2,)"), le([]int64{-1, 2, -3, 4})), signed},
		{"npy big i8", "x", npyFile(1, dict(">i8", "(2, 2)"), be([]int64{-1, 2, -3, 4})), signed},
		{"npy f2", "x", npyFile(1, dict("<f2", "(1, 2)"), le([]uint16{0x3800, 0xbd00})), half},
		{"npy u2", "x", npyFile(1, dict(">u2", "(2, 3)"), be([]uint16{1, 2, 3, 4, 5, 6})), two},
		{"npy i2", "x", npyFile(1, dict("<i2", "(2, 2)"), le([]int16{-1, 2, -3, 4})), signed},
		{"npy u4", "x", npyFile(1, dict("<u4", "(2, 3)"), le([]uint32{1, 2, 3, 4, 5, 6})), two},
		{"npy u8", "x", npyFile(1, dict(">u8", "(2, 3)"), be([]uint64{1, 2, 3, 4, 5, 6})), two},
		{"fbin", "a.fbin", le(uint32(1), uint32(2), []float32{0.5, -1.25}), half},
		{"u8bin", "a.u8bin", le(uint32(2), uint32(3), []uint8{1, 2, 3, 4, 5, 6}), two},
		{"i8bin", "a.i8bin", le(uint32(2), uint32(2), []int8{-1, 2, -3, 4}), signed},
		{"ibin", "a.ibin", le(uint32(2), uint32(2), []int32{-1, 2, -3, 4}), signed},
		{"fbin no records", "a.fbin", le(uint32(0), uint32(2)), nil},
		{"npy images", "x", npyFile(1, dict("|u1", "(1, 2, 2)"), []byte{1, 2, 3, 4}), numbered([]float32{1, 2, 3, 4})},
		{"npy no records", "x", npyFile(1, dict("<f4", "(0, 2)"), nil), nil},
		{"npy keys in another order", "x", npyFile(1, `{"shape":(1,1),"fortran_order":False,"descr":"|u1"}`, []byte{7}), numbered([]float32{7})},
	}
	for _, tt := range tests {
		t.Run(tt.test, func(t *testing.T) {
			compare(t, mustLoad(t, tt.name, tt.data, Options{}), tt.want)
			compare(t, mustLoad(t, tt.name+".gz", zipped(t, tt.data), Options{}), tt.want)
			// From a file the size is known, and checked, beforehand.
			r, err := Open(tempFile(t, tt.name, tt.data), Options{})
			must(t, err)
			defer r.Close()
			if r.Schema().Records != int64(len(tt.want)) {
				t.Errorf("Len says %d, want %d", r.Schema().Records, len(tt.want))
			}
			got, err := readAll(t, r)
			must(t, err)
			compare(t, got, tt.want)
		})
	}
}

func TestLabelsBeside(t *testing.T) {
	images := join(be(uint32(0x0802), uint32(3), uint32(1)), []byte{7, 8, 9})
	label := func(values ...byte) string {
		return tempFile(t, "labels", zipped(t, join(be(uint32(0x0801), uint32(len(values))), values)))
	}
	want := numbered([]float32{7}, []float32{8}, []float32{9})
	for i, l := range []string{"5", "0", "255"} {
		want[i].Labels = []string{l}
	}
	compare(t, mustLoad(t, "images", images, Options{LabelsPath: label(5, 0, 255)}), want)
	compare(t, mustLoad(t, "images", images, Options{LabelsPath: label(5, 0, 255, 1), Max: 2}), want[:2])
	signed := tempFile(t, "signed", be(uint32(0x0b01), uint32(1), []int16{-300}))
	got := mustLoad(t, "x.csv", []byte("1,2\n"), Options{LabelsPath: signed})
	compare(t, got, []Record{{Key: []byte("0"), Vector: []float32{1, 2}, Labels: []string{"-300"}}})

	for _, values := range [][]byte{{1, 2}, {1, 2, 3, 4}, {}} {
		o := Options{LabelsPath: label(values...)}
		_, err := load(t, "images", images, o)
		if f := wantFormatError(t, err); f.Path != o.LabelsPath {
			t.Errorf("the error blames %s", f.Path)
		}
		// The number of csv records is known only at the end.
		_, err = load(t, "x.csv", []byte("1\n2\n3\n"), o)
		if f := wantFormatError(t, err); f.Path != o.LabelsPath {
			t.Errorf("the error blames %s", f.Path)
		}
	}
	for name, data := range map[string][]byte{
		"images":    images,
		"floats":    be(uint32(0x0d01), uint32(3), []float32{1, 2, 3}),
		"truncated": be(uint32(0x0801), uint32(3), []uint8{1}),
		"trailing":  be(uint32(0x0801), uint32(3), []uint8{1, 2, 3, 4}),
		"text":      []byte("1\n2\n3\n"),
		"empty":     nil,
	} {
		_, err := load(t, "images", images, Options{LabelsPath: tempFile(t, name, data)})
		wantFormatError(t, err)
	}
	if _, err := load(t, "images", images, Options{LabelsPath: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing labels file: %v", err)
	}
}

func TestMax(t *testing.T) {
	data := be(uint32(0x0802), uint32(3), uint32(1), []uint8{7, 8, 9})
	for limit, want := range map[int64]int{0: 3, 1: 1, 2: 2, 3: 3, 9: 3} {
		if got := mustLoad(t, "x", data, Options{Max: limit}); len(got) != want {
			t.Errorf("Max %d: %d records", limit, len(got))
		}
	}
	// What lies behind the limit is not looked at.
	if got := mustLoad(t, "x.csv", []byte("1\n2\nboom\n"), Options{Max: 2}); len(got) != 2 {
		t.Errorf("%d records before the fault", len(got))
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{Format: "docx"}, {Max: -1}, {MaxDim: -1}, {MaxDim: maxMaxDim + 1}, {Header: 9}} {
		if _, err := Open("x", o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Open(t.TempDir(), Options{Kind: Dense}); !errors.Is(err, ErrOption) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// endless gives a repeated pattern and counts what was taken.
type endless struct {
	pattern string
	taken   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.pattern[(e.taken+i)%len(e.pattern)]
	}
	e.taken += len(p)
	return len(p), nil
}

// A record that never ends must not be taken in whole.
func TestEndlessRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 64 MiB a case")
	}
	for name, head := range map[string]string{
		"x.csv":   "key,v,payload\nk,1,\"",
		"x.jsonl": `{"payload":"`,
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{pattern: "abcdefg hijk"}
			r, err := NewReader(name, io.MultiReader(strings.NewReader(head), body), Options{})
			if err == nil {
				err = r.Read(new(Record))
			}
			if f := wantFormatError(t, err); !errors.Is(f, errTooLong) {
				t.Error(err)
			}
			if body.taken > maxTextRecord+2*bufferSize {
				t.Errorf("took %d bytes", body.taken)
			}
		})
	}
}

// broken fails after a few bytes, as a disk does.
type broken struct{ r io.Reader }

var errDisk = &os.PathError{Op: "read", Path: "disk", Err: errors.New("input/output error")}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errDisk
	}
	return n, err
}

// A fault of the system is not a fault of the file.
func TestSystemError(t *testing.T) {
	for name, data := range map[string]string{
		"x.csv": "1,2\n3,4\n5,", "x.jsonl": "{\"vector\":[1]}\n{\"vec", "x": string(be(uint32(0x0802), uint32(2), uint32(2), []byte{1, 2, 3})),
		"x.fvecs": string(le(uint32(1), float32(1), uint32(1))), "empty": "",
	} {
		r, err := NewReader(name, broken{strings.NewReader(data)}, Options{})
		for err == nil {
			err = r.Read(new(Record))
		}
		if !errors.Is(err, errDisk) || errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Reading does not allocate once the record has grown.
func TestBinaryReadAllocates(t *testing.T) {
	data := join(be(uint32(0x0802), uint32(300), uint32(64)), make([]byte, 300*64))
	r, err := NewReader("x", strings.NewReader(string(data)), Options{})
	must(t, err)
	var rec Record
	if n := testing.AllocsPerRun(200, func() {
		must(t, r.Read(&rec))
	}); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}
