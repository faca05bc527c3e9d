// Package fail has the reasons for which calls of package db fail, and the form of their messages:
// each begins with "db: " once.
package fail

import (
	"errors"
	"fmt"
	"strings"
)

// The errors that programs decide on; package db documents them.
var (
	Invalid      = errors.New("db: invalid argument")
	NotFound     = errors.New("db: not found")
	Exists       = errors.New("db: already exists")
	Unsuitable   = errors.New("db: the rows do not suffice for the index")
	Closed       = errors.New("db: closed")
	ReadOnly     = errors.New("db: opened read-only")
	Corrupt      = errors.New("db: corrupt data")
	NotDatabase  = errors.New("db: not an anndb database")
	Locked       = errors.New("db: file is in use")
	UnknownState = errors.New("db: a commit failed, reopen to learn its outcome")
	NoSpace      = errors.New("db: no space left")
	Busy         = errors.New("db: busy")
)

// Reason is why a call failed, in more detail than programs decide on: it has its own text and
// wraps one of the errors above.
type Reason struct {
	text string
	is   error
}

func (r *Reason) Error() string { return Prefix + r.text }

func (r *Reason) Unwrap() error { return r.is }

var (
	Option       = &Reason{"invalid option", Invalid}
	Name         = &Reason{"invalid name", Invalid}
	Dimension    = &Reason{"wrong dimension", Invalid}
	NotFinite    = &Reason{"vector is not finite", Invalid}
	Norm         = &Reason{"vector length out of range", Invalid}
	Features     = &Reason{"invalid features", Invalid}
	Kind         = &Reason{"wrong kind of collection", Invalid}
	Key          = &Reason{"invalid key", Invalid}
	Label        = &Reason{"invalid label", Invalid}
	Payload      = &Reason{"payload too large", Invalid}
	K            = &Reason{"k is out of range", Invalid}
	Filter       = &Reason{"invalid row filter", Invalid}
	Empty        = &Reason{"collection is empty", Unsuitable}
	Full         = &Reason{"collection is full", NoSpace}
	NoCollection = &Reason{"no such collection", NotFound}
	NoIndex      = &Reason{"no such index", NotFound}
	NoRow        = &Reason{"no such row", NotFound}
	NewerFormat  = &Reason{"written by a newer version", NotDatabase}
	Truncated    = &Reason{"file is truncated", Corrupt}
	Held         = &Reason{"snapshots still in use", Busy}
	Changing     = &Reason{"the file changes all the time", Busy}
)

// Prefix begins every message of this package; it appears once per message.
const Prefix = "db: "

// Inner is an error within the message of another one; it omits the prefix.
type Inner struct{ Err error }

func (e Inner) Error() string { return strings.TrimPrefix(e.Err.Error(), Prefix) }

func (e Inner) Unwrap() error { return e.Err }

// Wrapf returns err with a context prepended to its message.
func Wrapf(err error, format string, a ...any) error {
	return fmt.Errorf(Prefix+format+": %w", append(a, Inner{err})...)
}
