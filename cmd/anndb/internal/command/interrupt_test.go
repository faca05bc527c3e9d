//go:build unix

package command

import (
	"sync/atomic"
	"syscall"
	"testing"
)

// TestSignals: an interrupt that is used for something else does not end the context, the next one does.
func TestSignals(t *testing.T) {
	var calls atomic.Int32
	used := make(chan struct{})
	ctx, stop := UntilSignal(t.Context(), func() bool {
		if calls.Add(1) == 1 {
			close(used)
			return true
		}
		return false
	})
	defer stop()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGINT)
	<-used
	if ctx.Err() != nil {
		t.Fatal("an interrupt that was used ended the context")
	}
	signal(syscall.SIGINT)
	<-ctx.Done()
	term, stopTerm := UntilSignal(t.Context(), func() bool { return true })
	defer stopTerm()
	signal(syscall.SIGTERM)
	<-term.Done()
	if n := calls.Load(); n != 2 {
		t.Errorf("%d interrupts were offered, want 2", n)
	}
}

// TestTunerStop: only the first interrupt after a measured setting stops a tuner.
func TestTunerStop(t *testing.T) {
	s := &tunerStop{Stop: make(chan struct{})}
	for _, stage := range []string{"read", "tune", "neighbours"} {
		if s.Observe(stage); s.interrupt() {
			t.Errorf("stage %s: stopped before a setting was measured", stage)
		}
	}
	s.Observe("settings, best 0.5")
	s.Observe("model")
	if !s.interrupt() || s.interrupt() {
		t.Error("not the first interrupt alone stops the tuner")
	}
	<-s.Stop
}
