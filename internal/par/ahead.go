package par

import (
	"fmt"
	"iter"
	"runtime/debug"
)

// Ahead iterates over items while another goroutine makes the next one, which has ended when the
// iteration does.
func Ahead[T any](items iter.Seq2[T, error]) iter.Seq2[T, error] {
	type made struct {
		item T
		err  error
	}
	return func(yield func(T, error) bool) {
		next, stop := make(chan made), make(chan struct{})
		var fault any
		go func() {
			defer close(next)
			defer func() {
				if p := recover(); p != nil {
					fault = fmt.Sprintf("%v\n%s", p, debug.Stack())
				}
			}()
			for item, err := range items {
				select {
				case next <- made{item, err}:
				case <-stop:
					return
				}
			}
		}()
		for x := range next {
			if !yield(x.item, x.err) {
				break
			}
		}
		close(stop)
		for range next { // until the goroutine has ended
		}
		if fault != nil {
			panic(fault)
		}
	}
}
