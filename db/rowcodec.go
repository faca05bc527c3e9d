package db

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
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
	if err := layout.CheckLabels(r.Key, r.Labels); err != nil {
		return err
	}
	return layout.CheckPayload(r.Key, r.Payload)
}

// checkDense checks the vector of a row for a dense collection.
func checkDense(r *Row, dim int, metric vector.Metric) error {
	if r.Sparse.Len() > 0 || len(r.Features) > 0 {
		return fmt.Errorf("%w: key %q has sparse features, the collection is dense", fail.Kind, r.Key)
	}
	return layout.CheckVector(r.Key, r.Vector, dim, metric)
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
