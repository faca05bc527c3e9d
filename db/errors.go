package db

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
)

// Errors of this package. Every returned error wraps one of them, a context's error, or an error of
// the operating system; test with errors.Is. Every call can return ErrClosed, ErrCorrupt and its
// context's error, calls that take names, keys or options ErrNotFound and ErrInvalid, and calls that
// write ErrReadOnly, ErrReplaced, ErrNoSpace and ErrUnknownState; the documentation of a function lists
// the others.
var (
	ErrInvalid     = fail.ErrInvalid     // an argument, option or row breaks a rule or a limit (see the guide)
	ErrNotFound    = fail.ErrNotFound    // no collection, index or live row has the name or key
	ErrExists      = fail.ErrExists      // a collection has the name, or a row to be inserted the key
	ErrUnsuitable  = fail.ErrUnsuitable  // no index can be learned: too few rows, one class, constant features
	ErrClosed      = fail.ErrClosed      // the database is closed, or the snapshot released
	ErrReadOnly    = fail.ErrReadOnly    // a write to a database opened read-only, or through a snapshot
	ErrCorrupt     = fail.ErrCorrupt     // stored bytes are damaged; a *CorruptError in the chain says where
	ErrNotDatabase = fail.ErrNotDatabase // the file is not an anndb database, or one of a later version
	// ErrLocked: another process, or another handle, has the file open; Close found snapshots at its
	// deadline.
	ErrLocked = fail.ErrLocked
	// ErrReplaced: the path of the database leads to no file, or to another one than the one that is
	// open. Every write compares them and fails, reads continue; open the path again. If the file was
	// replaced during a commit, the error wraps ErrUnknownState as well.
	ErrReplaced = fail.ErrReplaced
	// ErrLinked: a compaction would replace one of several names (hard links) of the file, and leave
	// the old file under the others. Other writes continue.
	ErrLinked = fail.ErrLinked
	// ErrUnknownState: a commit has failed, completely or not at all. Every later write of the handle
	// returns it; the file has to be opened again.
	ErrUnknownState = fail.ErrUnknownState
	// ErrNoSpace: the disk, quota, Options.MaxSize or the row numbers of a collection are used up.
	ErrNoSpace = fail.ErrNoSpace
)

// CorruptError describes the location of damage. It wraps ErrCorrupt.
type CorruptError struct {
	Collection string `json:"collection,omitempty"` // empty if the damage concerns none
	Object     uint64 `json:"object,omitempty"`     // Object, Section and Chunk are the block's key
	Section    string `json:"section,omitempty"`
	Chunk      uint32 `json:"chunk,omitempty"`
	Offset     int64  `json:"offset"` // the position in the file, -1 if unknown
	Err        error  `json:"-"`
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
