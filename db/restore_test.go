package db_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestRestoreReplacesNoOther: what another process has put in the place of a restored database while the
// backup was copied stays.
func TestRestoreReplacesNoOther(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "x.anndb"), filepath.Join(dir, "copy")
	d, err := db.Open(t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	defer d.Close()
	dbtest.Must(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("other"), 0o600)))
	dbtest.Must(t, os.WriteFile(copied, []byte("backup"), 0o600))
	if err := db.MoveRestored(copied, path, true, d); !errors.Is(err, db.ErrReplaced) {
		t.Errorf("over another file: %v", err)
	}
	if err := db.MoveRestored(copied, path, false, nil); !errors.Is(err, db.ErrExists) {
		t.Errorf("over a new file: %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != "other" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	dbtest.Must(t, os.Remove(path))
	dbtest.Must(t, db.MoveRestored(copied, path, false, nil))
	dbtest.Must(t, os.WriteFile(copied, []byte("next"), 0o600))
	dbtest.Must(t, db.MoveRestored(copied, path, true, nil)) // it replaces a damaged file, too
	if data, err := os.ReadFile(path); string(data) != "next" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
