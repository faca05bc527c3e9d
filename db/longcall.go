package db

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
)

// WithProgress returns a context with which long calls report to f how much of a stage is done,
// mostly in rows, total being 0 if unknown. The name of a stage may be followed by a comma and what
// is known of its result, as in "settings, best 0.46". nil ends reports. f is never called concurrently,
// and must not use the context for a call of this package. Of a nil context, which calls refuse, this and
// the other functions of contexts return nil.
func WithProgress(ctx context.Context, f func(stage string, done, total int)) context.Context {
	switch {
	case ctx == nil:
		return nil
	case f == nil:
		return kind.WithProgress(ctx, nil)
	}
	var mu sync.Mutex
	return kind.WithProgress(ctx, func(p kind.Progress) {
		mu.Lock()
		defer mu.Unlock()
		f(p.Stage, p.Done, p.Total)
	})
}

// WithWorkers returns a context with which a call uses n goroutines; below 1, as without it, all
// processors. Results do not depend on n.
func WithWorkers(ctx context.Context, n int) context.Context {
	if ctx == nil {
		return nil
	}
	return kind.WithWorkers(ctx, n)
}

// WithStop returns a context with which tuning of a label model ends when stop is closed, once a setting
// has been measured: the model is built with the best one so far. It ends nothing else.
func WithStop(ctx context.Context, stop <-chan struct{}) context.Context {
	if ctx == nil {
		return nil
	}
	return kind.WithStop(ctx, stop)
}

// asStage returns a context with which calls report their progress as that of one stage.
func asStage(ctx context.Context, stage string) context.Context {
	f := kind.ProgressOf(ctx)
	if f == nil {
		return ctx
	}
	return kind.WithProgress(ctx, func(p kind.Progress) {
		p.Stage = stage
		f(p)
	})
}
