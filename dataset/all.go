package dataset

import (
	"io"
	"iter"
)

// All iterates over the records of a reader. The record is overwritten by the next
// one. An error, which is never io.EOF, ends the iteration.
func All(r Reader) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var rec Record
		for {
			err := r.Read(&rec)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&rec, nil) {
				return
			}
		}
	}
}
