package db

import (
	"slices"
	"sync/atomic"
	"testing"
)

// TestWithProgress checks which calls report, and that reports of calls that run at the same
// time do not overlap.
func TestWithProgress(t *testing.T) {
	var inside, reports atomic.Int32
	var stages []string
	ctx := withProgress(t.Context(), func(p progress) {
		if inside.Add(1) != 1 {
			t.Error("reports overlap")
		}
		reports.Add(1)
		if !slices.Contains(stages, p.Stage) {
			stages = append(stages, p.Stage)
		}
		inside.Add(-1)
	})
	d, _, _ := spotDB(t, 300, 0, 0)
	docs := d.Collection("docs")
	ended := make(chan error)
	for _, name := range []string{"a", "b"} {
		go func() {
			_, err := docs.Build(ctx, name, &Forest{Trees: 2, LeafNeighbors: 8})
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if !slices.Contains(stages, "labels") || !slices.Contains(stages, "write") {
		t.Errorf("builds reported the stages %q", stages)
	}
	stages = nil
	if err := d.Compact(ctx, &CompactOptions{Reorder: true}); err != nil || !slices.Contains(stages, "load") {
		t.Errorf("Reorder reported the stages %q: %v", stages, err)
	}
	stages = nil
	if err := d.Compact(ctx, nil); err != nil || !slices.Contains(stages, "verify") {
		t.Errorf("Compact reported the stages %q: %v", stages, err)
	}
	stages = nil
	if err := d.Check(ctx, nil); err != nil || !slices.Contains(stages, "indexes") {
		t.Errorf("Check reported the stages %q: %v", stages, err)
	}
	before := reports.Load()
	if err := d.Compact(WithProgress(ctx, nil), &CompactOptions{Reorder: true}); err != nil || reports.Load() != before {
		t.Errorf("%d reports to a function that was replaced by none: %v", reports.Load()-before, err)
	}
}
