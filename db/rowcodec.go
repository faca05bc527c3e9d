package db

import (
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// newRow is a row of a transaction.
type newRow struct {
	rows.Row
	features []Feature // named, until the transaction gives them numbers
}

// checkRow checks a row against its collection.
func checkRow(r *Row, c *layout.Collection) error {
	if err := layout.CheckKey(r.Key); err != nil {
		return err
	}
	if c.Sparse {
		if err := checkSparse(r, c.Named); err != nil {
			return fail.Wrapf(err, "key %q", r.Key)
		}
	} else if err := checkDense(r, c.Dim, c.Metric); err != nil {
		return err
	}
	if err := checkLabels(r.Key, r.Labels); err != nil {
		return err
	}
	return checkPayload(r.Key, r.Payload)
}

// checkLabels checks the labels of a row.
func checkLabels(key []byte, labels []string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%w: key %q has %d labels, want at most %d", fail.Label, key, len(labels), MaxLabels)
	}
	for _, l := range labels {
		if l == "" || len(l) > MaxKey {
			return fmt.Errorf("%w: key %q has a label of %d bytes, want 1 to %d", fail.Label, key, len(l), MaxKey)
		}
	}
	return nil
}

// checkPayload checks the payload of a row.
func checkPayload(key, payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: key %q has %d bytes, want at most %d", fail.Payload, key, len(payload), MaxPayload)
	}
	return nil
}

// checkDense checks the vector of a row for a dense collection.
func checkDense(r *Row, dim int, metric vector.Metric) error {
	if r.Sparse.Len() > 0 || len(r.Features) > 0 {
		return fmt.Errorf("%w: key %q has sparse features, the collection is dense", fail.Kind, r.Key)
	}
	if len(r.Vector) != dim {
		return fmt.Errorf("%w: key %q has %d coordinates, want %d", fail.Dimension, r.Key, len(r.Vector), dim)
	}
	if i := vector.IsFinite(r.Vector); i >= 0 {
		return fmt.Errorf("%w: key %q coordinate %d is %g", fail.NotFinite, r.Key, i, r.Vector[i])
	}
	if err := checkNorm(r.Vector, metric); err != nil {
		return fail.Wrapf(err, "key %q", r.Key)
	}
	return nil
}

// checkNorm checks that distances can be computed from the length of a finite row: a length
// that overflows would make them infinite or NaN, one that underflows would make them equal.
func checkNorm(x []float32, metric vector.Metric) error {
	n := float64(vector.Dot(x, x))
	if n > math.MaxFloat32 || math.IsNaN(n) {
		return fmt.Errorf("%w: length %.3g, want less than %.3g", fail.Norm, math.Sqrt(kind.SquaredNorm(x)), MaxNorm)
	}
	least := MinNorm
	if metric == vector.Cosine {
		least = MinCosineNorm
	}
	if n > 4*MinNorm*MinNorm {
		return nil
	}
	if length := math.Sqrt(kind.SquaredNorm(x)); length > 0 && length < least {
		return fmt.Errorf("%w: length %.3g, want 0 or at least %.3g (multiply all vectors by a constant)",
			fail.Norm, length, least)
	}
	return nil
}

// copyRow returns the row in the form in which it is stored. It shares no memory with the
// caller.
func copyRow(r *Row) newRow {
	out := newRow{Row: rows.Row{
		Key: slices.Clone(r.Key), Vector: slices.Clone(r.Vector), Sparse: nonZero(r.Sparse),
		Labels: labelSet(r.Labels), Payload: slices.Clone(r.Payload),
	}}
	out.features = slices.Clone(r.Features)
	return out
}

// labelSet returns labels as they are stored: ascending, none twice.
func labelSet(labels []string) []string {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	return slices.Compact(labels)
}

// coldSize returns the approximate size in bytes of a row's labels and payload.
func (r *newRow) coldSize() int {
	n := len(r.Payload)
	for _, l := range r.Labels {
		n += len(l)
	}
	return n
}

// row returns a copy of the row for reads of its transaction.
func (r *newRow) row() Row {
	return Row{
		Key: slices.Clone(r.Key), Vector: slices.Clone(r.Vector),
		Sparse:   vector.Sparse{Index: slices.Clone(r.Sparse.Index), Value: slices.Clone(r.Sparse.Value)},
		Features: slices.Clone(r.features), Labels: slices.Clone(r.Labels), Payload: slices.Clone(r.Payload),
	}
}
