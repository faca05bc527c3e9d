package db

import (
	"context"
	"runtime/metrics"
	"time"
)

// stageTimer reports progress and records the wall time of every stage and the largest amount
// of memory that the process held at the end of a stage.
type stageTimer struct {
	progress func(progress)
	seconds  map[string]float64
	memory   int64
	// before is the index that maintenance rebuilds; nil for a build by the user.
	before *manifest
}

// newTimer returns a timer that reports to the function of the context, if there is one.
func newTimer(ctx context.Context) *stageTimer {
	return &stageTimer{seconds: map[string]float64{}, progress: progressOf(ctx)}
}

// keep copies the data that maintenance does not recompute: the options as requested, the
// tuner's measurements, and the time of the build.
func (s *stageTimer) keep(m *manifest) {
	if s.before == nil {
		return
	}
	i, b := &m.Info, &s.before.Info
	i.Created, i.Maintained = b.Created, time.Now().UTC()
	if s.before.Requested != nil {
		return // nothing was measured
	}
	m.Options = s.before.Options.after(m.Options)
	i.Curve, i.TreeTrials, i.LabelCurve, i.LabelWeights = b.Curve, b.TreeTrials, b.LabelCurve, b.LabelWeights
}

func (s *stageTimer) run(name string, f func(report func(done, total int)) error) error {
	start := time.Now()
	err := f(func(done, total int) {
		if s.progress != nil {
			s.progress(progress{Stage: name, Done: done, Total: total})
		}
	})
	s.seconds[name] += time.Since(start).Seconds()
	s.memory = max(s.memory, memoryHeld())
	return err
}

// memoryHeld returns the memory that the process has from the system, except for maps of files.
// The runtime returns freed memory slowly, so most of a peak within a stage is still held at
// its end.
func memoryHeld() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// progress is the report of a long call, with the fields of db.Progress.
type progress struct {
	Stage string
	Done  int
	Total int
}

// contextKey is the type of the keys of contexts.
type contextKey int

const (
	progressKey contextKey = iota
	workersKey
)

// withProgress returns a context with which long calls report to f, nil for none.
func withProgress(ctx context.Context, f func(progress)) context.Context {
	return context.WithValue(ctx, progressKey, f)
}

// withWorkers returns a context with which a call uses n goroutines, 0 for all processors.
func withWorkers(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, workersKey, max(0, n))
}

// progressOf returns the function to which a call with the context reports, nil for none.
func progressOf(ctx context.Context) func(progress) {
	f, _ := ctx.Value(progressKey).(func(progress))
	return f
}

// workersOf returns the number of goroutines of a call with the context, 0 for all processors.
func workersOf(ctx context.Context) int {
	n, _ := ctx.Value(workersKey).(int)
	return n
}
