package labels

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/vector"
)

// packBytes copies n rows of d coordinates as bytes, a quarter of what floats
// take to read, or returns nil where one is no whole number from 0 to 255. row
// is called by several goroutines, each with a buffer of its own.
func packBytes(ctx context.Context, n, d, workers int, row func(i int, buf []float32) []float32) []uint8 {
	if d > vector.MaxIntegerLen || !areBytes(row(0, make([]float32, d))) {
		return nil
	}
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	const block = 256
	packed := make([]uint8, n*d)
	var next atomic.Int64
	var lossy atomic.Bool
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			buf := make([]float32, d)
			for ctx.Err() == nil && !lossy.Load() {
				lo := int(next.Add(block)) - block
				if lo >= n {
					return
				}
				for i := lo; i < min(lo+block, n); i++ {
					x := row(i, buf)
					if !areBytes(x) {
						lossy.Store(true)
						return
					}
					dst := packed[i*d : (i+1)*d]
					for j, v := range x {
						dst[j] = uint8(v)
					}
				}
			}
		})
	}
	wg.Wait()
	if lossy.Load() || ctx.Err() != nil {
		return nil
	}
	return packed
}

// areBytes says whether all coordinates are whole numbers from 0 to 255.
func areBytes(x []float32) bool {
	for _, v := range x {
		if !(v >= 0 && v <= 255) || float32(uint8(v)) != v {
			return false
		}
	}
	return true
}
