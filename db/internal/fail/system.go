package fail

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"
)

// flattened is an error whose reason was available only as text.
type flattened struct {
	error
	reason syscall.Errno
}

// Unwrap returns the error and the reason found in its text.
func (f *flattened) Unwrap() []error { return []error{f.error, f.reason} }

// lostReasons are the errors that file systems return when a write, a change of size or an
// fsync fails.
var lostReasons = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT,
	syscall.EROFS, syscall.EPERM}

// System restores the reason of an error of bbolt, which includes the reasons of a failed
// resize, of the sync after it and of the first pages of a copy only as text. It adds
// ErrNoSpace to errors that mean a lack of space.
func System(err error) error {
	if err == nil {
		return nil
	}
	var known syscall.Errno
	if text := err.Error(); !errors.As(err, &known) {
		for _, e := range lostReasons {
			if strings.HasSuffix(text, ": "+e.Error()) {
				err = &flattened{err, e}
				break
			}
		}
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EFBIG, syscall.EDQUOT,
		berrors.ErrMaxSizeReached} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}
