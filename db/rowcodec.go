package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// CheckRow returns the error for which Put would refuse a row, but for errors of the database, as in an
// import that leaves out bad rows. The attributes of a row that passes have their types in the checks of
// later rows, as if it was stored. That of a collection yet to be made needs only a Schema.
func (i *CollectionInfo) CheckRow(r Row) error {
	s, err := i.Schema.resolve()
	if err != nil {
		return err
	}
	c := &layout.Collection{Name: i.Name}
	s.describe(c)
	if err := checkRow(&r, c); err != nil {
		return err
	}
	// Shorter texts have fewer terms.
	if c.Text != nil && (len(r.Text) > rows.MaxFeatures || c.Text.Pairs > 0) {
		if _, err := termsOf(r.Text, c.Text); err != nil {
			return fail.Wrapf(err, "key %q", r.Key)
		}
	}
	var cold rows.Cold
	if err := setAttributes(&cold, r.Key, r.Attributes, r.ExpiresAt); err != nil {
		return err
	}
	if i.types == nil {
		i.types = map[string]attribute.Type{}
	}
	return apply.NewNames{c.ID: i.types}.Check(c, r.Key, cold.Attributes)
}

// checkRow checks a row against its collection.
func checkRow(r *Row, c *layout.Collection) error {
	if err := layout.CheckKey(r.Key); err != nil {
		return err
	}
	if err := checkParts(r, c); err != nil {
		return fail.Wrapf(err, "key %q", r.Key)
	}
	if c.Dim > 0 && (r.Vector != nil || !c.Sparse) {
		if err := layout.CheckVector(r.Key, r.Vector, c.Dim, c.Metric); err != nil {
			return ofModel(err, c)
		}
	}
	if err := layout.CheckLabels(r.Key, r.Labels); err != nil {
		return err
	}
	return layout.CheckPayload(r.Key, r.Payload)
}

// ofModel adds to an error about a dimension what made the vectors of a collection.
func ofModel(err error, c *layout.Collection) error {
	if model := c.Meta["model"]; model != "" && errors.Is(err, fail.Dimension) {
		return fmt.Errorf("%w, the vectors of model %q", err, model)
	}
	return err
}

// checkParts checks which parts a row has, and its features.
func checkParts(r *Row, c *layout.Collection) error {
	switch {
	case c.Dim == 0 && r.Vector != nil:
		return fmt.Errorf("%w: a dense vector, the collection is sparse", fail.Kind)
	case c.Text != nil:
		return checkText(r)
	case r.Text != "":
		return fmt.Errorf("%w: a text, and the collection has none (Schema.Text)", fail.Kind)
	case c.Sparse:
		return checkSparse(r, c.Named)
	case r.Sparse.Len() > 0 || len(r.Features) > 0:
		return fmt.Errorf("%w: sparse features, the collection is dense", fail.Kind)
	}
	return nil
}

// checkSparse checks the vector of a row for a sparse collection.
func checkSparse(r *Row, named bool) error {
	switch {
	case named && r.Sparse.Len() > 0:
		return fmt.Errorf("%w: numbered features, the collection's have names", fail.Kind)
	case !named && len(r.Features) > 0:
		return fmt.Errorf("%w: named features, the collection's are numbers", fail.Kind)
	}
	if named {
		return layout.CheckNamed(r.Features)
	}
	return layout.CheckNumbered(r.Sparse)
}

// copyRow returns the row in the form in which it is stored. It shares no memory with the
// caller. It checks the attributes and the terms of the text, and nothing else.
func copyRow(r *Row, c *layout.Collection, clone func([]float32) []float32) (rows.Row, error) {
	out := rows.Row{
		Key: slices.Clone(r.Key), Vector: clone(r.Vector), Sparse: apply.NonZero(r.Sparse),
		Features: slices.Clone(r.Features),
		Cold: rows.Cold{
			Labels: labelSet(r.Labels), Text: strings.Clone(r.Text), Payload: slices.Clone(r.Payload),
		},
	}
	if err := setAttributes(&out.Cold, r.Key, r.Attributes, r.ExpiresAt); err != nil {
		return out, err
	}
	if c.Text != nil {
		var err error
		if out.Features, err = termsOf(out.Text, c.Text); err != nil {
			return out, fail.Wrapf(err, "key %q", r.Key)
		}
	}
	return out, nil
}

// setAttributes replaces the attributes and the expiry of a row with the key.
func setAttributes(c *rows.Cold, key []byte, values map[string]any, expiry time.Time) (err error) {
	if c.Attributes, err = attribute.Set(values, expiry); err != nil {
		return fmt.Errorf("%w: key %q: %w", fail.Attribute, key, err)
	}
	return nil
}

// setCold replaces the parts of a row that can change. It takes over their memory.
func (r *Row) setCold(c rows.Cold) {
	r.Labels, r.Text, r.Payload = c.Labels, c.Text, c.Payload
	r.Attributes, r.ExpiresAt = attribute.Split(c.Attributes)
}

// labelSet returns labels as they are stored: ascending, none twice.
func labelSet(labels []string) []string {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	return slices.Compact(labels)
}

// rowOf returns a copy of a row for reads of its transaction.
func rowOf(r *rows.Row) Row {
	out := Row{
		Key: slices.Clone(r.Key), Vector: slices.Clone(r.Vector),
		Sparse: vector.Sparse{Index: slices.Clone(r.Sparse.Index), Value: slices.Clone(r.Sparse.Value)},
	}
	out.setCold(r.Cold.Clone())
	if r.Text == "" {
		out.Features = slices.Clone(r.Features)
	}
	return out
}
