package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "history")
	h, err := openHistory(path)
	if err != nil || h.Len() != 0 {
		t.Fatal(h, err)
	}
	for i := range historyLines + 5 {
		if _, err := h.Write(fmt.Sprintf("get c [1,\n %d]", i)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	write(t, path, read(t, path)+"damaged\n")
	for range 2 {
		h, err = openHistory(path)
		first, _ := h.GetLine(0)
		last, _ := h.GetLine(h.Len() - 1)
		if err != nil || h.Len() != historyLines || first != "get c [1,\n 5]" || last != "get c [1,\n 1004]" {
			t.Errorf("%d lines, %q to %q, %v", h.Len(), first, last, err)
		}
	}
	if n := strings.Count(read(t, path), "\n"); n != historyLines {
		t.Errorf("%d lines in the file", n)
	}
	if _, err := h.GetLine(-1); err == nil {
		t.Error("a line -1")
	}
}
