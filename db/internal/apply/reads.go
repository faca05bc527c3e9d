package apply

import "errors"

// Key is a key that a transaction has read.
type Key struct {
	Collection uint64
	Key        string
}

// Found is the result of a read: the number of the key's row, if there is one, and the revision
// of its labels and payload.
type Found struct {
	Row      uint32
	Exists   bool
	Revision uint64
}

// ErrConflict is returned if a key that a transaction has read was changed before the
// transaction was committed. Update then runs it again.
var ErrConflict = errors.New("db: a key was changed since it was read")
