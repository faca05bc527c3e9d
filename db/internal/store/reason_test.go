package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/anndb/anndb/db"

	"github.com/anndb/anndb/db/internal/dbtest"
)

// failing is a writer whose nth call fails as a disk does.
type failing struct {
	n      int
	reason syscall.Errno
}

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n == 0 {
		return 0, fmt.Errorf("write copy: %w", f.reason)
	}
	return len(p), nil
}

// TestBackupReason fails every write of a backup in turn. bbolt keeps the
// reason of the first ones in its text only; it must be in the chain all the
// same, as ErrNoSpace where it is one.
func TestBackupReason(t *testing.T) {
	d, err := dbtest.Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), &db.Options{NoSync: true, MapReserve: 1 << 32})
	dbtest.Must(t, err)
	defer d.Close()
	for _, reason := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		for n := 1; ; n++ {
			w := &failing{n, reason}
			_, err := d.Backup(context.Background(), w)
			if err == nil && w.n > 0 {
				if n < 4 {
					t.Errorf("a backup of %d writes shows nothing", n-1)
				}
				break
			}
			if !errors.Is(err, reason) || errors.Is(err, db.ErrNoSpace) != (reason == syscall.ENOSPC) {
				t.Errorf("write %d failed with %v: %v", n, reason, err)
			}
		}
	}
}
