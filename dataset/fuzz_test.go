package dataset

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// fuzzDecoder feeds bytes to the decoder of one format, or to detection when
// o.Format is "". Nothing may panic; every error must be a FormatError; what was
// read must be writable as jsonl and come back the same. readAll checks
// dimensions, order, limits, finite values and the number of records.
func fuzzDecoder(f *testing.F, o Options, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
		f.Add(s[:len(s)/2])
	}
	// A small MaxDim keeps an input of a few bytes from asking for
	// megabytes over and over.
	o.MaxDim = 4096
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := load(t, "x", data, o)
		var fe *FormatError
		if err != nil && !errors.As(err, &fe) {
			t.Fatalf("not a FormatError: %v", err)
		}
		rejecting(t, data, o, err, len(all))
		if len(all) == 0 {
			return
		}
		enc := jsonlEncoder{kind: Dense}
		switch {
		case slices.ContainsFunc(all, func(r Record) bool { return r.Text != "" }):
			enc.kind = Text
		case len(all[0].Vector) == 0:
			enc.kind = Sparse
		}
		var text []byte
		for i := range all {
			if text, err = enc.encode(text, &all[i]); err != nil {
				return // a label that is not UTF-8
			}
		}
		again, err := load(t, "x", text, Options{Format: FormatJSONL, MaxDim: 4096})
		must(t, err)
		must(t, same(all, again))
		if enc.kind != Sparse {
			throughCSV(t, all, enc.kind)
		}
	})
}

// rejecting reads data again without the records that cannot be read: all those that can are given, and
// what ended the first reading is rejected if it is the fault of a record.
func rejecting(t *testing.T, data []byte, o Options, failure error, n int) {
	rejected := 0
	o.Reject = func(*FormatError) error {
		if rejected++; rejected > 1000 {
			return errors.New("enough")
		}
		return nil
	}
	all := 0
	r, err := NewReader("x", bytes.NewReader(data), o)
	if err == nil {
		defer r.Close()
		for rec, err := range All(r) {
			if err != nil {
				break
			}
			checkValues(t, r.Schema(), rec)
			all++
		}
	}
	if all < n || skippable(failure) != (rejected > 0) {
		t.Fatalf("%d records and %d rejected, %d before the error %v", all, rejected, n, failure)
	}
}

// throughCSV checks that records which a csv file can hold come back the same.
func throughCSV(t *testing.T, all []Record, kind Kind) {
	s := Schema{Format: FormatCSV, Kind: kind, Dim: len(all[0].Vector)}
	s.Attributes, s.Expires = columnsOf(all)
	if checkAttributes(s.Attributes) != nil {
		return
	}
	enc, err := newDelimitedEncoder(s)
	must(t, err)
	text, _ := enc.header(0)
	for i := range all {
		if text, err = enc.encode(text, &all[i]); err != nil {
			return
		}
	}
	again, err := load(t, "x", text, Options{Format: FormatCSV, Kind: kind, MaxDim: 4096})
	must(t, err)
	must(t, same(all, again))
}

var (
	seedIDX   = be(uint32(0x0d02), uint32(2), uint32(2), []float32{1, 2, 3, 4})
	seedNPY   = npyFile(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }\n", le([]int64{1, 2, 3, -4}))
	seedFvecs = le(uint32(2), []float32{1, 2}, uint32(2), []float32{3, 4})
	seedFbin  = le(uint32(2), uint32(2), []float32{1, 2, 3, 4})
	// NumPy writes the transpose of an array so.
	seedColumns = npyFile(1, "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }\n", le([]uint16{0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600}))
	seedBvecs   = []byte{2, 0, 0, 0, 7, 8, 2, 0, 0, 0, 9, 10}
	seedCSV     = []byte("key,v0,v1,labels,payload\nk,1,2.5,a|b,\"p\"\"\n\"\nl,3,-4e2,,\n")
	seedTyped   = []byte("key,v,size:int,seen:time,on:bool,w:float,s:string,expires\n" +
		"a,1,-7,2026-01-02T03:04:05.000000006Z,true,3,x y,2027-01-01\nb,2,,,,,,\n")
	seedAttributes = []byte(`{"key":"a","vector":[1],"attributes":{"i":9223372036854775807,"f":3.0,"on":true,` +
		`"at":{"$time":"2026-01-02T03:04:05.6+01:00"},"inf":{"$float":"-Inf"},"none":null},"expires":"2027-01-01"}` + "\n")
	seedTexts     = "id,text,year:int,labels\na,\"Flush, \"\"now\"\"\n\",1990,x|y\nb,é,,\n"
	seedTextJSONL = `{"key":"a","text":"Flush \\n\\u00e9","labels":["x"]}` + "\n" + `{"key":"b","text":null}` + "\n"

	seedWords = "3 2\nthe 0.1 0.2 \n\" 1 2\na b\t-1e3 4 \n"
	seedGloVe = ", 0.1 0.2\n. . 3 4\r\n"
	seedJSONL = []byte("{\"key\":\"a\",\"vector\":[1,2],\"labels\":[\"x\"],\"payload\":{}}\n\n{\"key_base64\":\"/w==\",\"vector\":[3,4]}\n")
)

