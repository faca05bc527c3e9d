package dataset

import (
	"bytes"
	"errors"
	"testing"
)

// fuzzSparse is fuzzDecoder for sparse records.
func fuzzSparse(f *testing.F, format string, seeds ...string) {
	var list [][]byte
	for _, s := range seeds {
		list = append(list, []byte(s))
	}
	fuzzDecoder(f, Options{Format: format, Kind: Sparse}, list...)
}

const (
	seedLibsvm      = "+1,b 1:0.5 7:-2e3 # note\n\n3:1 2:0\n-1\n"
	seedXMC         = "3 8 4\n0,3 1:0.5 7:2\n 2:1\n\n"
	seedParts       = "3 5\n0:1 4:2\n\n2:1\n"
	seedARFF        = "% c\n@relation 'x: -C 1'\n@attribute 'it\\'s' {0,1}\n@attribute f real\n@attribute c {r,'g h'}\n@data\n{0 1,2 'g h'}\n1,-2.5,r\n"
	seedIris        = "@relation iris\n@attribute petal real\n@attribute class {setosa,'virgi nica'}\n@data\n1.5,setosa\n2,?\n{0 3}\n{1 'virgi nica'}\n"
	seedWeka        = "@relation w\n@attribute a numeric\n@attribute b {p,'q r'}\n@data\n1\t'q r',\n? p % c\n{0 ?,1 ?,}\n{0\t2 1 p}\n"
	seedSparseJSONL = "{\"key\":\"a\",\"features\":{\"x\":1,\"y\":0.5},\"labels\":[\"l\"],\"payload\":\"p\"}\n{\"key_base64\":\"/w==\",\"features\":{}}\n"
	seedNumbered    = "{\"features\":{\"indices\":[3,1],\"values\":[1,2]}}\n{\"features\":{\"indices\":[1,3],\"values\":[2,4]}}\n"
)

func FuzzLibsvm(f *testing.F) {
	fuzzSparse(f, FormatLibsvm, seedLibsvm, "1 0:1\n", "3 qid:1 1:1\n2 qid:10 1:0.2 # doc\n")
}
func FuzzXMC(f *testing.F)         { fuzzSparse(f, FormatXMC, seedXMC, seedParts) }
func FuzzARFF(f *testing.F)        { fuzzSparse(f, FormatARFF, seedARFF, seedIris, seedWeka) }
func FuzzSparseJSONL(f *testing.F) { fuzzSparse(f, FormatJSONL, seedSparseJSONL, seedNumbered) }

func FuzzSparseDetect(f *testing.F) {
	fuzzSparse(f, "", seedLibsvm, seedXMC, seedARFF, seedSparseJSONL, string(zipped(f, []byte(seedXMC))))
}

// FuzzLabelsXML feeds bytes to the reader of Mulan's label files; names that it
// gives must be writable and come back.
func FuzzLabelsXML(f *testing.F) {
	f.Add([]byte("<?xml version=\"1.0\"?><labels><label name=\"a&amp;\"><label name=\"b\"/></label></labels>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := newSource(t.Context(), "x", bytes.NewReader(data), -1)
		if err != nil {
			return
		}
		names, err := parseLabelsXML(s)
		var fe *FormatError
		if err != nil && !errors.As(err, &fe) {
			t.Fatalf("not a FormatError: %v", err)
		}
		if _, twice := repeated(names); twice {
			t.Fatalf("names %q", names)
		}
	})
}
