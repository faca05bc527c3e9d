package labelled

import (
	"fmt"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// TestCalibrate: each live row is scored once, by a model of others, and labels need not have scores.
func TestCalibrate(t *testing.T) {
	b, err := labels.NewBuilder(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &Rows{}
	d.Rows = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range 200 {
		x := vector.Sparse{Index: []uint32{0}, Value: []float32{1}}
		if i%10 == 3 {
			b.Add(nil) // a deleted row
			d.Rows.Append(vector.Sparse{})
			continue
		}
		b.Add([]string{fmt.Sprint(i % 2), "never"}[:1+i%3/2])
		if d.Live = append(d.Live, i); i%4 == 0 { // nothing is known of it, so its labels are not found
			x = vector.Sparse{}
		}
		d.Rows.Append(x)
	}
	d.Sets = b.Matrix()
	var scored []int
	score := func(train []int, rows []vector.Sparse) (*vector.CSR, error) {
		var test []int
		for _, row := range d.Live {
			if !slices.Contains(train, row) {
				test = append(test, row)
			}
		}
		scored = append(scored, test...)
		if both := len(train) + len(rows); both != len(d.Live) {
			t.Errorf("%d rows for training, %d tested", len(train), len(rows))
		}
		out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		for _, row := range test {
			out.Append(vector.Sparse{Index: []uint32{d.Sets.Row(row)[0]}, Value: []float32{0.7}})
		}
		return out, nil
	}
	timer := &kind.Timer{Seconds: map[string]float64{}}
	c, err := d.Calibrate(timer, 1, labels.CalibrateOptions{}, 0, score)
	slices.Sort(scored)
	if err != nil || c == nil || !slices.Equal(scored, d.Live) || c.Rows != len(d.Live) ||
		c.Probability(0.7, 100) != 1 {
		t.Errorf("%+v of rows %v, %v", c, scored, err)
	}
	if reach := len(c.Recall); reach < 55 || reach > 65 {
		t.Errorf("a recall of %d hundredths can be reached", reach)
	}
	none := func([]int, []vector.Sparse) (*vector.CSR, error) {
		return nil, fmt.Errorf("one class: %w", ErrUntrainable)
	}
	if c, err := d.Calibrate(timer, 1, labels.CalibrateOptions{}, 0, none); c != nil || err != nil {
		t.Errorf("%+v, %v of models that cannot be learned", c, err)
	}
	d.Live = d.Live[:labels.LeastCalibrationRows-1]
	if c, err := d.Calibrate(timer, 1, labels.CalibrateOptions{}, 0, none); c != nil || err != nil {
		t.Errorf("%+v, %v by few rows", c, err)
	}
}

// A row that is scored lacks the features that no row of the model has, as a query with new words does, and
// its others are as long as all were. Features before the first one stay.
func TestCalibrateScoresNewRows(t *testing.T) {
	sets := make([][]uint32, 60)
	d := &Rows{}
	d.Rows = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range sets {
		sets[i], d.Live = []uint32{0}, append(d.Live, i)
		of := []uint32{0, 1 + uint32(i)%2, 3 + uint32(i)}
		d.Rows.Append(vector.Sparse{Index: of, Value: []float32{0.5, 1e-40, 1}})
	}
	d.Rows.Cols = 3 + len(sets)
	var err error
	if d.Sets, err = labels.FromSets(sets, 1); err != nil {
		t.Fatal(err)
	}
	for first, want := range map[int][]float32{1: {0.5, 1}, d.Rows.Cols: {0.5, 1e-40, 1}} {
		score := func(_ []int, test []vector.Sparse) (*vector.CSR, error) {
			out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
			for _, x := range test {
				if !slices.EqualFunc(x.Value, want, func(a, b float32) bool { return max(a-b, b-a) < 1e-6 }) {
					t.Fatalf("features from %d on: %v, want values %v", first, x, want)
				}
				out.Append(vector.Sparse{Index: []uint32{0}, Value: []float32{1}})
			}
			return out, nil
		}
		timer := &kind.Timer{Seconds: map[string]float64{}}
		if c, err := d.Calibrate(timer, 1, labels.CalibrateOptions{}, first, score); c == nil || err != nil {
			t.Errorf("%v, %v", c, err)
		}
	}
}
