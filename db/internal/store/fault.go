package store

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/anndb/anndb/db/internal/page"
)

// CatchFaults turns memory faults of this goroutine into panics, which Damage converts to
// errors, instead of ending the process. It returns the previous setting.
func CatchFaults() bool { return debug.SetPanicOnFault(true) }

// addressed is implemented by the runtime's memory fault panics.
type addressed interface {
	runtime.Error
	Addr() uintptr
}

// Damage returns the error for a recovered panic that is an effect of a damaged or truncated
// file, with reason page.ErrDamaged: a fault in the map, and the runtime errors and string
// panics of bbolt on an invalid page. It panics with any other value.
func (f *File) Damage(r any) error {
	switch r := r.(type) {
	case addressed:
		return &page.Error{
			Reason: page.ErrDamaged, Offset: f.Offset(r.Addr()), Err: fmt.Errorf("reading the memory map: %w", r),
		}
	case runtime.Error:
		return &page.Error{Reason: page.ErrDamaged, Offset: -1, Err: r}
	case string:
		return refuse(page.ErrDamaged, "page structure: %s", r)
	}
	panic(r)
}

// guard, deferred as `defer f.guard(CatchFaults(), &err)`, sets err to the damage that a panic
// reveals.
func (f *File) guard(old bool, err *error) {
	r := recover()
	debug.SetPanicOnFault(old)
	if r != nil {
		*err = f.Damage(r)
	}
}
