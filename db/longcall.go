package db

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
)

// WithProgress returns a context with which long calls report to f how much of a stage is done,
// mostly in rows, total being 0 if unknown. nil ends reports. f is never called concurrently, and
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

// WithCheckpoint returns a context with which a build of a forest keeps intermediate results in a folder,
// which it makes: which rows it reads, and 100 to 400 bytes for each row while their nearest rows are found.
// The same build of the same rows continues from them after an interruption, and gives the same index as
// without one; rows that were written since are fresh rows of the index. The folder is removed when the
// index is complete. One build at a time uses a folder.
func WithCheckpoint(ctx context.Context, dir string) context.Context {
	return kind.WithCheckpoint(ctx, dir)
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
