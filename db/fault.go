package db

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// setFaults makes memory faults of this goroutine panics that guard can turn
// into errors, instead of the death of the process.
func setFaults() bool { return debug.SetPanicOnFault(true) }

// guard, deferred as `defer guard(store, setFaults(), &err)` where mapped
// memory is touched, turns what a damaged or shortened file can do to us into
// ErrCorrupt: a fault in the map, and the runtime errors and string panics of
// bbolt when a page is nonsense. Other panics are somebody else's and go on.
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
