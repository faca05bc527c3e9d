package command

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
)

// UntilSignal returns a context that ends with the first signal, except for an interrupt that used takes
// for itself. After it the default action is back, so that a second one ends a program that does not stop
// by itself.
func UntilSignal(ctx context.Context, used func() bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	go func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt || !used() {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// tunerStop lets the first interrupt of a command stop its tuner in place of the command.
type tunerStop struct {
	measured atomic.Bool // a setting, so that there is a best one
	Closed   atomic.Bool
	Stop     chan struct{}
}

// Observe notes the progress of a tuner.
func (t *tunerStop) Observe(stage string) {
	if strings.HasPrefix(stage, "settings") {
		t.measured.Store(true)
	}
}

// interrupt stops the tuner, once. It reports false if there is nothing to stop.
func (t *tunerStop) interrupt() bool {
	if !t.measured.Load() || t.Closed.Swap(true) {
		return false
	}
	close(t.Stop)
	return true
}
