// Package fail has the reasons for which calls of package db fail, and the form of their messages:
// each begins with "db: " once.
package fail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The errors that programs decide on; package db documents them.
var (
	ErrInvalid      = errors.New("db: invalid argument")
	ErrNotFound     = errors.New("db: not found")
	ErrExists       = errors.New("db: already exists")
	ErrUnsuitable   = errors.New("db: the rows do not suffice for the index")
	ErrClosed       = errors.New("db: closed")
	ErrReadOnly     = errors.New("db: opened read-only")
	ErrCorrupt      = errors.New("db: corrupt data")
	ErrNotDatabase  = errors.New("db: not an anndb database")
	ErrLocked       = errors.New("db: file is in use")
	ErrReplaced     = errors.New("db: the path does not lead to the open file any more")
	ErrLinked       = errors.New("db: the file has other names")
	ErrUnknownState = errors.New("db: a commit failed, reopen to learn its outcome")
	ErrNoSpace      = errors.New("db: no space left")
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
	Option       = &Reason{"invalid option", ErrInvalid}
	Name         = &Reason{"invalid name", ErrInvalid}
	Dimension    = &Reason{"wrong dimension", ErrInvalid}
	NotFinite    = &Reason{"vector is not finite", ErrInvalid}
	Norm         = &Reason{"vector length out of range", ErrInvalid}
	Features     = &Reason{"invalid features", ErrInvalid}
	Kind         = &Reason{"wrong kind of collection", ErrInvalid}
	Key          = &Reason{"invalid key", ErrInvalid}
	Label        = &Reason{"invalid label", ErrInvalid}
	Text         = &Reason{"invalid text", ErrInvalid}
	Payload      = &Reason{"payload too large", ErrInvalid}
	Attribute    = &Reason{"invalid attribute", ErrInvalid}
	K            = &Reason{"k is out of range", ErrInvalid}
	Filter       = &Reason{"invalid filter", ErrInvalid}
	Empty        = &Reason{"collection is empty", ErrUnsuitable}
	Full         = &Reason{"collection is full", ErrNoSpace}
	NoCollection = &Reason{"no such collection", ErrNotFound}
	NoIndex      = &Reason{"no such index", ErrNotFound}
	NoRow        = &Reason{"no such row", ErrNotFound}
	NewerFormat  = &Reason{"written by a newer version", ErrNotDatabase}
	Truncated    = &Reason{"file is truncated", ErrCorrupt}
	Held         = &Reason{"snapshots still in use", ErrLocked}
	Changing     = &Reason{"the file changes all the time", ErrLocked}
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

// Context refuses a nil context.
func Context(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil: use context.Background()", Option)
	}
	return nil
}

// NoIndexNamed returns the error for an index that a collection with the indexes have lacks.
func NoIndexNamed(name, coll string, have []string) error {
	if len(have) == 0 {
		return fmt.Errorf("%w: %q in collection %q, which has none", NoIndex, name, coll)
	}
	return fmt.Errorf("%w: %q in collection %q, which has %q", NoIndex, name, coll, have)
}

// NoCollectionNamed returns the error for a collection that a file with the collections have lacks. It does
// not list those that a node of a cluster has for itself, whose names begin with a dot.
func NoCollectionNamed(name string, have []string) error {
	have = slices.DeleteFunc(have, func(other string) bool { return strings.HasPrefix(other, ".") })
	switch slices.Sort(have); {
	case len(have) == 0:
		return fmt.Errorf("%w: %q, the file has none", NoCollection, name)
	case len(have) > 8: // more do not help
		return fmt.Errorf("%w: %q, the file has %d others", NoCollection, name, len(have))
	}
	return fmt.Errorf("%w: %q, the file has %q", NoCollection, name, have)
}

// Damage describes the location of damage: the fields of db.CorruptError.
type Damage struct {
	Collection string
	Object     uint64
	Section    string
	Chunk      uint32
	Offset     int64
	Err        error
}

// Corrupt returns the error for damage. Package db replaces it by a function that returns a
// *db.CorruptError, whose type is public and which the packages below db cannot name.
var Corrupt = func(d Damage) error { return fmt.Errorf("%w: %w", ErrCorrupt, d.Err) }

// Corruptf returns an error for damage that concerns no single block.
func Corruptf(coll, format string, a ...any) error {
	return Corrupt(Damage{Collection: coll, Offset: -1, Err: fmt.Errorf(format, a...)})
}
