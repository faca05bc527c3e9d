package main

import (
	"io"
	"math"
	"testing"
)

// TestStragglers compares the simulation with queues whose times are known, and hedging with none.
func TestStragglers(t *testing.T) {
	// Without stalls and with times that do not vary, one replica is a queue M/D/1: its mean wait is
	// load / (2·(1 - load)).
	m := model{replicas: 1, load: 0.5, between: math.Inf(1)}
	times, _ := simulate(m, 200_000, false)
	sum := 0.0
	for _, x := range times {
		sum += x
	}
	if mean := sum / float64(len(times)); math.Abs(mean-1.5) > 0.02 {
		t.Errorf("mean time %v, want 1.5", mean)
	}
	alone, _ := simulate(standard, 200_000, false)
	hedged, more := simulate(standard, 200_000, true)
	if more > 0.08 {
		t.Errorf("%v more questions", more)
	}
	for _, n := range []int{1, 20} {
		if a, b := quantile(alone, 0.99, n), quantile(hedged, 0.99, n); b > a/2 {
			t.Errorf("%d shards: p99 %v hedged, %v alone", n, b, a)
		}
	}
	report(io.Discard, 1000)
}
