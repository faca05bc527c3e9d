package db

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
)

// Run selects how a long call runs. nil, as the zero value, means all processors and no reports.
type Run struct {
	// Workers is the number of goroutines; below 1, all processors. Results do not depend on it.
	Workers int
	// Progress gets how much of a stage is done, mostly in rows, total being 0 if unknown. The name of
	// a stage may be followed by a comma and what is known of its result, as in "settings, best 0.46".
	// One call never calls it concurrently.
	Progress func(stage string, done, total int)
	// Stop ends the tuning of a label model when it is closed, once a setting has been measured: the
	// model is built with the best one so far. It ends nothing else.
	Stop <-chan struct{}
}

// in returns a context that carries r to the packages below. Of a nil context, which calls refuse, it
// returns nil.
func (r *Run) in(ctx context.Context) context.Context {
	if r == nil || ctx == nil {
		return ctx
	}
	ctx = kind.WithStop(kind.WithWorkers(ctx, r.Workers), r.Stop)
	if r.Progress == nil {
		return ctx
	}
	var mu sync.Mutex
	return kind.WithProgress(ctx, func(p kind.Progress) {
		mu.Lock()
		defer mu.Unlock()
		r.Progress(p.Stage, p.Done, p.Total)
	})
}

// asStage returns r with its reports as those of one stage.
func (r Run) asStage(stage string) Run {
	if f := r.Progress; f != nil {
		r.Progress = func(_ string, done, total int) { f(stage, done, total) }
	}
	return r
}
