package kind

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/anndb/anndb/internal/descent"
)

// Timer reports progress and records the wall time of every stage and the largest amount
// of memory that the process held at the end of a stage.
type Timer struct {
	Progress func(Progress)
	Seconds  map[string]float64
	Memory   int64
}

// NewTimer returns a timer that reports to the function of the context, if there is one.
func NewTimer(ctx context.Context) *Timer {
	return &Timer{Seconds: map[string]float64{}, Progress: ProgressOf(ctx)}
}

// Run runs a stage and records its time and the memory held at its end.
func (s *Timer) Run(name string, f func(report func(done, total int)) error) error {
	start := time.Now()
	s.Report(name, 0, 0) // some stages do not report while they run
	err := f(func(done, total int) { s.Report(name, done, total) })
	s.Seconds[name] += time.Since(start).Seconds()
	s.Memory = max(s.Memory, memoryHeld())
	return err
}

// Report reports how much of a stage is done.
func (s *Timer) Report(stage string, done, total int) {
	if s.Progress != nil {
		s.Progress(Progress{Stage: stage, Done: done, Total: total})
	}
}

// memoryHeld returns the memory that the process has from the system, except for maps of files.
// The runtime returns freed memory slowly, so most of a peak within a stage is still held at
// its end.
func memoryHeld() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// Progress is the report of a long call: a stage and the work done in it; Total is 0 if it is unknown.
type Progress struct {
	Stage string
	Done  int
	Total int
}

// contextKey is the type of the keys of contexts.
type contextKey int

const (
	progressKey contextKey = iota
	workersKey
	stopKey
)

// WithProgress returns a context with which long calls report to f, nil for none.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey, f)
}

// WithWorkers returns a context with which a call uses n goroutines, 0 for all processors.
func WithWorkers(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, workersKey, max(0, n))
}

// ProgressOf returns the function to which a call with the context reports, nil for none.
func ProgressOf(ctx context.Context) func(Progress) {
	f, _ := ctx.Value(progressKey).(func(Progress))
	return f
}

// WorkersOf returns the number of goroutines of a call with the context, 0 for all processors.
func WorkersOf(ctx context.Context) int {
	n, _ := ctx.Value(workersKey).(int)
	return n
}

// WithStop returns a context with which tuners of label models end when stop is closed.
func WithStop(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey, stop)
}

// StopOf returns the channel that ends the tuners of a call with the context, nil for none.
func StopOf(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey).(<-chan struct{})
	return stop
}

// Stopped reports whether the channel of StopOf is closed.
func Stopped(ctx context.Context) bool { return descent.Stopped(StopOf(ctx)) }
