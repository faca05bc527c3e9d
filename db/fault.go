package db

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// setFaults turns memory faults of this goroutine into panics that guard can convert to errors,
// instead of ending the process. It returns the previous setting.
func setFaults() bool { return debug.SetPanicOnFault(true) }

// guard, deferred as `defer guard(store, setFaults(), &err)` where mapped memory is read,
// converts the effects of a damaged or truncated file to ErrCorrupt: a fault in the map, and
// the runtime errors and string panics of bbolt on an invalid page. It re-raises other panics.
func guard(s *store, old bool, err *error) {
	r := recover()
	debug.SetPanicOnFault(old)
	switch r := r.(type) {
	case nil:
	case keyFailure:
		*err = r.error
	case callbackPanic:
		panic(r.value)
	case addressed:
		*err = &CorruptError{Offset: s.offset(r.Addr()), Err: fmt.Errorf("reading the memory map: %w", r)}
	case runtime.Error:
		*err = &CorruptError{Offset: -1, Err: r}
	case string:
		*err = &CorruptError{Offset: -1, Err: fmt.Errorf("page structure: %s", r)}
	default:
		panic(r)
	}
}
