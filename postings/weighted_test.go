package postings

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// decoded is the matrix that the codes of a Weighted stand for, dense.
func decoded(ix *Index) [][]float64 {
	w, n := ix.Weighted, ix.Rows.Rows()
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, ix.Rows.Cols)
	}
	for j := range uint32(ix.Rows.Cols) {
		value := func(row int, code uint8) {
			m[row][j] = float64(code) * float64(code) * w.step(j)
		}
		if column, ok := w.find(j); ok {
			for i := range n {
				value(i, w.Cells[column*w.Stride+i])
			}
			continue
		}
		sp := w.span(j)
		for win := 0; win < n; win += windowRows {
			e := w.next(&sp, win/windowRows, n > windowRows)
			for at := e.lo; at < e.hi; at++ {
				value(win+int(w.Low[at]), w.Code[at])
			}
		}
	}
	return m
}

func TestCodesAreUpperBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		value := rapid.SampledFrom([]func() float32{
			r.Float32,
			func() float32 { return float32(math.Exp(5 * r.NormFloat64())) },
			func() float32 { return float32(r.ExpFloat64()) * 1e-44 },
		}).Draw(t, "value")
		rows := drawRows(r, rapid.IntRange(1, 300).Draw(t, "rows"), 40, 0.1, value)
		for i := range rows.Value {
			rows.Value[i] += value()
		}
		ix := build(t, rows, 0)[0]
		if ix.Weighted == nil {
			return // all values are equal
		}
		if ix.Weighted.Residual != 0 {
			t.Fatalf("codes fall short by %g", ix.Weighted.Residual)
		}
		for i, d := range decoded(ix) {
			row := rows.Row(i)
			for e, j := range row.Index {
				if v := float64(row.Value[e]); d[j] < v*(1-1e-9) {
					t.Fatalf("row %d, feature %d: %g stands for %g", i, j, d[j], v)
				}
			}
		}
	})
}

// roundToNearest gives an index the codes and the column of errors that files
// of old have.
func roundToNearest(ix *Index) {
	w, n := ix.Weighted, ix.Rows.Rows()
	squares := make([]float64, n)
	code := func(row int, j uint32, c *uint8) {
		r := ix.Rows.Row(row)
		var v float64
		for e, f := range r.Index {
			if f == j {
				v = float64(r.Value[e])
			}
		}
		x := v / w.step(j)
		low := min(math.Floor(math.Sqrt(x)), 255)
		if low < 255 && (low+1)*(low+1)-x < x-low*low {
			low++
		}
		off := v - low*low*w.step(j)
		squares[row] += off * off
		*c = uint8(low)
	}
	columns := len(w.BandOf)
	for j := range uint32(ix.Rows.Cols) {
		if column, ok := w.find(j); ok {
			for i := range n {
				code(i, j, &w.Cells[column*w.Stride+i])
			}
			continue
		}
		sp := w.span(j)
		for at := sp.lo; at < sp.hi; at++ {
			code(int(w.Low[at]), j, &w.Code[at])
		}
	}
	w.Residual = w.putLengths(columns, squares)
}

func TestFilesOfOldRoundToNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	s := NewSearcher()
	rows := drawRows(r, 3000, 300, 0.06, func() float32 { return float32(r.ExpFloat64() * r.ExpFloat64()) })
	all := build(t, rows, 5)
	roundToNearest(all[0])
	if all[0].Weighted.Residual == 0 {
		t.Fatal("no errors of rounding")
	}
	must(t, all[0].Validate())
	for range 10 {
		q := unit(drawRow(r, 300, 0.06, func() float32 { return float32(r.ExpFloat64()) }))
		checkSearch(t, s, all, q, 30, SearchParams{})
	}
}
