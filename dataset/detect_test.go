package dataset

import (
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
