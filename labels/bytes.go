package labels

import (
	"context"

	"errors"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// packBytes copies n rows of d coordinates as bytes, a quarter of what floats
// take to read, or returns nil if one is no whole number from 0 to 255 or ctx
// ends. row is called by several goroutines, each with a buffer of its own.
func packBytes(ctx context.Context, n, d, workers int, row func(i int, buf []float32) []float32) []uint8 {
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

// errNotBytes ends packBytes.
var errNotBytes = errors.New("a coordinate is no byte")

// areBytes reports whether all coordinates are whole numbers from 0 to 255.
func areBytes(x []float32) bool {
	for _, v := range x {
		if !(v >= 0 && v <= 255) || float32(uint8(v)) != v {
			return false
		}
	}
	return true
}
