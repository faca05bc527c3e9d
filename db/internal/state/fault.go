package state

import (
	"runtime/debug"

	"github.com/anndb/anndb/db/internal/store"
)

// CatchFaults turns memory faults of this goroutine into panics that Guard can convert to errors,
// instead of ending the process. It returns the previous setting.
func CatchFaults() bool { return store.CatchFaults() }

// Guard, deferred as `defer Guard(file, CatchFaults(), &err)` where mapped memory is read,
// converts the effects of a damaged or truncated file to ErrCorrupt, see store.File.Damage. It
// re-raises other panics.
func Guard(f *File, old bool, err *error) {
	caught(f, recover(), old, err)
}

// caught handles what a deferred call recovered.
func caught(f *File, recovered any, old bool, err *error) {
	debug.SetPanicOnFault(old)
	switch r := recovered.(type) {
	case nil:
	case KeyFailure:
		*err = r.Err
	default:
		*err = Translate(f.Damage(r))
	}
}

// KeyFailure carries an error out of a filter; Guard recovers and returns it.
type KeyFailure struct{ Err error }
