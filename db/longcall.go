package db

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
)

// WithProgress returns a context with which long calls report to f how much of a stage is done,
// mostly in rows, total being 0 if unknown. The name of a stage may be followed by a comma and what
// is known of its result, as in "settings, best 0.46". nil ends reports. f is never called concurrently, and
// must not use the context for a call of this package.
func WithProgress(ctx context.Context, f func(stage string, done, total int)) context.Context {
	if f == nil {
		return kind.WithProgress(ctx, nil)
	}
	var mu sync.Mutex
	return kind.WithProgress(ctx, func(p kind.Progress) {
		mu.Lock()
		defer mu.Unlock()
		state.Callback(func() bool { f(p.Stage, p.Done, p.Total); return true })
	})
}

// WithWorkers returns a context with which a call uses n goroutines; below 1, as without it, all
// processors. Results do not depend on n.
func WithWorkers(ctx context.Context, n int) context.Context {
	return kind.WithWorkers(ctx, n)
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
