package postings

import (
	"context"
	"math"

	"github.com/anndb/anndb/vector"
)

// Weighted is the compact structure for matrices in general. A value is stored in 8 bits:
// Code²·step of its feature, rounded up, so that estimates are upper bounds. Squares give more
// codes to the many low values of a feature than to the few high ones. Rare features have
// lists. Frequent ones have a column with a cell for every row, zero where the row lacks the
// feature.
type Weighted struct {
	Blocks
	Columns
	// Cells has column c at Cells[c*Stride:(c+1)*Stride]: first the features' columns, then one
	// of rounding errors, then one for each band.
	Cells  []uint8
	Stride int // rows, rounded up to a multiple of columnRows
	// Scale gives the step of a feature: Unit·2^(-Scale/8)/255².
	Scale []uint8
	Unit  float64
	// Residual bounds the rounding errors of codes: the length of the vector of the amounts by
	// which a row's codes are below its values is at most the square of the row's byte in the
	// column of errors, times Residual/255². Build leaves no such errors; older files have
	// codes rounded to nearest.
	Residual float64
	// Bands divide the features that have columns by frequency. The length of a row's part in
	// band b is at most the square of its byte in the band's column, times Bands[b]/255².
	Bands [bandCount]float64
	// BandOf is the band of a column.
	BandOf []uint8
}

const (
	// bandCount is the number of bands, the most frequent features first: features of at least
	// half of the rows, of a quarter, and so on; the last band has the rest.
	bandCount = 4
	// columnRows is the number of rows that the column kernel adds at once.
	columnRows = 64
	// columnShare is the density from which adding a column is faster than
	// scattering a list.
	columnShare = 1.0 / 20
	// compactBytes is the maximum mean size of a posting in bytes.
	compactBytes = 4.7
	// listBytes is the size of a posting in a list.
	listBytes = 3
	// fuzz is the relative amount by which a code may be below its value without counting as an
	// error: floating-point error. Searches allow one unit for it.
	fuzz = 1e-9
)

func (w *Weighted) step(j uint32) float64 { return w.Unit * steps[w.Scale[j]] }

// steps[s] is the step of scale s, for a unit of one.
var steps = func() (t [256]float64) {
	for s := range t {
		t[s] = math.Exp2(-float64(s)/8) / (255 * 255)
	}
	return t
}()

func buildWeighted(ctx context.Context, rows, byFeature *vector.CSR, unit float64) (*Weighted, error) {
	n := rows.Rows()
	w := &Weighted{Stride: roundUp(n, columnRows), Scale: make([]uint8, rows.Cols), Unit: unit}
	length := lengths(byFeature)
	atLeast := columnThreshold(length, n, columnShare, columnSizes{
		column: w.Stride, fixed: 5*rows.Cols + (1+bandCount)*w.Stride + storedBytes(rows),
		entry: listBytes, allowed: compactBytes,
	})
	columns := 0
	w.Columns, columns = makeColumns(rows.Cols, func(j int) bool { return length[j] >= atLeast })
	w.Cells = make([]uint8, (columns+1+bandCount)*w.Stride)
	w.BandOf = make([]uint8, columns)
	residual := make([]float64, n) // squared lengths of rounding errors
	var parts [bandCount][]float64 // squared lengths of rows in bands
	for b := range parts {
		parts[b] = make([]float64, n)
	}
	wide := n > windowRows
	var list []Posting
	for j := range rows.Cols {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		list = appendColumn(list[:0], byFeature, j)
		var most float64
		for _, e := range list {
			most = max(most, float64(e.Value))
		}
		w.Scale[j] = scaleOf(most, w.Unit)
		step := w.step(uint32(j))
		w.begin(wide)
		column, dense := w.find(uint32(j))
		band := bandOf(length[j], n)
		if dense {
			w.BandOf[column] = uint8(band)
		}
		part := parts[band]
		for _, e := range list {
			code := codeOf(float64(e.Value) / step)
			if short := float64(e.Value) - code*code*step; short > fuzz*float64(e.Value) {
				residual[e.Row] += short * short
			}
			if dense {
				part[e.Row] += float64(e.Value) * float64(e.Value)
				w.Cells[column*w.Stride+int(e.Row)] = uint8(code)
				continue
			}
			w.add(e.Row, wide)
			w.Code = append(w.Code, uint8(code))
		}
	}
	w.end(wide)
	w.Residual = w.putLengths(columns, residual)
	for b, part := range parts {
		w.Bands[b] = w.putLengths(columns+1+b, part)
	}
	return w, nil
}

// putLengths fills a column with codes of the roots of squares, rounded up, and returns the
// highest root.
func (w *Weighted) putLengths(column int, squares []float64) (most float64) {
	for _, x := range squares {
		most = max(most, up(math.Sqrt(x)))
	}
	if most == 0 {
		return 0
	}
	cells := w.Cells[column*w.Stride:]
	for i, x := range squares {
		cells[i] = uint8(min(255, math.Ceil(255*math.Sqrt(up(math.Sqrt(x))/most))))
	}
	return most
}

// bandOf returns the band of a feature that n of all rows have.
func bandOf(n uint32, rows int) int {
	b := 0
	for b < bandCount-1 && int(n) < rows>>(b+1) {
		b++
	}
	return b
}

// codeOf returns the smallest code whose square is at least x, up to rounding.
func codeOf(x float64) float64 { return min(math.Ceil(math.Sqrt(x)*(1-1e-12)), 255) }

// scaleOf returns the largest scale whose range, a part of unit, still includes most, the
// highest value of a feature.
func scaleOf(most, unit float64) uint8 {
	if most == 0 {
		return 0
	}
	// The margin prevents rounding in Log2 and Exp2 from putting the value above the range.
	return uint8(min(max(math.Floor(-8*math.Log2(most/unit)-1e-9), 0), 255))
}

// mark sets the bits of the rows that have a feature, or of all rows if the feature has a
// column, where values may have been rounded to zero.
func (w *Weighted) mark(j uint32, union []uint64) (postings, bytes int) {
	if _, ok := w.find(j); ok {
		for i := range union {
			union[i] = ^uint64(0)
		}
		return 0, 0
	}
	n := w.rows(j, w.Stride > windowRows, func(row uint32) { union[row/64] |= 1 << (row % 64) })
	return n, 2 * n
}
