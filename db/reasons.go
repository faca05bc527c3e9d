package db

import (
	"errors"
	"fmt"
	"strings"
)

// The errors that programs decide on; package db documents them.
var (
	isInvalid      = errors.New("db: invalid argument")
	isNotFound     = errors.New("db: not found")
	isExists       = errors.New("db: already exists")
	isUnsuitable   = errors.New("db: the rows do not suffice for the index")
	isClosed       = errors.New("db: closed")
	isReadOnly     = errors.New("db: opened read-only")
	isCorrupt      = errors.New("db: corrupt data")
	isNotDatabase  = errors.New("db: not an anndb database")
	isLocked       = errors.New("db: file is in use")
	isUnknownState = errors.New("db: a commit failed, reopen to learn its outcome")
	isNoSpace      = errors.New("db: no space left")
	isBusy         = errors.New("db: busy")
)

// reason is why a call failed, in more detail than programs decide on: it has its own text and
// wraps one of the errors above.
type reason struct {
	text string
	is   error
}

func (r *reason) Error() string { return prefix + r.text }

func (r *reason) Unwrap() error { return r.is }

var (
	errOption       = &reason{"invalid option", isInvalid}
	errName         = &reason{"invalid name", isInvalid}
	errDimension    = &reason{"wrong dimension", isInvalid}
	errNotFinite    = &reason{"vector is not finite", isInvalid}
	errNorm         = &reason{"vector length out of range", isInvalid}
	errFeatures     = &reason{"invalid features", isInvalid}
	errKind         = &reason{"wrong kind of collection", isInvalid}
	errKey          = &reason{"invalid key", isInvalid}
	errLabel        = &reason{"invalid label", isInvalid}
	errPayload      = &reason{"payload too large", isInvalid}
	errK            = &reason{"k is out of range", isInvalid}
	errFilter       = &reason{"invalid row filter", isInvalid}
	errEmpty        = &reason{"collection is empty", isUnsuitable}
	errFull         = &reason{"collection is full", isNoSpace}
	errNoCollection = &reason{"no such collection", isNotFound}
	errNoIndex      = &reason{"no such index", isNotFound}
	errNoRow        = &reason{"no such row", isNotFound}
	errNewerFormat  = &reason{"written by a newer version", isNotDatabase}
	errTruncated    = &reason{"file is truncated", isCorrupt}
	errHeld         = &reason{"snapshots still in use", isBusy}
	errChanging     = &reason{"the file changes all the time", isBusy}
)

// prefix begins every message of this package; it appears once per message.
const prefix = "db: "

// innerError is an error within the message of another one; it omits the prefix.
type innerError struct{ err error }

func (e innerError) Error() string { return strings.TrimPrefix(e.err.Error(), prefix) }

func (e innerError) Unwrap() error { return e.err }

// wrapf returns err with a context prepended to its message.
func wrapf(err error, format string, a ...any) error {
	return fmt.Errorf(prefix+format+": %w", append(a, innerError{err})...)
}
