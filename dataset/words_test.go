package dataset

import (
	"fmt"
	"strings"
	"testing"
)

// TestLongWords detects word vectors whose lines are longer than what detection looks at.
func TestLongWords(t *testing.T) {
	long := strings.Repeat(" 0.123456", 1000)
	got := mustLoad(t, "x.txt", fmt.Appendf(nil, "2 1000\na%s\nb%s\n", long, long), Options{})
	if got2 := mustLoad(t, "x.txt", fmt.Appendf(nil, "a%s\nb%s\n", long, long), Options{}); len(got) != 2 || len(got2) != 2 {
		t.Errorf("%d and %d rows", len(got), len(got2))
	}
}
