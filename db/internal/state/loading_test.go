package state

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestLoadingCancelled checks that callers that wait for a load return when their
// context ends, and that a cancelled load is run again.
func TestLoadingCancelled(t *testing.T) {
	l := newLoading()
	first, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- l.do(first, func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			return fmt.Errorf("first: %w", ctx.Err())
		})
	}()
	<-started
	waiting, leave := context.WithCancel(t.Context())
	leave()
	unused := func(context.Context) error { t.Error("a second load runs next to the first"); return nil }
	if err := l.do(waiting, unused); !errors.Is(err, context.Canceled) {
		t.Errorf("the waiting caller got %v", err)
	}
	damage := errors.New("damage")
	second := make(chan error)
	go func() { second <- l.do(t.Context(), func(context.Context) error { return damage }) }()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller got %v", err)
	}
	if err := <-second; !errors.Is(err, damage) {
		t.Errorf("the second caller got %v", err)
	}
	if err := l.do(waiting, unused); !errors.Is(err, damage) {
		t.Errorf("what was loaded is %v", err)
	}
}
