// Package descent finds a good setting of a model by coordinate descent: all values of one parameter are
// tried after those of another, each with the best setting so far, until a pass over them changes nothing.
package descent

import "context"

// Search looks for the setting S of the largest value. Settings of the same key K are the same.
type Search[S any, K comparable] struct {
	Key func(S) K
	// Measure returns the value of a setting. more is false if it ends the search instead.
	Measure func(context.Context, S) (value float64, more bool, err error)

	// Best is the setting of the largest value, the first one tried of equal ones; at first, where to start.
	Best S
	// Total is the number of settings that have been or are about to be measured.
	Total int

	known           map[K]bool
	measured, gains int
	value           float64 // of Best
	ended           bool
}

// Along returns a coordinate: a function that returns a setting with each of the values in place of its own.
func Along[S, V any](values []V, set func(*S, V)) func(S) []S {
	return func(s S) (out []S) {
		for _, v := range values {
			set(&s, v)
			out = append(out, s)
		}
		return out
	}
}

// Try measures settings, each unless it was measured before or the search has ended. Errors: those of
// Measure.
func (s *Search[S, K]) Try(ctx context.Context, settings ...S) error {
	if s.known == nil {
		s.known = map[K]bool{}
	}
	var fresh []S
	for _, x := range settings {
		if key := s.Key(x); !s.known[key] {
			s.known[key] = true
			fresh = append(fresh, x)
		}
	}
	s.Total = s.measured + len(fresh)
	for _, x := range fresh {
		if s.ended {
			break
		}
		value, more, err := s.Measure(ctx, x)
		if s.ended = err != nil || !more; s.ended {
			return err
		}
		if s.measured++; s.measured == 1 || value > s.value {
			s.Best, s.value = x, value
			s.gains++
		}
	}
	return nil
}

// Descend tries Best and then changes it along one coordinate after the other, in at most so many passes over
// them. It ends with a pass that changes nothing, where Best is no worse than any setting that differs in one
// coordinate.
func (s *Search[S, K]) Descend(ctx context.Context, passes int, coordinates ...func(S) []S) error {
	err := s.Try(ctx, s.Best)
	for range passes {
		before := s.gains
		for _, vary := range coordinates {
			if err != nil || s.ended {
				return err
			}
			err = s.Try(ctx, vary(s.Best)...)
		}
		if s.gains == before {
			break
		}
	}
	return err
}

// Stopped reports whether a channel that ends a search is closed.
func Stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}
