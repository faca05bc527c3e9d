package command

import (
	"path/filepath"
	"runtime"
	"testing"
)

// TestHostPaths: paths of a client lead to its files from anywhere, and are shown as it has given them.
func TestHostPaths(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths with slashes")
	}
	for _, folder := range []string{"/home/me", "/"} {
		h := &Host{Folder: folder, Pid: 7}
		for path, want := range map[string]string{
			"x.csv": filepath.Join(folder, "x.csv"), "../x": filepath.Join(folder, "../x"), "./x": filepath.Join(folder, "x"),
			"/x": "/x", "-": "-", "": "", "names.txt:2": filepath.Join(folder, "names.txt:2"),
		} {
			got := h.Resolve(path)
			if got != path && filepath.Clean(got) != want || h.Shown(got) != path || h.Message(got+" http://x") != path+" http://x" {
				t.Errorf("%s: %q is %q, shown as %q", folder, path, got, h.Message(got))
			}
		}
		joined := filepath.Join(h.Resolve("dir"), "x")
		if text := h.Message(joined); text != "dir/x" && folder != "/" {
			t.Errorf("%q is shown as %q", joined, text)
		}
		for path, want := range map[string]string{"/dev/stdout": "/dev/fd/1", "/dev/fd/63": "/dev/fd/63"} {
			if got := h.Resolve(path); runtime.GOOS == "linux" && (got == path || h.Shown(got) != want) {
				t.Errorf("%q is %q, shown as %q", path, got, h.Shown(got))
			}
		}
	}
	var none *Host
	if none.Resolve("x") != "x" || none.Message("x") != "x" || none.Database("x") != nil {
		t.Error("a command in a process of its own has other paths")
	}
}
