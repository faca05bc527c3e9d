package layout

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// CheckRow checks a row of a collection, by its Features if they have names.
func CheckRow(c *Collection, r *rows.Row) error {
	if err := CheckKey(r.Key); err != nil {
		return err
	}
	if c.Sparse {
		if err := checkSparse(c, r); err != nil {
			return fail.Wrapf(err, "key %q", r.Key)
		}
	}
	if c.Dim > 0 && (r.Vector != nil || !c.Sparse) {
		if err := CheckVector(r.Key, r.Vector, c.Dim, c.Metric); err != nil {
			return err
		}
	}
	if err := CheckLabels(r.Key, r.Labels); err != nil {
		return err
	}
	return CheckPayload(r.Key, r.Payload)
}

func checkSparse(c *Collection, r *rows.Row) error {
	if c.Named {
		return CheckNamed(r.Features)
	}
	return CheckNumbered(r.Sparse)
}

// CheckKey checks the length of a user key.
func CheckKey(key []byte) error {
	if len(key) < 1 || len(key) > rows.MaxKey {
		return fmt.Errorf("%w: %.40q has %d bytes, want 1 to %d", fail.Key, key, len(key), rows.MaxKey)
	}
	return nil
}

// CheckLabels checks the labels of a row.
func CheckLabels(key []byte, labels []string) error {
	if len(labels) > rows.MaxLabels {
		return fmt.Errorf("%w: key %q has %d labels, want at most %d", fail.Label, key, len(labels), rows.MaxLabels)
	}
	for _, l := range labels {
		if l == "" || len(l) > rows.MaxKey {
			return fmt.Errorf("%w: key %q has a label of %d bytes, want 1 to %d", fail.Label, key, len(l), rows.MaxKey)
		}
	}
	return nil
}

// CheckPayload checks the payload of a row.
func CheckPayload(key, payload []byte) error {
	if len(payload) > rows.MaxPayload {
		return fmt.Errorf("%w: key %q has %d bytes, want at most %d",
			fail.Payload, key, len(payload), rows.MaxPayload)
	}
	return nil
}

// CheckVector checks the vector of a row with this key for a dense collection.
func CheckVector(key []byte, x []float32, dim int, metric vector.Metric) error {
	if len(x) != dim {
		return fmt.Errorf("%w: key %q has %d coordinates, want %d", fail.Dimension, key, len(x), dim)
	}
	if i := vector.IsFinite(x); i >= 0 {
		return fmt.Errorf("%w: key %q coordinate %d is %g", fail.NotFinite, key, i, x[i])
	}
	if err := checkNorm(x, metric); err != nil {
		return fail.Wrapf(err, "key %q", key)
	}
	return nil
}

// checkNorm checks that distances can be computed from the length of a finite row: a length
// that overflows would make them infinite or NaN, one that underflows would make them equal.
func checkNorm(x []float32, metric vector.Metric) error {
	n := float64(vector.Dot(x, x))
	if n > math.MaxFloat32 || math.IsNaN(n) {
		return fmt.Errorf("%w: length %.3g, want less than %.3g",
			fail.Norm, math.Sqrt(kind.SquaredNorm(x)), kind.MaxNorm)
	}
	least := kind.MinNorm
	if metric == vector.Cosine {
		least = kind.MinCosineNorm
	}
	if n > 4*kind.MinNorm*kind.MinNorm {
		return nil
	}
	if length := math.Sqrt(kind.SquaredNorm(x)); length > 0 && length < least {
		return fmt.Errorf("%w: length %.3g, want 0 or at least %.3g (multiply all vectors by a constant)",
			fail.Norm, length, least)
	}
	return nil
}

// CheckNumbered checks a sparse vector given by a caller.
func CheckNumbered(s vector.Sparse) error {
	if s.Len() > rows.MaxFeatures {
		return tooManyFeatures()
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", fail.Features, err)
	}
	for i, f := range s.Index {
		if f > kind.MaxFeature {
			return fmt.Errorf("%w: feature %d, want at most %d", fail.Features, f, kind.MaxFeature)
		}
		if s.Value[i] < 0 {
			return fmt.Errorf("%w: feature %d has the negative value %g", fail.Features, f, s.Value[i])
		}
	}
	return nil
}

// CheckNamed checks named features.
func CheckNamed(features []vector.Feature) error {
	if len(features) > rows.MaxFeatures {
		return tooManyFeatures()
	}
	seen := make(map[string]bool, len(features))
	for _, f := range features {
		name, v := f.Name, float64(f.Value)
		switch {
		case name == "" || len(name) > rows.MaxKey || !utf8.ValidString(name):
			return fmt.Errorf("%w: name %.40q (want 1 to %d bytes of UTF-8)", fail.Features, name, rows.MaxKey)
		case seen[name]:
			return fmt.Errorf("%w: %q is given twice", fail.Features, name)
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			return fmt.Errorf("%w: %q has the value %g", fail.Features, name, v)
		}
		seen[name] = true
	}
	return nil
}

func tooManyFeatures() error { return fmt.Errorf("%w: more than %d", fail.Features, rows.MaxFeatures) }
