package shell

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "history")
	h, err := openHistory(path)
	if err != nil || len(h.lines) != 0 {
		t.Fatal(h, err)
	}
	for i := range historyLines + 5 {
		if err := h.add(fmt.Sprintf("get c [1,\n %d]", i)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "damaged\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h, err = openHistory(path)
		n := len(h.lines)
		if err != nil || n != historyLines {
			t.Fatalf("%d lines, %v", n, err)
		}
		if first, last := h.lines[0], h.lines[n-1]; first != "get c [1,\n 5]" || last != "get c [1,\n 1004]" {
			t.Errorf("%q to %q", first, last)
		}
	}
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n != historyLines {
		t.Errorf("%d lines in the file", n)
	}
}
