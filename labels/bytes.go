package labels

import (
	"context"
	"errors"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// packBytes copies n rows of d coordinates as bytes, which take a quarter of the memory
// bandwidth of floats. It returns nil if a coordinate is not an integer from 0 to 255 or if ctx
// ends. Several goroutines call row, each with its own buffer.
func packBytes(ctx context.Context, n, d, workers int,
	row func(i int, buf []float32) []float32) []uint8 {
	if d > vector.MaxIntegerLen || !areBytes(row(0, make([]float32, d))) {
		return nil
	}
	packed := make([]uint8, n*d)
	err := par.Ranges(ctx, par.Work{N: n, Grain: 256, Workers: workers}, func() func(lo, hi int) error {
		buf := make([]float32, d)
		return func(lo, hi int) error {
			for i := lo; i < hi; i++ {
				x := row(i, buf)
				if !areBytes(x) {
					return errNotBytes
				}
				dst := packed[i*d : (i+1)*d]
				for j, v := range x {
					dst[j] = uint8(v)
				}
			}
			return nil
		}
	})
	if err != nil {
		return nil
	}
	return packed
}

// errNotBytes ends packBytes at the first coordinate that is not a byte.
var errNotBytes = errors.New("a coordinate is not a byte")

// areBytes reports whether all coordinates are integers from 0 to 255.
func areBytes(x []float32) bool {
	for _, v := range x {
		if !(v >= 0 && v <= 255) || float32(uint8(v)) != v {
			return false
		}
	}
	return true
}
