package db

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/codec"
)

// Errors of this package. Every returned error wraps one of them, a context's
// error, or an error of the operating system; test with errors.Is.
var (
	// ErrClosed is returned when the database is closed or the snapshot released.
	ErrClosed = errors.New("db: closed")
	// ErrReadOnly is returned by writes to a database opened read-only.
	ErrReadOnly = errors.New("db: opened read-only")
	// ErrOption is returned when an option has an invalid value.
	ErrOption = errors.New("db: invalid option")
	// ErrName is returned for the name of a collection or an index that is empty,
	// longer than MaxName bytes, not valid UTF-8, or has control characters.
	ErrName = errors.New("db: invalid name")
	// ErrDimension is returned when the length of a vector differs from the dimension of its
	// collection.
	ErrDimension = errors.New("db: wrong dimension")
	// ErrNotFinite is returned when a vector holds NaN or an infinity.
	ErrNotFinite = errors.New("db: vector is not finite")
	// ErrNorm is returned when a vector's length is so large, or so small without being zero,
	// that float32 cannot represent its square: see MaxNorm, MinNorm and MinCosineNorm.
	ErrNorm = errors.New("db: vector length out of range")
	// ErrFeatures is returned when a sparse row's features are negative,
	// repeated, out of order, too large or too many, or have bad names.
	ErrFeatures = errors.New("db: invalid features")
	// ErrKind is returned for a dense row or query to a sparse collection and vice versa, or
	// for an operation that the kind does not support.
	ErrKind = errors.New("db: wrong kind of collection")
	// ErrKey is returned for a key that is empty or longer than MaxKey bytes.
	ErrKey = errors.New("db: invalid key")
	// ErrLabel is returned for a label that is empty or longer than MaxKey
	// bytes, or for more than MaxLabels labels on one row.
	ErrLabel = errors.New("db: invalid label")
	// ErrPayload is returned for a payload longer than MaxPayload bytes.
	ErrPayload = errors.New("db: payload too large")
	// ErrEmpty is returned when a collection has no live rows, or none with a
	// label, to build an index over. Searches of an empty collection find nothing.
	ErrEmpty = errors.New("db: collection is empty")
	// ErrUnsuitable is returned by Build when an index cannot be learned from the rows: too few
	// rows, a single class, only constant features, or feature numbers so large that a label
	// model or weights, which store numbers for each feature up to the largest, would be far
	// larger than the rows: above 2^22 and eight times the number of values of all rows. Named
	// features have no such gaps.
	ErrUnsuitable = errors.New("db: the rows do not suffice for the index")
	// ErrK is returned when the number of requested rows is below 1. A number above the number
	// of rows requests all rows.
	ErrK = errors.New("db: k is out of range")
	// ErrFilter is returned for a RowFilter of another collection, or of row numbers that have
	// changed since it was made.
	ErrFilter = errors.New("db: invalid row filter")
	// ErrFull is returned when a collection has used all its row numbers.
	ErrFull = errors.New("db: collection is full")
	// ErrNoCollection is returned when no collection has the name.
	ErrNoCollection = errors.New("db: no such collection")
	// ErrNoIndex is returned when the collection has no index of the name.
	ErrNoIndex = errors.New("db: no such index")
	// ErrNotFound is returned when no live row has the key or number.
	ErrNotFound = errors.New("db: no such row")
	// ErrExists is returned when a collection of the name, or a row of a key to be
	// inserted, exists already.
	ErrExists = errors.New("db: already exists")
	// ErrCorrupt is returned when stored bytes are damaged. A *CorruptError in the chain gives
	// the location.
	ErrCorrupt = errors.New("db: corrupt data")
	// ErrNotDatabase is returned when a file is not an anndb database.
	ErrNotDatabase = errors.New("db: not an anndb database")
	// ErrNewerFormat is returned when a file was written by a later version.
	ErrNewerFormat = errors.New("db: written by a newer version")
	// ErrTruncated is returned when a file is shorter than its header states.
	ErrTruncated = errors.New("db: file is truncated")
	// ErrLocked is returned when another process, or another handle of this process, has the
	// file open.
	ErrLocked = errors.New("db: file is in use")
	// ErrStateUnknown is returned by a commit that failed and by every later write: the commit
	// happened completely or not at all, and only reopening the file shows which.
	ErrStateUnknown = errors.New("db: a commit failed, reopen to learn its outcome")
	// ErrNoSpace is returned when a commit failed because the disk or quota is full, or because
	// the file would exceed Options.MaxSize.
	ErrNoSpace = errors.New("db: no space left")
	// ErrBusy is returned by Close when snapshots are still held at its deadline. Nothing is
	// unmapped; Close may be called again.
	ErrBusy = errors.New("db: snapshots still in use")
	// ErrChanging is returned by Peek when commits repeatedly overtake it, and by Compact if
	// collections differ from those that it copied, which its locks prevent.
	ErrChanging = errors.New("db: the file changes all the time")
)

// CorruptError describes the location of damage. errors.Is(err, ErrCorrupt) holds.
type CorruptError struct {
	// Collection is the collection's name, empty if the damage concerns none.
	Collection string
	// Object, Section and Chunk are the block's key.
	Object  uint64
	Section codec.Kind
	Chunk   uint32
	// Offset is the position in the file, -1 if unknown.
	Offset int64
	// Err is the reason.
	Err error
}

// Error returns a message with every known part of the location.
func (e *CorruptError) Error() string {
	s := "db: corrupt data"
	if e.Collection != "" {
		s += fmt.Sprintf(" in collection %q", e.Collection)
	}
	if e.Object != 0 {
		s += fmt.Sprintf(", object %d section %v chunk %d", e.Object, e.Section, e.Chunk)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(", file offset %d", e.Offset)
	}
	return s + ": " + innerError{e.Err}.Error()
}

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the reason.
func (e *CorruptError) Unwrap() error { return e.Err }

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

// corruptf returns an error for damage that concerns no single block.
func corruptf(coll, format string, a ...any) error {
	return &CorruptError{Collection: coll, Offset: -1, Err: fmt.Errorf(format, a...)}
}

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

// asSystem restores the reason of an error of bbolt, which includes the reasons of a failed
// resize, of the sync after it and of the first pages of a copy only as text. It adds
// ErrNoSpace to errors that mean a lack of space.
func asSystem(err error) error {
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
