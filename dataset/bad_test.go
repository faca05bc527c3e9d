package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// Every fault is a FormatError at the right place that says what is wrong.
func TestBadFiles(t *testing.T) {
	dict := func(descr, order, shape string) string {
		return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape)
	}
	npy := func(descr, shape string, body ...byte) []byte {
		return npyFile(1, dict(descr, "False", shape), body)
	}
	nan := float32(math.NaN())
	type place struct{ record, line, offset int64 }
	header := func(offset int64) place { return place{-1, 0, offset} }
	tests := []struct {
		test, name string
		data       []byte
		at         place
		says       string
	}{
		{"empty", "x", nil, header(0), "empty file"},
		{"unknown", "x", []byte{1, 2, 3, 4, 5}, header(0), "unknown binary"},
		{"short random", "x", []byte("p\xe9\x81q,2"), header(0), "not UTF-8"},
		{"UTF-16", "a.csv", []byte("\xff\xfe1\x00,\x002\x00"), header(0), "UTF-16"},
		{"gzip cut", "x.gz", []byte{0x1f, 0x8b, 8}, header(0), "truncated"},

		{"idx magic", "a.idx", []byte("hello world"), header(0), "wrong magic"},
		{"idx type", "a.idx", be(uint32(0x0a02), uint32(1), uint32(1), []byte{1}), header(0), "wrong magic"},
		{"idx rank 0", "a.idx", be(uint32(0x0800)), header(0), "wrong magic"},
		{"idx rank 255", "a.idx", be(uint32(0x08ff)), header(0), "wrong magic"},
		{"idx cut header", "a.idx", be(uint32(0x0803), uint32(1), uint16(1)), header(10), "truncated"},
		{"idx labels", "x", be(uint32(0x0801), uint32(1), []byte{1}), header(3), "labels"},
		{"idx dim 0", "x", be(uint32(0x0803), uint32(1), uint32(4), uint32(0)), header(8), "empty"},
		{"idx huge", "x", be(uint32(0x0803), uint32(1), uint32(1<<31), uint32(1<<31)), header(8), "more than"},
		{"idx negative", "x", be(uint32(0x0802), uint32(1), int32(-1)), header(8), "more than"},
		{"idx cut", "x", be(uint32(0x0802), uint32(2), uint32(2), []byte{1, 2, 3}), place{1, 0, 15}, "truncated"},
		{"idx cut between", "x", be(uint32(0x0802), uint32(2), uint32(2), []byte{1, 2}), place{1, 0, 14}, "truncated"},
		{"idx many records", "x", be(uint32(0x0802), int32(-1), uint32(2), []byte{1, 2}), place{1, 0, 14}, "truncated"},
		{"idx more", "x", be(uint32(0x0802), uint32(1), uint32(2), []byte{1, 2, 3}), place{1, 0, 14}, "after the"},
		{"idx NaN", "x", be(uint32(0x0d02), uint32(1), uint32(2), []float32{1, nan}), place{0, 0, 12}, "value 1 is NaN"},

		{"fvecs short", "a.fvecs", []byte{1, 0}, place{0, 0, 0}, "truncated"},
		{"fvecs text", "a.fvecs", []byte("0.5 0.25\n"), place{0, 0, 0}, "dimension"},
		{"fvecs zero", "a.fvecs", le(uint32(0), uint32(0)), place{0, 0, 0}, "dimension 0"},
		{"fvecs negative", "a.fvecs", le(int32(-3), float32(1)), place{0, 0, 0}, "dimension -3"},
		{"fvecs huge", "a.fvecs", le(int32(math.MaxInt32), float32(1)), place{0, 0, 0}, "dimension 2147483647"},
		{"fvecs cut", "a.fvecs", le(uint32(2), float32(1)), place{0, 0, 8}, "truncated"},
		{"fvecs cut second", "a.fvecs", le(uint32(1), float32(1), uint32(1)), place{1, 0, 12}, "truncated"},
		{"fvecs ragged", "a.fvecs", le(uint32(1), float32(1), uint32(2), float32(1), float32(2)), place{1, 0, 8}, "dimension 2"},
		{"fvecs ragged last", "a.fvecs", le(uint32(2), float32(1), float32(2), uint32(1), float32(1)), place{1, 0, 12}, "dimension 1"},
		{"fvecs infinite", "a.fvecs", le(uint32(1), float32(math.Inf(-1))), place{0, 0, 0}, "not finite"},
		{"ivecs inexact", "a.ivecs", le(uint32(1), int32(1<<24+1)), place{0, 0, 0}, "exactly"},
		{"bvecs ragged", "a.bvecs", []byte{1, 0, 0, 0, 9, 2, 0, 0, 0, 9, 9}, place{1, 0, 5}, "dimension 2"},

		{"fbin short", "a.fbin", []byte{1, 0, 0, 0, 2}, header(5), "truncated"},
		{"fbin zero", "a.fbin", le(uint32(1), uint32(0)), header(4), "dimension 0"},
		{"fbin huge", "a.fbin", le(uint32(1), uint32(math.MaxUint32)), header(4), "dimension 4294967295"},
		{"fbin cut", "a.fbin", le(uint32(math.MaxUint32), uint32(1), float32(1), float32(2)), place{2, 0, 16}, "truncated"},
		{"u8bin more", "a.u8bin", le(uint32(1), uint32(1), []byte{1, 2}), place{1, 0, 9}, "after the"},
		{"zstd cut", "x.csv.zst", []byte{0x28, 0xb5, 0x2f, 0xfd}, header(0), "truncated"},
		{"npz", "x.npz", []byte("PK\x03\x04 and no more"), header(0), "zip"},
		{"npy u8 inexact", "x", npyFile(1, "{'descr':'<u8','fortran_order':False,'shape':(1,1)}", le(uint64(1<<63+1))), place{0, 0, 61}, "exactly"},
		{"npy f2 infinite", "x", npyFile(1, "{'descr':'<f2','fortran_order':False,'shape':(1,1)}", le(uint16(0x7c00))), place{0, 0, 61}, "not finite"},

		{"npy magic", "a.npy", []byte("\x93NUMPX\x01\x00 ........"), header(0), "wrong magic"},
		{"npy html", "a.npy", []byte("<!DOCTYPE html>"), header(0), "wrong magic"},
		{"npy cut", "a.npy", []byte("\x93NUMPY\x01"), header(7), "truncated"},
		{"npy version", "x", npyFile(4, "{}", nil), header(6), "version 4"},
		{"npy huge header", "x", le([]byte("\x93NUMPY\x02\x00"), uint32(math.MaxUint32)), header(8), "header of"},
		{"npy cut header", "x", le([]byte("\x93NUMPY\x01\x00"), uint16(500), []byte("{'descr'")), header(18), "truncated"},
		{"npy garbage", "x", npyFile(1, "import os", nil), header(10), "want descr"},
		{"npy record type", "x", npy("[('a', '<f4')]", "(1, 1)"), header(10), "want descr as a text"},
		{"npy type", "x", npy("'<c8'", "(1, 1)"), header(10), "number type"},
		{"npy no order", "x", npy("'|f4'", "(1, 1)"), header(10), "number type"},
		{"npy Fortran", "x", npyFile(1, dict("'<f4'", "True", "(2, 1, 2)"), make([]byte, 16)), header(10), "Fortran"},
		{"npy flat", "x", npy("'<f4'", "(4,)"), header(10), "1 dimensions"},
		{"npy scalar", "x", npy("'<f4'", "()"), header(10), "0 dimensions"},
		{"npy negative", "x", npy("'<f4'", "(-1, 4)"), header(10), "size"},
		{"npy overflow", "x", npy("'<f4'", "(1, 99999999999999999999)"), header(10), "size"},
		{"npy huge rows", "x", npy("'<f4'", "(18446744073709551615, 4)"), header(10), "size"},
		{"npy huge file", "x", npy("'<f4'", "(9223372036854775807, 4)"), header(0), "promises"},
		{"npy huge dim", "x", npy("'<f4'", "(1, 1073741824, 1073741824, 1073741824)"), header(10), "more than"},
		{"npy dim 0", "x", npy("'<f4'", "(3, 0)"), header(10), "empty"},
		{"npy cut body", "x", npyFile(1, "{'descr':'|u1','fortran_order':False,'shape':(2,2)}", []byte{1, 2, 3}), place{1, 0, 64}, "truncated"},
		{"npy f8 beyond float32", "x", npyFile(1, "{'descr':'<f8','fortran_order':False,'shape':(1,1)}", le(1e300)), place{0, 0, 61}, "not finite"},
		{"npy i8 inexact", "x", npyFile(1, "{'descr':'<i8','fortran_order':False,'shape':(1,1)}", le(int64(math.MaxInt64))), place{0, 0, 61}, "exactly"},
	}
	for _, tt := range tests {
		t.Run(tt.test, func(t *testing.T) {
			_, err := load(t, tt.name, tt.data, Options{})
			f := wantFormatError(t, err)
			if got := (place{f.Record, f.Line, f.Offset}); got != tt.at {
				t.Errorf("at record, line, offset %v, want %v: %v", got, tt.at, err)
			}
			if !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), tt.name+": ") {
				t.Errorf("%q does not say %q", err, tt.says)
			}
			// The same from a file, where sizes are checked at once.
			r, err := Open(tempFile(t, tt.name, tt.data), Options{})
			if err == nil {
				defer r.Close()
				for err == nil {
					err = r.Read(new(Record))
				}
			}
			if f := wantFormatError(t, err); !strings.Contains(f.Path, tt.name) {
				t.Errorf("path %s", f.Path)
			}
		})
	}
}

// Sound content in damaged gzip is found out at the latest at the end.
func TestDamagedGzip(t *testing.T) {
	sound := map[string][]byte{
		"x.idx":   be(uint32(0x0802), uint32(3), uint32(1), []byte{7, 8, 9}),
		"x.fvecs": le(uint32(1), float32(1), uint32(1), float32(2)),
		"x.npy":   npyFile(1, "{'descr':'|u1','fortran_order':False,'shape':(2,2)}", []byte{1, 2, 3, 4}),
		"x.csv":   []byte("1,2\n3,4\n"),
		"x.jsonl": []byte("{\"vector\":[1]}\n"),
	}
	for name, data := range sound {
		z := zipped(t, data)
		if _, err := load(t, name, z, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		flipped := append([]byte(nil), z...)
		flipped[len(z)-5] ^= 1 // in the checksum
		_, err := load(t, name, flipped, Options{})
		wantFormatError(t, err)
		_, err = load(t, name, z[:len(z)-8], Options{})
		if f := wantFormatError(t, err); !errors.Is(f, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
