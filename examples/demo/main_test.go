package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo runs the demo on a part of the standard library.
func TestDemo(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, filepath.Join(strings.TrimSpace(string(root)), "src", "encoding")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"files stored", "how do I flush a writer", "because of", "[", "The first guess is right for",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if err := run(t.Context(), &out, t.TempDir()); err == nil {
		t.Error("no error of an empty folder")
	}
}