func FuzzIDX(f *testing.F)   { fuzzDecoder(f, Options{Format: FormatIDX}, seedIDX) }
func FuzzNPY(f *testing.F)   { fuzzDecoder(f, Options{Format: FormatNPY}, seedNPY, npyBool, npyStruct) }
func FuzzFvecs(f *testing.F) { fuzzDecoder(f, Options{Format: FormatFvecs}, seedFvecs) }
func FuzzFbin(f *testing.F)  { fuzzDecoder(f, Options{Format: FormatFbin}, seedFbin) }
func FuzzI8bin(f *testing.F) { fuzzDecoder(f, Options{Format: FormatI8bin}, seedFbin) }
func FuzzNPZ(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatNPZ}, npzOf(f, 0, seedNPY), npzOf(f, 8, seedNPY, seedColumns),
		archive(f, "names", npyText1, "emb", seedNPY, "structs", npyStruct))
}
func FuzzBvecs(f *testing.F) { fuzzDecoder(f, Options{Format: FormatBvecs}, seedBvecs) }
func FuzzIvecs(f *testing.F) { fuzzDecoder(f, Options{Format: FormatIvecs}, seedFvecs) }
func FuzzCSV(f *testing.F)   { fuzzDecoder(f, Options{Format: FormatCSV}, seedCSV, seedTyped) }
func FuzzWords(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatWords}, []byte(seedWords), []byte(seedGloVe))
}
func FuzzTSV(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatTSV}, bytes.ReplaceAll(seedCSV, []byte(","), []byte("\t")))
}
func FuzzJSONL(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatJSONL}, seedJSONL, seedAttributes, []byte(seedTextJSONL))
}

// FuzzTexts feeds bytes to detection among the formats of texts.
func FuzzTexts(f *testing.F) {
	fuzzDecoder(f, Options{Kind: Text}, []byte(seedTexts), []byte(seedTextJSONL), []byte("a text\r\n\nanother \xff"))
}

// FuzzTextColumns feeds bytes to the decoder of csv files with a column of texts.
func FuzzTextColumns(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatCSV, Kind: Text}, []byte(seedTexts), []byte("one\n\"two\nlines\"\n"))
}

// FuzzInferred feeds bytes to the decoder of csv files with columns of attributes that have no types.
func FuzzInferred(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatCSV, Header: HeaderPresent, Attributes: []Attribute{{Name: "a"}, {Name: "b"}}},
		[]byte("v,a,b,expires\n1,007,2026-01-02,\n2,.5,true,2027-01-01T10:00\n3,-0,1e400,\n4,text,,\n"))
}

// FuzzFields feeds bytes to the decoder of jsonl files with fields that are attributes.
func FuzzFields(f *testing.F) {
	o := Options{Format: FormatJSONL, ExpiryColumn: "until"}
	for typ := AnyType; typ <= TimeType; typ++ {
		o.Attributes = append(o.Attributes, Attribute{typ.String(), typ})
	}
	fuzzDecoder(f, o, []byte(`{"vector":[1],"any":1,"string":"x","int":-5,"float":18446744073709551616,"bool":false,`+
		`"time":"2026-01-02T03:04Z","until":{"$time":"2027-01-01"},"attributes":{"a":"b"}}`+"\n"))
}

func FuzzDetect(f *testing.F) {
	fuzzDecoder(f, Options{}, seedIDX, seedNPY, seedFvecs, seedCSV, seedTyped, seedJSONL, zipped(f, seedIDX), zipped(f, seedCSV), seedColumns, npzOf(f, 0, seedNPY),
		[]byte(seedWords), []byte(seedGloVe), []byte(seedLibsvm), []byte(seedXMC), []byte(seedARFF), []byte(seedSparseJSONL))
}

// FuzzLabels feeds bytes to the reader of label files.
func FuzzLabels(f *testing.F) {
	f.Add(be(uint32(0x0801), uint32(3), []uint8{1, 2, 3}))
	f.Add(be(uint32(0x0c01), uint32(2), []int32{1, -2}))
	f.Add([]byte("3 4\n0:1 1:1\n\n3:1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := newSource(t.Context(), "x", bytes.NewReader(data), -1)
		if err != nil {
			return
		}
		l, err := openLabels(s, Options{MaxDim: 4096})
		for n := int64(0); err == nil; n++ {
			if n > int64(len(data))*1032 { // gzip cannot hold more
				t.Fatal("more labels than bytes")
			}
			var rec Record
			err = l.next(&rec, n)
		}
	})
}
