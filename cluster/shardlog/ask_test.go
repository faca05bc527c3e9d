package shardlog

import (
	"context"
	"errors"
	"testing"
)

// TestAsk: a question that is dropped is sent again, one that is answered is not.
func TestAsk(t *testing.T) {
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		n := 0
		got, err := ask(t.Context(), func(ctx context.Context) (int, error) {
			if n++; n == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return n, want
		})
		if got != 2 || !errors.Is(err, want) {
			t.Errorf("%d, %v, want 2, %v", got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	_, err := ask(ctx, func(ctx context.Context) (int, error) { n++; return n, ctx.Err() })
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, %v", n, err)
	}
}
