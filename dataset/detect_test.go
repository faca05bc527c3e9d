package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsOfTheirFormat: what is damaged or out of range is reported as such.
func TestFaultsOfTheirFormat(t *testing.T) {
	arff := zipped(t, []byte("@relation 'x: -C 0'\n@attribute f real\n@data\n"+strings.Repeat("1\n2\n3\n", 9000)))
	for _, tt := range []struct {
		data   []byte
		format string
		says   string
	}{
		{arff[:len(arff)-20], FormatARFF, "truncated"},
		{[]byte("1 1:1\n2 5:1 " + strings.Repeat(" ", bufferSize) + "0:1\n"), FormatLibsvm, "the base must be given as 0"},
	} {
		_, err := load(t, "data", tt.data, Options{})
		if f := wantFormatError(t, err); f.Format != tt.format || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%.20q: %s, %v; want %s", tt.data, f.Format, err, tt.says)
		}
	}
}

// Brackets that are not closed, and separators in the names of columns, do not change what parts the cells.
func TestSeparatorsInNames(t *testing.T) {
	for name, text := range map[string]string{
		"bracket":   "key,v0,v1,\"\t.:string\",[.:string\na,1,2,x,y\nb,3,4,\t,\n",
		"quoted":    "key,v0,v1,a[:string,]b:string\na,1,2,x,]\nb,3,4,[,\n",
		"one value": "key,v0,v1,[c]:string\na,1,2,[x\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.csv")
			must(t, os.WriteFile(path, []byte(text), 0o600))
			r, err := Open(path, Options{})
			must(t, err)
			defer r.Close()
			got, err := readAll(t, r)
			must(t, err)
			for _, rec := range got {
				if len(rec.Vector) != 2 {
					t.Errorf("%+v: want two values and other columns", rec)
				}
			}
		})
	}
}
