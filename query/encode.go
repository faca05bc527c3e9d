package query

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// SketchEncoder writes the sketches of a SketchView: rotated coordinates in few bits, then one
// float32 for the rest of the row's squared distance to the rotation's mean. The coordinates
// after the first twelve have four bits, in which a coordinate of small variance loses little,
// so that 108 of them fit into a cache line, where int8 has room for 60. On images the nearest 20
// rows by such a sketch contain as many of the true 10 as the nearest 30 by an int8 sketch, on
// word vectors as many as its nearest 120. Rows whose variance is spread over more coordinates
// have sketches of signs instead (signs.go).
//
// Two corrections make the estimate ‖c‖² − 2⟨q, c⟩ rank better than the plain squared norm
// does. First, the norm is that of the rounded coordinates, so that rounding c by e shifts an
// estimate by 2⟨q−c, e⟩, which is small for neighbours, and not by 2⟨q, e⟩. Second, the part of
// the norm outside the sketched coordinates is multiplied by Rest: neighbours are similar in
// those coordinates, too, which the estimate does not include, so a row with a large norm there
// is nearer than the norm suggests.
type SketchEncoder struct {
	Width int       // bytes, as vector.PackedScores or vector.SignScores read them
	Signs bool      // sketches of signs, without the following fields
	Steps []float32 // value of a step of each coordinate
	// Rest is the weight of the squared norm outside the sketched coordinates.
	Rest float32
	// Centers are those of rows by their numbers, with Signs; nil if all sketches are made of differences
	// from the mean.
	Centers *Centers
}

// fitRows bounds the rows by which FitSketches chooses the steps of half bytes, and those whose labels it
// reads.
const fitRows = 2000

