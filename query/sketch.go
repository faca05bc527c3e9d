package query

import (
	"encoding/binary"
	"math"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// SketchEncoder writes the sketches of a SketchView: Width-4 rotated
// coordinates divided by Step in int8, then one float32 that stands for the
// rest of the row's squared distance to the rotation's mean.
//
// Two corrections make the estimate ‖c‖² − 2⟨q, c⟩ rank better than with the
// plain squared norm in that place. The norm is that of the rounded
// coordinates, so that rounding c by e shifts an estimate by 2⟨q−c, e⟩, which
// is small for neighbours, not by 2⟨q, e⟩. And the part of the norm outside
// the sketched coordinates counts Rest times only: neighbours resemble each
// other there too, which the estimate cannot see, so that a row far out in
// those coordinates is nearer than its norm says.
type SketchEncoder struct {
	Width int
	Step  float32
	// Rest is the weight of the squared norm outside the sketched coordinates.
	Rest float32
}

// restPairs bounds the rows whose labels FitSketches looks at.
const restPairs = 2000

// FitSketches chooses Step, so that the largest coordinate just fits, and
// Rest. space is the rows in the partition space, rotated their coordinates,
// mean the rotation's, lists the labels of the rows; without lists Rest is 1.
//
// Rest is the slope with which the squared distance of a row to its labels, in
// the coordinates that are not sketched, grows with the label's squared norm
// there, least squares within each row. O(n·width + 2,000·K·Dim).
func FitSketches(space, rotated labels.Rows, mean []float32, lists *labels.Neighbors, width int) SketchEncoder {
	e := SketchEncoder{Width: width, Rest: 1}
	n := min(width-4, rotated.Dim())
	bufA, bufB := make([]float32, max(space.Dim(), rotated.Dim())), make([]float32, max(space.Dim(), rotated.Dim()))
	var peak float32
	for i := range rotated.Len() {
		for _, x := range rotated.Row(i, bufA)[:n] {
			peak = max(peak, x, -x)
		}
	}
	if e.Step = peak / 127; !(e.Step > 0) || math.IsInf(float64(e.Step), 1) {
		e.Step = 1
	}
	if lists == nil || lists.N != space.Len() || lists.K < 3 {
		return e
	}
	outside := func(i int, a, b []float32) float64 {
		return float64(restNorm(space.Row(i, a), rotated.Row(i, b)[:n], mean))
	}
	var sxy, sxx float64
	x, y := make([]float64, lists.K), make([]float64, lists.K)
	own, ownRotated := make([]float32, space.Dim()), make([]float32, rotated.Dim())
	stride := max(1, lists.N/restPairs)
	for i := 0; i < lists.N; i += stride {
		copy(own, space.Row(i, bufA))
		copy(ownRotated, rotated.Row(i, bufA))
		m, mx, my := 0, 0.0, 0.0
		for _, j := range lists.Row(i) {
			if int(j) == i || int(j) >= space.Len() {
				continue
			}
			all := vector.L2Squared(own, space.Row(int(j), bufA))
			seen := vector.L2Squared(ownRotated[:n], rotated.Row(int(j), bufA)[:n])
			x[m], y[m] = outside(int(j), bufA, bufB), float64(all-seen)
			mx, my = mx+x[m], my+y[m]
			m++
		}
		for j := range m {
			dx := x[j] - mx/float64(m)
			sxy += dx * (y[j] - my/float64(m))
			sxx += dx * dx
		}
	}
	if sxx > 0 {
		e.Rest = float32(min(1, max(0, sxy/sxx)))
	}
	return e
}

// restNorm is the squared distance to the mean outside the sketched
// coordinates.
func restNorm(x, sketched, mean []float32) float32 {
	return max(0, vector.L2Squared(x, mean)-vector.Dot(sketched, sketched))
}

// Encode writes the Width bytes of a row's sketch to dst. x is the row in the
// partition space, rotated its coordinates. O(Dim), no allocation.
func (e SketchEncoder) Encode(dst []byte, x, rotated, mean []float32) {
	n := min(e.Width-4, len(rotated))
	dst = dst[:e.Width]
	clear(dst)
	var norm float64
	for j, y := range rotated[:n] {
		rounded := max(-127, min(127, math.RoundToEven(float64(y/e.Step))))
		dst[j] = byte(int8(rounded))
		rounded *= float64(e.Step)
		norm += rounded * rounded
	}
	norm += float64(e.Rest) * float64(restNorm(x, rotated[:n], mean))
	binary.LittleEndian.PutUint32(dst[e.Width-4:], math.Float32bits(float32(norm)))
}
