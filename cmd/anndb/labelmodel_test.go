package main

import (
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query/lcif"
)

// The settings that a program reads from tune have the fields of build's flags.
func TestTunedSettings(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	tune := []string{"tune", f.file, "docs", "--folds", "3", "--tune-rows", "60"}
	for _, n := range []int{3, shownSettings} {
		args := append(tune, "--weight", "none", "--settings", fmt.Sprint(n))
		settings := mustJSON[map[string]rows](t, args...)["settings"]
		if len(settings) != n {
			t.Errorf("%d settings, want %d", len(settings), n)
		}
		if cut, ok := settings[0]["threshold"].(map[string]any); !ok || cut["share"] == nil {
			t.Errorf("threshold %v has no fields", settings[0]["threshold"])
		}
	}
	paper := mustJSON[map[string]rows](t, append(tune, "--paper")...)["settings"][0]
	if cut, ok := paper["threshold"].(map[string]any); !ok || cut["steps"] != true {
		t.Errorf("setting of the paper's search: %v", paper)
	}
}

func TestSparseSettingNamesAll(t *testing.T) {
	info := db.IndexInfo{Options: &db.LCIF{
		Weight: "standard", Neighbors: "main", Params: &lcif.Params{K: 3, Lambda: 1},
	}}
	const want = "standard, neighbours by main, λ=1 k=3 α=1, the best label"
	if got := sparseSetting(info); got != want {
		t.Errorf("setting %q, want %q", got, want)
	}
}
