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
		{"npz cut", "x.npz", []byte("PK\x03\x04 and no more"), header(0), "zip"},
		{"npy u8 inexact", "x", npyFile(1, "{'descr':'<u8','fortran_order':False,'shape':(1,1)}", le(uint64(1<<63+1))), place{0, 0, 61}, "exactly"},
		{"npy f2 infinite", "x", npyFile(1, "{'descr':'<f2','fortran_order':False,'shape':(1,1)}", le(uint16(0x7c00))), place{0, 0, 61}, "not finite"},

		{"npy magic", "a.npy", []byte("\x93NUMPX\x01\x00 ........"), header(0), "wrong magic"},
		{"npy html", "a.npy", []byte("<!DOCTYPE html>"), header(0), "wrong magic"},
		{"npy cut", "a.npy", []byte("\x93NUMPY\x01"), header(7), "truncated"},
		{"npy version", "x", npyFile(4, "{}", nil), header(6), "version 4"},
		{"npy huge header", "x", le([]byte("\x93NUMPY\x02\x00"), uint32(math.MaxUint32)), header(8), "header of"},
		{"npy cut header", "x", le([]byte("\x93NUMPY\x01\x00"), uint16(500), []byte("{'descr'")), header(18), "truncated"},
		{"npy garbage", "x", npyFile(1, "import os", nil), header(10), "want"},
		{"npy unclosed", "x", npyFile(1, "{'descr': '<f4", nil), header(10), "string"},
		{"npy missing key", "x", npyFile(1, "{'descr': '<f4'}", nil), header(10), "missing"},
		{"npy key twice", "x", npyFile(1, "{'descr': '<f4', 'descr': '<f4'}", nil), header(10), "twice"},
		{"npy unknown key", "x", npyFile(1, "{'desc': '<f4'}", nil), header(10), "unknown key"},
		{"npy tail", "x", npyFile(1, dict("'<f4'", "False", "(1, 1)")+"x", make([]byte, 4)), header(10), "after the dictionary"},
		{"npy record type", "x", npy("[('a', '<f4')]", "(1, 1)"), header(10), "string"},
		{"npy type", "x", npy("'<c8'", "(1, 1)"), header(10), "number type"},
		{"npy no order", "x", npy("'|f4'", "(1, 1)"), header(10), "number type"},
		{"npy Fortran", "x", npyFile(1, dict("'<f4'", "True", "(2, 1, 2)"), make([]byte, 16)), header(10), "Fortran"},
		{"npy flat", "x", npy("'<f4'", "(4,)"), header(10), "1 dimensions"},
		{"npy scalar", "x", npy("'<f4'", "()"), header(10), "0 dimensions"},
		{"npy negative", "x", npy("'<f4'", "(-1, 4)"), header(10), "size"},
		{"npy overflow", "x", npy("'<f4'", "(1, 99999999999999999999)"), header(10), "size"},
		{"npy huge rows", "x", npy("'<f4'", "(18446744073709551615, 4)"), header(10), "records"},
		{"npy huge file", "x", npy("'<f4'", "(9223372036854775807, 4)"), header(0), "promises"},
		{"npy huge dim", "x", npy("'<f4'", "(1, 1073741824, 1073741824, 1073741824)"), header(10), "more than"},
		{"npy dim 0", "x", npy("'<f4'", "(3, 0)"), header(10), "empty"},
		{"npy cut body", "x", npyFile(1, "{'descr':'|u1','fortran_order':False,'shape':(2,2)}", []byte{1, 2, 3}), place{1, 0, 64}, "truncated"},
		{"npy f8 beyond float32", "x", npyFile(1, "{'descr':'<f8','fortran_order':False,'shape':(1,1)}", le(1e300)), place{0, 0, 61}, "not finite"},
		{"npy i8 inexact", "x", npyFile(1, "{'descr':'<i8','fortran_order':False,'shape':(1,1)}", le(int64(math.MaxInt64))), place{0, 0, 61}, "exactly"},

		{"csv empty", "a.csv", []byte("\n\n"), place{-1, 1, -1}, "empty"},
		{"csv ragged", "a.csv", []byte("1,2\n3,4\n5\n"), place{2, 3, -1}, "1 fields, the lines before have 2"},
		{"csv ragged second", "a.csv", []byte("1,2\n\n3,4,5\n"), place{1, 3, -1}, "3 fields"},
		{"csv text", "a.csv", []byte("a,b\n1,2\n3,four\n"), place{1, 3, -1}, `column 2 ("b"): "four" is not a number`},
		{"csv NaN", "a.csv", []byte("1,2\n3,NaN\n"), place{1, 2, -1}, "not finite"},
		{"csv inf", "a.tsv", []byte("1\t-inf\n"), place{0, 1, -1}, "not finite"},
		{"csv out of range", "a.csv", []byte("1,1e39\n"), place{0, 1, -1}, "range of float32"},
		{"csv empty cell", "a.csv", []byte("1,2\n1,\n"), place{1, 2, -1}, "not a number"},
		{"csv empty key", "a.csv", []byte("key,v\na,1\n,2\n"), place{1, 3, -1}, "empty key"},
		{"csv quote", "a.csv", []byte("1,2\n3,\"4\n"), place{1, 2, -1}, "quote"},
		{"csv bare quote", "a.csv", []byte("1,2\n3,4\"\n"), place{1, 2, -1}, "quote"},
		{"csv only keys", "a.csv", []byte("key,label\na,b\n"), place{-1, 1, -1}, "0 columns"},
		{"csv prose", "x", []byte("Dear reader,\nthis is no table.\n"), place{0, 1, -1}, "not a number"},

		{"jsonl empty", "a.jsonl", []byte("\n \n"), place{-1, 3, -1}, "empty"},
		{"jsonl syntax", "a.jsonl", []byte("{\"vector\":[1]}\n{\"vector\":[1,]}\n"), place{1, 2, -1}, "byte 14"},
		{"jsonl NaN", "a.jsonl", []byte("{\"vector\":[NaN]}"), place{0, 1, -1}, "invalid character"},
		{"jsonl cut", "a.jsonl", []byte("{\"vector\":[1]}\n\n{\"vector\":[1"), place{1, 3, -1}, "unexpected end"},
		{"jsonl two objects", "a.jsonl", []byte("{\"vector\":[1]}{\"vector\":[2]}"), place{0, 1, -1}, "invalid character"},
		{"jsonl array", "a.jsonl", []byte("[1,2]"), place{0, 1, -1}, "not a JSON object"},
		{"jsonl array of objects", "a.json", []byte("[{\"vector\":[1]},{\"vector\":[2]}]"), place{0, 1, -1}, "jq -c '.[]'"},
		{"jsonl array of lines", "x", []byte("[\n  {\n \"vector\":[1]}]\n"), place{0, 1, -1}, "an array, not a JSON object"},
		{"jsonl lines", "x", []byte("{\n  \"vector\":[1]\n}\n"), place{0, 1, -1}, "jq -c ."},
		{"jsonl id and key", "a.jsonl", []byte(`{"key":"a","id":"b","vector":[1]}`), place{0, 1, -1}, `unknown field "id"`},
		{"jsonl id gone", "a.jsonl", []byte("{\"id\":\"a\",\"vector\":[1]}\n{\"vector\":[1]}"), place{1, 2, -1}, `field "id": either all`},
		{"jsonl null", "a.jsonl", []byte("null"), place{0, 1, -1}, "not a JSON object"},
		{"jsonl ragged", "a.jsonl", []byte("{\"vector\":[1]}\n{\"vector\":[1,2]}"), place{1, 2, -1}, "2 values"},
		{"jsonl no vector", "a.jsonl", []byte(`{"key":"a"}`), place{0, 1, -1}, "missing"},
		{"jsonl empty vector", "a.jsonl", []byte(`{"vector":[]}`), place{0, 1, -1}, "no values"},
		{"jsonl text vector", "a.jsonl", []byte(`{"vector":"1,2"}`), place{0, 1, -1}, "not an array"},
		{"jsonl mixed vector", "a.jsonl", []byte(`{"vector":[1,"2"]}`), place{0, 1, -1}, "value 1"},
		{"jsonl nested vector", "a.jsonl", []byte(`{"vector":[[1]]}`), place{0, 1, -1}, "value 0"},
		{"jsonl range", "a.jsonl", []byte(`{"vector":[1,-1e400]}`), place{0, 1, -1}, "range of float32"},
		{"jsonl key gone", "a.jsonl", []byte("{\"key\":1,\"vector\":[1]}\n{\"vector\":[1]}"), place{1, 2, -1}, "all records have a key or none"},
		{"jsonl key come", "a.jsonl", []byte("{\"vector\":[1]}\n{\"key\":1,\"vector\":[1]}"), place{1, 2, -1}, "all records have a key or none"},
		{"jsonl empty key", "a.jsonl", []byte(`{"key":"","vector":[1]}`), place{0, 1, -1}, "empty key"},
		{"jsonl key type", "a.jsonl", []byte(`{"key":[1],"vector":[1]}`), place{0, 1, -1}, "neither"},
		{"jsonl two keys", "a.jsonl", []byte(`{"key":"a","key_base64":"/w==","vector":[1]}`), place{0, 1, -1}, "both"},
		{"jsonl base64", "a.jsonl", []byte(`{"key":"a","payload_base64":"!","vector":[1]}`), place{0, 1, -1}, "base64"},
		{"jsonl label type", "a.jsonl", []byte(`{"vector":[1],"labels":[true]}`), place{0, 1, -1}, "neither"},
		{"jsonl unknown field", "a.jsonl", []byte(`{"vector":[1],"lables":["a"]}`), place{0, 1, -1}, `unknown field "lables"`},
		{"jsonl not UTF-8", "a.jsonl", []byte("{\"vector\":[1],\"payload\":\"\xff\"}"), place{0, 1, -1}, "UTF-8"},
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

func TestBadColumns(t *testing.T) {
	for _, o := range []Options{
		{KeyColumn: "no"}, {LabelColumns: []string{"no"}}, {PayloadColumn: "no"}, {IgnoreColumns: []string{"no"}},
		{KeyColumn: "0"}, {KeyColumn: "5"}, {KeyColumn: "dup"}, {KeyColumn: "a", PayloadColumn: "a"}, {MaxDim: 1},
	} {
		_, err := load(t, "x.csv", []byte("a,dup,dup\n1,2,3\n"), o)
		if f := wantFormatError(t, err); f.Line != 1 {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
