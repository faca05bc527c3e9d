package arrays

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/verified"
)

// Source is what a Reader reads from.
type Source interface {
	// Blocks returns the verified payloads of the blocks of a section of an object.
	Blocks(ctx context.Context, object uint64, kind codec.Kind) ([][]byte, error)
	// Damage returns the error for an object whose arrays are inconsistent.
	Damage(object uint64, err error) error
	// Once runs a check of arrays unless it has passed before, see verified.Checks.
	Once(key verified.Key, bound int, check func() error) error
}

// Reader reads the arrays of one object.
type Reader struct {
	Object uint64
	// Err is the first error. Nothing is read after it.
	Err error
	ctx context.Context
	src Source
}

// NewReader returns a reader of an object's arrays.
func NewReader(ctx context.Context, src Source, object uint64) *Reader {
	return &Reader{ctx: ctx, src: src, Object: object}
}

// Of returns a reader of another object of the same index. It starts with the error of this
// reader.
func (r *Reader) Of(object uint64) *Reader {
	return &Reader{ctx: r.ctx, src: r.src, Object: object, Err: r.Err}
}

// Blocks returns the payloads of the blocks of a section, in order.
func (r *Reader) Blocks(kind codec.Kind) [][]byte {
	if r.Err != nil {
		return nil
	}
	var out [][]byte
	out, r.Err = r.src.Blocks(r.ctx, r.Object, kind)
	return out
}

// ReadRows returns views of n rows of cols elements in blocks of 1<<shift rows.
func ReadRows[T codec.Number](r *Reader, kind codec.Kind, n, cols int, shift uint) [][]T {
	parts := r.Blocks(kind)
	var zero T
	width := cols * int(unsafe.Sizeof(zero))
	r.Need(covers(parts, n, width, shift), fmt.Sprintf("%v does not cover the rows", kind))
	if r.Err != nil {
		return nil
	}
	out := make([][]T, len(parts))
	for i := range parts {
		out[i] = numbers[T](r, parts, i, len(parts[i])/int(unsafe.Sizeof(zero)))
	}
	return out
}

// covers reports whether blocks of 1<<shift rows of width bytes hold n rows.
func covers(parts [][]byte, n, width int, shift uint) bool {
	per := 1 << shift
	if len(parts) != (n+per-1)/per {
		return false
	}
	for i, p := range parts {
		if len(p) < min(per, n-i*per)*width {
			return false
		}
	}
	return true
}

// numbers returns a view of a block as n numbers. If n is zero, the block must be absent.
func numbers[T codec.Number](r *Reader, parts [][]byte, number, n int) []T {
	if r.Err != nil || n == 0 {
		return nil
	}
	if number >= len(parts) {
		r.Fail("block %d is missing", number)
		return nil
	}
	v, err := codec.View[T](parts[number], n)
	if err != nil {
		r.Fail("block %d: %v", number, err)
	}
	return v
}

// Need records damage if ok is false.
func (r *Reader) Need(ok bool, what string) {
	if r.Err == nil && !ok {
		r.Fail("%s", what)
	}
}

// Fail records damage.
func (r *Reader) Fail(format string, a ...any) {
	r.Err = r.src.Damage(r.Object, fmt.Errorf(format, a...))
}

// Once runs a check of the arrays read and records damage, unless the check has passed before
// with this bound or a lower one. shape describes what the check uses besides the arrays.
func (r *Reader) Once(role verified.Role, shape string, bound int, check func() error) {
	if r.Err != nil {
		return
	}
	err := r.src.Once(verified.Key{Object: r.Object, Role: role, Shape: shape}, bound, check)
	if err != nil && r.Err == nil {
		r.Fail("%w", err)
	}
}
