package db

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/vector"
)

// checkSparse checks the vector of a row for a sparse collection.
func checkSparse(r *Row, named bool) error {
	switch {
	case r.Vector != nil:
		return fmt.Errorf("%w: a dense vector, the collection is sparse", fail.Kind)
	case named && r.Sparse.Len() > 0:
		return fmt.Errorf("%w: numbered features, the collection's have names", fail.Kind)
	case !named && len(r.Features) > 0:
		return fmt.Errorf("%w: named features, the collection's are numbers", fail.Kind)
	case r.Sparse.Len() > MaxFeatures || len(r.Features) > MaxFeatures:
		return fmt.Errorf("%w: more than %d", fail.Features, MaxFeatures)
	}
	if err := checkNumbered(r.Sparse); err != nil {
		return err
	}
	return checkNamed(r.Features)
}

// checkNumbered checks a sparse vector given by a caller.
func checkNumbered(s vector.Sparse) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", fail.Features, err)
	}
	for i, f := range s.Index {
		if f > MaxFeature {
			return fmt.Errorf("%w: feature %d, want at most %d", fail.Features, f, MaxFeature)
		}
		if s.Value[i] < 0 {
			return fmt.Errorf("%w: feature %d has the negative value %g", fail.Features, f, s.Value[i])
		}
	}
	return nil
}

// checkNamed checks named features given by a caller.
func checkNamed(features []Feature) error {
	seen := make(map[string]bool, len(features))
	for _, f := range features {
		v := float64(f.Value)
		switch {
		case f.Name == "" || len(f.Name) > MaxKey || !utf8.ValidString(f.Name):
			return fmt.Errorf("%w: name %q (want 1 to %d bytes of UTF-8)", fail.Features, f.Name, MaxKey)
		case seen[f.Name]:
			return fmt.Errorf("%w: %q is given twice", fail.Features, f.Name)
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			return fmt.Errorf("%w: %q has the value %g", fail.Features, f.Name, v)
		}
		seen[f.Name] = true
	}
	return nil
}

// nonZero returns a copy of s without zeros.
func nonZero(s vector.Sparse) (out vector.Sparse) {
	for i, f := range s.Index {
		if s.Value[i] > 0 {
			out.Index = append(out.Index, f)
			out.Value = append(out.Value, s.Value[i])
		}
	}
	return out
}
