package store

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
// file, with reason page.ErrDamaged: a fault in the map, or a panic of bbolt on an invalid page. It
// panics with any other value, such as that of a function of the caller. A deferred function that
// has recovered the value must call it, since it reads the stack of the panic.
func (f *File) Damage(r any) error {
	if fault, ok := r.(addressed); ok {
		if at := f.Offset(fault.Addr()); at >= 0 {
			return &page.Error{
				Reason: page.ErrDamaged, Offset: at, Err: fmt.Errorf("reading the memory map: %w", fault),
			}
		}
	}
	if !panickedIn(pageReader, thisModule) {
		panic(r)
	}
	return refuse(page.ErrDamaged, "page structure: %v", r)
}

// The modules that read pages, and that call them.
const (
	pageReader = "go.etcd.io/bbolt"
	thisModule = "github.com/anndb/anndb"
)

// panickedIn reports whether the running panic began in a module that another one has called,
// directly or through functions that sort or search for it.
func panickedIn(module, caller string) bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicking, inside := false, false
	for {
		frame, more := frames.Next()
		switch name := frame.Function; {
		case !panicking:
			panicking = name == "runtime.gopanic"
		case within(name, module):
			inside = true
		case within(name, "runtime"):
		case !inside:
			return false
		case !within(name, "sort"):
			return within(name, caller)
		}
		if !more {
			return false
		}
	}
}

// within reports whether a function belongs to a package or to one below it.
func within(function, pkg string) bool {
	rest, ok := strings.CutPrefix(function, pkg)
	return ok && strings.IndexAny(rest, "./") == 0
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
