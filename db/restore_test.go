package db

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestRestoreReplacesNoOther: what another process has put in the place of a restored database while the
// backup was copied stays.
func TestRestoreReplacesNoOther(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "x.anndb"), filepath.Join(dir, "copy")
	d, err := Open(t.Context(), path, &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	must(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("other"), 0o600)))
	must(t, os.WriteFile(copied, []byte("backup"), 0o600))
	if err := moveRestored(copied, path, true, d); !errors.Is(err, ErrReplaced) {
		t.Errorf("over another file: %v", err)
	}
	if err := moveRestored(copied, path, false, nil); !errors.Is(err, ErrExists) {
		t.Errorf("over a new file: %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != "other" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	must(t, os.Remove(path))
	must(t, moveRestored(copied, path, false, nil))
	must(t, os.WriteFile(copied, []byte("next"), 0o600))
	must(t, moveRestored(copied, path, true, nil)) // it replaces a damaged file, too
	if data, err := os.ReadFile(path); string(data) != "next" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
