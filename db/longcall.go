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

// WithCheckpoint returns a context with which Collection.Build of a forest keeps intermediate results in a
// folder, which it makes: which rows it reads, the state of approximate neighbors after each round, and
// neighbor lists, about 400 bytes a row by default and half as much again while they are written. The same
// build continues from them after an interruption, over the same rows, and makes the index that it would
// have made; rows written since are fresh rows of it. It begins again if a tenth of the rows has changed
// since, or if rows have other numbers. The results are removed when the index is complete, and with them
// the folder. One build at a time uses a folder.
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
