package apply

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// Op is what a transaction does with one key.
type Op struct {
	ID         uint64 // collection
	Collection string
	What       Kind
	// Insert requires that no row has the key before the transaction, except for Expired.
	Insert  bool
	Expired *Found    // the expired row that has the key; nil if there is none
	Row     rows.Row  // to delete: only the key; to change: key, and the new Cold
	Before  rows.Cold // to change: what the row has before
	Bytes   int
}

// Kind is what an Op does.
type Kind uint8

const (
	Put        Kind = iota // adds a row or replaces it
	Delete                 // deletes the row
	Change                 // changes the Cold of the row
	PutDeleted             // adds a row that is deleted already, which keeps the numbers of later rows
)

// RowBytes is the approximate memory in bytes that a row takes in addition to rows.Row.Size.
const RowBytes = 128

// NonZero returns a copy of s without zeros.
func NonZero(s vector.Sparse) (out vector.Sparse) {
	n := 0
	for _, v := range s.Value {
		if v > 0 {
			n++
		}
	}
	if n == 0 {
		return out
	}
	out = vector.Sparse{Index: make([]uint32, 0, n), Value: make([]float32, 0, n)}
	for i, f := range s.Index {
		if s.Value[i] > 0 {
			out.Index = append(out.Index, f)
			out.Value = append(out.Value, s.Value[i])
		}
	}
	return out
}

// Exists returns the error for a key to be inserted that a row has already.
func Exists(coll string, key []byte) error {
	return fmt.Errorf("%w: key %q in collection %q", fail.ErrExists, key, coll)
}
