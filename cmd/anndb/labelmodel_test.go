package main

import (
	"fmt"
	"testing"
)

// The settings that a program reads from tune have the fields of build's flags.
func TestTunedSettings(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	tune := []string{"tune", f.file, "docs", "--folds", "3", "--tune-rows", "60"}
	for _, n := range []int{3, 5} {
		args := append(tune, "--weight", "none", "--settings", fmt.Sprint(n))
		settings := mustJSON[map[string]objects](t, args...)["settings"]
		if len(settings) != n {
			t.Errorf("%d settings, want %d", len(settings), n)
		}
		if cut, ok := settings[0]["threshold"].(map[string]any); !ok || cut["share"] == nil {
			t.Errorf("threshold %v has no fields", settings[0]["threshold"])
		}
	}
	paper := mustJSON[map[string]objects](t, append(tune, "--paper")...)["settings"][0]
	if cut, ok := paper["threshold"].(map[string]any); !ok || cut["steps"] != true {
		t.Errorf("setting of the paper's search: %v", paper)
	}
}
