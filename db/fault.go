package db

import (
	"runtime/debug"

	"github.com/anndb/anndb/db/internal/store"
)

// setFaults turns memory faults of this goroutine into panics that guard can convert to errors,
// instead of ending the process. It returns the previous setting.
func setFaults() bool { return store.CatchFaults() }

// guard, deferred as `defer guard(file, setFaults(), &err)` where mapped memory is read,
// converts the effects of a damaged or truncated file to ErrCorrupt, see store.File.Damage. It
// re-raises other panics.
func guard(f *openFile, old bool, err *error) {
	caught(f, recover(), old, err)
}

// caught handles what a deferred call recovered.
func caught(f *openFile, recovered any, old bool, err *error) {
	debug.SetPanicOnFault(old)
	switch r := recovered.(type) {
	case nil:
	case keyFailure:
		*err = r.error
	case callbackPanic:
		panic(r.value)
	default:
		*err = translate(f.Damage(r))
	}
}

// keyFailure carries an error out of a filter; guard recovers and returns it.
type keyFailure struct{ error }

// callbackPanic wraps the panic value of a caller's function, so that guard passes it on and
// does not report it as damage.
type callbackPanic struct{ value any }
