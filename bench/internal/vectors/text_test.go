package vectors

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/bench/internal/lsa"
)

// TestTerms checks the weights of two documents against those computed by hand.
func TestTerms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docs.txt")
	// The third document has only a term that is left out, the second a term of all documents.
	text := "3 9 1\n0 0:1 1:3\n0 0:2 2:1\n0 0:1 8:5\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &lsa.Matrix{Cols: 5, Ptr: []int{0}}
	if err := readTerms(m, path, 0); err != nil {
		t.Fatal(err)
	}
	if m.Rows != 3 || len(m.Idx) != 5 {
		t.Fatalf("%d rows, %d entries", m.Rows, len(m.Idx))
	}
	m.Weigh()
	for i, want := range []float64{0, 1, 0, 1, 0} { // a term of all documents weighs nothing
		if math.Abs(m.Val[i]-want) > 1e-12 {
			t.Errorf("entry %d: %g, want %g", i, m.Val[i], want)
		}
	}
}
