package fail

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// TestReasonInText checks what is found in texts of bbolt's, and what is not.
func TestReasonInText(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  error
		space bool
	}{
		{fmt.Errorf("file sync error: sync a: %s", syscall.EIO), syscall.EIO, false},
		{fmt.Errorf("file resize error: truncate a: %s", syscall.ENOSPC), syscall.ENOSPC, true},
		{fmt.Errorf("write a: %w", syscall.EFBIG), syscall.EFBIG, true},
		{errors.New("some other reason"), nil, false},
	} {
		got := System(c.err)
		var no syscall.Errno
		if found := errors.As(got, &no); found != (c.want != nil) || c.want != nil && !errors.Is(got, c.want) || errors.Is(got, ErrNoSpace) != c.space {
			t.Errorf("%q became %v (%v), want %v", c.err, got, no, c.want)
		}
	}
}
