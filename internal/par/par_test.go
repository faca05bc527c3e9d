package par

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
)

// Every number is visited once, in ranges of Grain numbers, by at most the given
// number of goroutines.
func TestRanges(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 64, 100} {
		for _, grain := range []int{-1, 1, 3, 100} {
			for _, workers := range []int{0, 1, 2, 9} {
				t.Run(fmt.Sprintf("%d by %d on %d", n, grain, workers), func(t *testing.T) {
					visits := make([]int, n)
					var started atomic.Int64
					var reported []int
					progress := func(done, total int) { reported = append(reported, done, total) }
					work := Work{N: n, Grain: grain, Workers: workers, Progress: progress}
					err := Ranges(t.Context(), work, func() func(lo, hi int) error {
						started.Add(1)
						return func(lo, hi int) error {
							if g := max(1, grain); lo%g != 0 || hi != min(lo+g, n) {
								t.Errorf("range %d to %d", lo, hi)
							}
							for i := lo; i < hi; i++ {
								visits[i]++
							}
							return nil
						}
					})
					if err != nil || slices.ContainsFunc(visits, func(v int) bool { return v != 1 }) {
						t.Fatalf("visits %v, %v", visits, err)
					}
					if s := int(started.Load()); s > Workers(workers) || s > n {
						t.Errorf("%d goroutines", s)
					}
					for i := 2; i < len(reported); i += 2 {
						if reported[i] <= reported[i-2] || reported[i+1] != n {
							t.Fatalf("progress %v", reported)
						}
					}
					if n > 0 && reported[len(reported)-2] != n {
						t.Fatalf("progress %v", reported)
					}
				})
			}
		}
	}
}

// The loop returns the error of the lowest number that fails, even if a higher one
// fails first, and does not visit numbers far above it.
func TestEachReturnsTheLowestError(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			later := make(chan struct{})
			var visited atomic.Int64
			err := Each(t.Context(), Work{N: 1 << 20, Workers: workers}, func(i int) error {
				visited.Add(1)
				switch {
				case i == 5:
					if workers > 1 {
						<-later // a higher number has failed
					}
					return errors.New("five")
				case i == 6:
					defer close(later)
					return errors.New("six")
				}
				return nil
			})
			if err == nil || err.Error() != "five" {
				t.Errorf("error %v", err)
			}
			if n := visited.Load(); n == 1<<20 {
				t.Errorf("all %d numbers were visited", n)
			}
		})
	}
}

// The loop returns the context's error even if every number is done, and the
// function's error if the function fails.
func TestEachStopsWithItsContext(t *testing.T) {
	for _, workers := range []int{1, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		var visited atomic.Int64
		err := Each(ctx, Work{N: 1 << 20, Workers: workers}, func(i int) error {
			visited.Add(1)
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || visited.Load() > int64(workers) {
			t.Errorf("%d workers: %v after %d numbers", workers, err, visited.Load())
		}
		if err := Each(ctx, Work{N: 3, Workers: workers}, func(int) error { panic("called") }); err != ctx.Err() {
			t.Errorf("%d workers: started after the end: %v", workers, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		last := func(int) error { cancel(); return nil }
		if err := Each(ctx, Work{N: 1, Workers: workers}, last); err != ctx.Err() {
			t.Errorf("%d workers: ended in the last number: %v", workers, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		failure := errors.New("failure")
		err = Each(ctx, Work{N: 9, Workers: workers}, func(int) error { cancel(); return failure })
		if err != failure {
			t.Errorf("%d workers: %v, want the function's error", workers, err)
		}
	}
}

// If the caller has faults panic, the loop panics in the caller when a goroutine panics.
func TestPanicsReachTheCaller(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, workers := range []int{1, 4} {
		func() {
			defer func() {
				if r := recover(); r != "fault" {
					t.Errorf("%d workers: recovered %v", workers, r)
				}
			}()
			_ = Each(t.Context(), Work{N: 9, Workers: workers}, func(i int) error {
				if fault := debug.SetPanicOnFault(true); !fault {
					t.Errorf("%d workers: faults of a goroutine are fatal", workers)
				}
				panic("fault")
			})
			t.Errorf("%d workers: no panic", workers)
		}()
	}
}
