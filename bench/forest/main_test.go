package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	err := run(t.Context(), []string{"-set", "own-10k", "-rows", "800", "-queries", "20", "-kinds", "kd",
		"-rounds", "1", "-out", dir}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"natural-zero", "lookup", "The paper's findings"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "forests.svg")); err != nil || len(picture) == 0 {
		t.Errorf("forests.svg: %d bytes, %v", len(picture), err)
	}
}
