package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// loading runs a load once, by its first caller, and keeps the outcome. Unlike sync.Once,
// waiting callers return when their context ends, and a load that was cancelled by its caller's
// context can run again.
type loading struct {
	done atomic.Bool // err is final
	err  error

	mu      sync.Mutex
	running chan struct{} // closed when the running load ends; nil if none is running
}

// do runs load unless a call has completed it, and returns its error. Only one caller at a time
// runs load; if it is cancelled, another call runs it again.
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

// enter returns the load to wait for, or nil if it has ended, or reports that the caller must
// run it.
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

// isContextError reports whether an error is a context's cancellation or deadline.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
