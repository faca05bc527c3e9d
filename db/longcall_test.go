package db_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestProgress checks which calls report, and that reports of one call do not overlap.
func TestProgress(t *testing.T) {
	var inside atomic.Int32
	var stages []string
	ctx, run := t.Context(), dbtest.Reporting(func(p dbtest.Progress) {
		if inside.Add(1) != 1 {
			t.Error("reports overlap")
		}
		if !slices.Contains(stages, p.Stage) {
			stages = append(stages, p.Stage)
		}
		inside.Add(-1)
	})
	d, _, _ := spotDB(t, 300, 0, 0)
	docs := d.Collection("docs")
	if _, err := docs.Build(ctx, "a", &index.Forest{Trees: 2, LeafNeighbors: 8}, run); err != nil {
		t.Error(err)
	}
	if !slices.Contains(stages, "labels") || !slices.Contains(stages, "write") {
		t.Errorf("a build reported the stages %q", stages)
	}
	stages = nil
	if err := d.Compact(ctx, &db.CompactOptions{Reorder: true, Run: *run}); err != nil || !slices.Contains(stages, "load") {
		t.Errorf("Reorder reported the stages %q: %v", stages, err)
	}
	stages = nil
	if err := d.Compact(ctx, &db.CompactOptions{Run: *run}); err != nil || !slices.Contains(stages, "verify") {
		t.Errorf("Compact reported the stages %q: %v", stages, err)
	}
	stages = nil
	if err := d.Check(ctx, nil, run); err != nil || !slices.Contains(stages, "indexes") {
		t.Errorf("Check reported the stages %q: %v", stages, err)
	}
}
