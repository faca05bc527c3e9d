package recall

import "testing"

func TestTruth(t *testing.T) {
	tr := new(Truth)
	tr.Add([]uint32{9, 2}, 1.5)
	for _, c := range []struct {
		row  uint32
		d    float32
		want bool
	}{
		{9, 1.5, true},
		{2, 99, true}, // the row counts whatever another kernel's rounding says
		{7, 1.5, true},
		{7, 1.6, false},
	} {
		if got := tr.Right(0, c.row, c.d); got != c.want {
			t.Errorf("row %d at %g: %v", c.row, c.d, got)
		}
	}
	if tr.Recall(1) != 0.5 || new(Truth).Recall(0) != 0 {
		t.Error("recall")
	}
}
