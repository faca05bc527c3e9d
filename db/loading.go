package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// loading is a load that the first caller runs and whose outcome is kept. Unlike
// sync.Once it lets callers that wait return when their context ends, and forgets
// a load that ended because the context of the caller that ran it did.
type loading struct {
	done atomic.Bool // err is final
	err  error

	mu      sync.Mutex
	running chan struct{} // closed when the load under way ends; nil if there is none
}

// do runs load, unless a call has run it to its end, and returns its error. load
// is run by one caller at a time and may run again if it is cancelled.
func (l *loading) do(ctx context.Context, load func(context.Context) error) error {
	for !l.done.Load() {
		running, first := l.enter()
		if first {
			return l.run(ctx, load)
		}
		if running == nil {
			break
		}
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("db: load: %w", ctx.Err())
		}
	}
	return l.err
}

// enter returns the load to wait for, nil if it has ended, or reports that the
// caller is the one to run it.
func (l *loading) enter() (running <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.done.Load():
		return nil, false
	case l.running != nil:
		return l.running, false
	}
	l.running = make(chan struct{})
	return nil, true
}

// run runs the load and keeps its outcome, unless it is cancelled or panics.
func (l *loading) run(ctx context.Context, load func(context.Context) error) (err error) {
	returned := false
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if returned && (ctx.Err() == nil || !isContextError(err)) {
			l.err = err
			l.done.Store(true)
		}
		close(l.running)
		l.running = nil
	}()
	err = load(ctx)
	returned = true
	return err
}

// isContextError reports whether an error is that of a context that ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
