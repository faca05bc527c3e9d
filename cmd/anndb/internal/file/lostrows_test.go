package file

import (
	"fmt"
	"testing"

	"github.com/anndb/anndb/db/rescue"
)

func TestLostRowsAreGrouped(t *testing.T) {
	l := new(lostRows)
	for _, r := range []struct {
		row    uint32
		rows   int
		reason string
	}{
		{0, 256, "keys chunk 0: missing"},
		{256, 1, "cold chunk 256: missing"},
		{257, 1, "cold chunk 257: missing"}, // of the end of a file
		{258, 1, "cold chunk 258: missing"},
		{300, 1, "cold chunk 300: missing"},
		{400, 1, "cold chunk 300: missing"}, // the same chunk
	} {
		l.add(rescue.LostRow{Collection: "c", Row: r.row, Rows: r.rows, Err: fmt.Errorf("%s", r.reason)})
	}
	var got []int
	for _, run := range l.runs {
		got = append(got, int(run.row), run.rows)
	}
	if fmt.Sprint(got) != "[0 256 256 3 300 2]" {
		t.Errorf("rows and counts %v", got)
	}
}
