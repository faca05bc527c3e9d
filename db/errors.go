package db

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
)

// Errors of this package. Every returned error wraps one of them, a context's error, or an error of
// the operating system; test with errors.Is. The message names the object, the value and the limit.
// Every call can return ErrClosed, ErrCorrupt and its context's error, calls that take names, keys or
// options ErrNotFound and ErrInvalid, and calls that write ErrReadOnly, ErrNoSpace and
// ErrUnknownState; the documentation of a function lists the others.
var (
	// ErrInvalid is returned for an argument, option or row that breaks a rule or a limit (see the
	// guide).
	ErrInvalid = fail.ErrInvalid
	// ErrNotFound is returned when there is no collection, index or live row of the name or key.
	ErrNotFound = fail.ErrNotFound
	// ErrExists is returned when a collection of the name, or a row to be inserted, exists already.
	ErrExists = fail.ErrExists
	// ErrUnsuitable is returned by Build when an index cannot be learned from the rows: too few
	// rows, a single class, only constant features, or feature numbers above 2^22 and eight times
	// the number of values.
	ErrUnsuitable = fail.ErrUnsuitable
	// ErrClosed is returned when the database is closed or the snapshot released.
	ErrClosed = fail.ErrClosed
	// ErrReadOnly is returned by writes to a database opened read-only or through a snapshot.
	ErrReadOnly = fail.ErrReadOnly
	// ErrCorrupt is returned when stored bytes are damaged. A *CorruptError in the chain gives the
	// location, if there is one.
	ErrCorrupt = fail.ErrCorrupt
	// ErrNotDatabase is returned when a file is not an anndb database, or one of a later version.
	ErrNotDatabase = fail.ErrNotDatabase
	// ErrLocked is returned when another process, or another handle, has the file open.
	ErrLocked = fail.ErrLocked
	// ErrUnknownState is returned by a commit that failed, completely or not at all, and by every
	// later write: only reopening the file shows which.
	ErrUnknownState = fail.ErrUnknownState
	// ErrNoSpace is returned when the disk or quota is full, the file would exceed Options.MaxSize,
	// or a collection has used all its row numbers.
	ErrNoSpace = fail.ErrNoSpace
	// ErrBusy is returned by Close if snapshots are still held at its deadline (nothing is
	// unmapped), and by Peek if commits repeatedly overtake it.
	ErrBusy = fail.ErrBusy
)

// CorruptError describes the location of damage. It wraps ErrCorrupt.
type CorruptError struct {
	// Collection is empty if the damage concerns none. Object, Section and Chunk are the block's key,
	// Offset is the position in the file, -1 if unknown.
	Collection string
	Object     uint64
	Section    string
	Chunk      uint32
	Offset     int64
	Err        error
}

// Error returns a message with every known part of the location.
func (e *CorruptError) Error() string {
	s := "db: corrupt data"
	if e.Collection != "" {
		s += fmt.Sprintf(" in collection %q", e.Collection)
	}
	if e.Object != 0 {
		s += fmt.Sprintf(", object %d section %s chunk %d", e.Object, e.Section, e.Chunk)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(", file offset %d", e.Offset)
	}
	return s + ": " + fail.Inner{Err: e.Err}.Error()
}

// Unwrap returns ErrCorrupt and the reason.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

func init() {
	fail.Corrupt = func(d fail.Damage) error {
		e := CorruptError(d)
		return &e
	}
}
