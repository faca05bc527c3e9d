package state

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// loading runs a load once, by its first caller, and keeps the outcome. Unlike sync.Once,
// waiting callers return when their context ends, and a load that panics, or is cancelled by its caller's
// context, can run again.
type loading struct {
	done atomic.Bool // err is final
	err  error
	turn chan struct{} // holds a value while a load runs
}

func newLoading() loading { return loading{turn: make(chan struct{}, 1)} }

// do runs load unless a call has completed it, and returns its error. Only one caller at a time
// runs load; if it is cancelled, another call runs it again.
func (l *loading) do(ctx context.Context, load func(context.Context) error) error {
	if l.done.Load() {
		return l.err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("db: load: %w", ctx.Err())
	}
	if l.done.Load() {
		return l.err
	}
	err := load(ctx)
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ctx.Err() == nil || !cancelled {
		l.err = err
		l.done.Store(true)
	}
	return err
}