// FitSketches chooses the steps and Rest. The step of int8 coordinates is the smallest with
// which the largest coordinate fits; the step of half bytes, for which that would be too
// coarse, is the one with the smallest squared error, including that of clamping. space holds
// the rows in the partition space, rotated their coordinates, mean the rotation's mean, lists
// the labels of the rows. Without lists Rest is 1.
//
// Rest is the slope with which the squared distance of a row to its labels, in the coordinates
// that are not sketched, grows with the label's squared norm there, by least squares within
// each row. O(108·n + 2,000·K·Dim).
func FitSketches(space, rotated labels.Rows, mean []float32, lists *labels.Neighbors) SketchEncoder {
	e := SketchEncoder{Width: vector.PackedWidth, Rest: 1}
	n := min(vector.PackedHead+vector.PackedTail, rotated.Dim())
	bufA, bufB := make([]float32, max(space.Dim(), rotated.Dim())),
		make([]float32, max(space.Dim(), rotated.Dim()))
	e.Steps = packedSteps(rotated, n)
	if lists == nil || lists.N != space.Len() || lists.K < 3 {
		return e
	}
	outside := func(i int, a, b []float32) float64 {
		return float64(restNorm(space.Row(i, a), rotated.Row(i, b)[:n], mean))
	}
	var sxy, sxx float64
	x, y := make([]float64, lists.K), make([]float64, lists.K)
	own, ownRotated := make([]float32, space.Dim()), make([]float32, rotated.Dim())
	stride := max(1, lists.N/fitRows)
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

// restNorm returns the squared distance to the mean outside the sketched coordinates.
func restNorm(x, sketched, mean []float32) float32 {
	return max(0, vector.L2Squared(x, mean)-vector.Dot(sketched, sketched))
}

// byteStep returns the step with which int8 reaches a peak.
func byteStep(peak float32) float32 {
	if step := peak / 127; step > 0 && !math.IsInf(float64(step), 1) {
		return step
	}
	return 1
}

// packedSteps returns the steps of the first n coordinates.
func packedSteps(rotated labels.Rows, n int) []float32 {
	steps, buf := make([]float32, n), make([]float32, rotated.Dim())
	head := steps[:min(n, vector.PackedHead)]
	for i := range rotated.Len() {
		for j, x := range rotated.Row(i, buf)[:len(head)] {
			head[j] = max(head[j], x, -x)
		}
	}
	for j, peak := range head {
		head[j] = byteStep(peak)
	}
	if n == len(head) {
		return steps
	}
	stride := max(1, rotated.Len()/fitRows)
	// Steps to try, given by the value of the largest number in standard deviations: 2.5 suits
	// a normal distribution, larger values suit long tails.
	reach := [...]float64{1.5, 2, 2.5, 3, 4, 6, 10}
	power, rows := make([]float64, n), 0
	for i := 0; i < rotated.Len(); i += stride {
		for j, x := range rotated.Row(i, buf)[:n] {
			power[j] += float64(x) * float64(x)
		}
		rows++
	}
	errs := make([][len(reach)]float64, n)
	for i := 0; i < rotated.Len(); i += stride {
		for j, x := range rotated.Row(i, buf)[vector.PackedHead:n] {
			deviation := math.Sqrt(power[vector.PackedHead+j] / float64(rows))
			for k, r := range reach {
				step := float32(r * deviation / 7)
				d := float64(x - float32(halfByte(x, step))*step)
				errs[vector.PackedHead+j][k] += d * d
			}
		}
	}
	for j := vector.PackedHead; j < n; j++ {
		best := 0
		for k := range reach {
			if errs[j][k] < errs[j][best] {
				best = k
			}
		}
		steps[j] = float32(reach[best] * math.Sqrt(power[j]/float64(rows)) / 7)
		if !(steps[j] > 0) || math.IsInf(float64(steps[j]), 1) {
			steps[j] = 1
		}
	}
	return steps
}

// halfByte returns the integer from -8 to 7 nearest to x/step.
func halfByte(x, step float32) int {
	if !(step > 0) {
		return 0
	}
	return int(max(-8, min(7, math.RoundToEven(float64(x/step)))))
}

// Encode writes the Width bytes of a row's sketch to dst. row is its number, x the row in the
// partition space, rotated its principal coordinates, which sketches of signs do not need. O(Dim), for
// signs O(Dim·log Dim).
func (e SketchEncoder) Encode(dst []byte, row int, x, rotated, mean []float32) {
	dst = dst[:e.Width]
	if e.Signs {
		encodeSigns(dst, x, mean, e.Centers.of(row, len(x)))
		return
	}
	n := min(len(e.Steps), len(rotated))
	clear(dst)
	var norm float64
	bytes, both := min(n, vector.PackedHead), vector.PackedTail/2
	for j, y := range rotated[:bytes] {
		c := max(-127, min(127, math.RoundToEven(float64(y/e.Steps[j]))))
		dst[j] = byte(int8(c))
		c *= float64(e.Steps[j])
		norm += c * c
	}
	for j := bytes; j < n; j++ {
		c := halfByte(rotated[j], e.Steps[j])
		if j < vector.PackedHead+both {
			dst[j] |= byte(c + 8)
		} else {
			dst[j-both] |= byte(c+8) << 4
		}
		d := float64(c) * float64(e.Steps[j])
		norm += d * d
	}
	norm += float64(e.Rest) * float64(restNorm(x, rotated[:n], mean))
	binary.LittleEndian.PutUint32(dst[e.Width-4:], math.Float32bits(float32(norm)))
}

// View returns a view of chunks of 1<<shift sketches that the encoder wrote.
func (e SketchEncoder) View(chunks [][]byte, shift uint) *SketchView {
	s := &SketchView{Shift: shift, Width: e.Width, Signs: e.Signs, Steps: e.Steps, Centers: e.Centers,
		Keep: chunks}
	for _, c := range chunks {
		s.Chunks = append(s.Chunks, unsafe.Pointer(unsafe.SliceData(c)))
	}
	return s
}
