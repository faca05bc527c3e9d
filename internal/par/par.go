// Package par runs loops on several goroutines, and iterations ahead of their use.
//
// A loop hands out its numbers in ascending order, as goroutines become free. After
// an error it hands out no more numbers and waits for the running calls. It returns
// the error of the lowest number that failed: every lower number was handed out
// earlier, so the result does not depend on the number of goroutines or their speed.
// A loop whose context ends also hands out no more numbers. It returns the context's
// error unless a number failed, even if every number was done, since functions may
// return early when the context ends.
//
// Every goroutine has ended when a loop returns. If one of them panics, the loop hands
// out no more numbers and panics in the caller with the same value. If faults on mapped
// memory panic in the caller (see [debug.SetPanicOnFault]), they also do in the loop's
// goroutines.
package par

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Work is a loop over the numbers 0 to N-1.
type Work struct {
	N int
	// Grain is the number of numbers handed out at a time; less than 1 means 1.
	Grain int
	// Workers is the number of goroutines; less than 1 means all processors.
	Workers int
	// Progress is called by one goroutine at a time with the growing count of
	// finished numbers and N. It may be nil.
	Progress func(done, total int)
}

// Workers returns the number of goroutines to start: n, or the number of
// processors if n is less than 1.
func Workers(n int) int {
	if n < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

// Each calls f for every number. Errors: those of f and of the context.
func Each(ctx context.Context, w Work, f func(i int) error) error {
	return Items(ctx, w, func() func(int) error { return f })
}

// Items is Each with a function of each goroutine, which start returns; see Ranges.
func Items(ctx context.Context, w Work, start func() func(i int) error) error {
	return Ranges(ctx, w, func() func(lo, hi int) error {
		f := start()
		return func(lo, hi int) error {
			for i := lo; i < hi; i++ {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		}
	})
}

// Ranges splits the numbers into ranges of Grain numbers; the last range may be
// shorter. Every goroutine calls start once, concurrently with the others, and calls
// the function that start returns with ranges lo to hi-1. Variables declared in start
// thus belong to one goroutine. Errors: those of the functions and of the context.
func Ranges(ctx context.Context, w Work, start func() func(lo, hi int) error) error {
	w.Grain = max(1, w.Grain)
	l := &loop{Work: w, failed: w.N}
	workers := min(Workers(w.Workers), (w.N+w.Grain-1)/w.Grain)
	if workers == 1 {
		l.run(ctx, start())
	} else {
		fault := debug.SetPanicOnFault(false)
		debug.SetPanicOnFault(fault)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				debug.SetPanicOnFault(fault)
				defer l.recover()
				l.run(ctx, start())
			})
		}
		all.Wait()
	}
	switch {
	case l.panicked != nil:
		panic(l.panicked)
	case l.err != nil:
		return l.err
	}
	return ctx.Err()
}

// loop is one call of Ranges.
type loop struct {
	Work
	next atomic.Int64
	stop atomic.Bool

	mu       sync.Mutex
	done     int
	failed   int // start of the lowest range that failed, N if none did
	err      error
	panicked any
}

// run calls f for ranges until there are no more.
func (l *loop) run(ctx context.Context, f func(lo, hi int) error) {
	for !l.stop.Load() && ctx.Err() == nil {
		lo := int(l.next.Add(int64(l.Grain))) - l.Grain
		if lo >= l.N {
			return
		}
		hi := min(lo+l.Grain, l.N)
		if err := f(lo, hi); err != nil {
			l.fail(lo, err)
		} else if l.Progress != nil {
			l.report(hi - lo)
		}
	}
}

func (l *loop) fail(lo int, err error) {
	l.stop.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if lo < l.failed {
		l.failed, l.err = lo, err
	}
}

func (l *loop) report(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += n
	l.Progress(l.done, l.N)
}

// recover records the value of a goroutine's panic for the caller.
func (l *loop) recover() {
	if r := recover(); r != nil {
		l.stop.Store(true)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.panicked = r
	}
}
