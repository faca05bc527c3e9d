package check

import (
	"bytes"
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
)

// attributes compares the rows of a collection with the tables of their attributes. Rows come in
// ascending order.
type attributes struct {
	st    *state.Collection
	stale *roaring.Bitmap
	// keys are those of the tables of the rows from first on, by attribute and row. Those of rows
	// that have been compared are removed.
	keys  map[string][][]byte
	first uint32
}

func newAttributes(st *state.Collection) (*attributes, error) {
	stale, err := st.StaleAttributes()
	return &attributes{st: st, stale: stale}, err
}

// row compares the attributes of a row, nil if it is deleted.
func (a *attributes) row(row uint32, live bool, have []attribute.Attribute) error {
	for _, x := range have {
		r := a.st.Entry.Attribute(x.Name)
		if live && (r == nil || r.Type != attribute.TypeOf(x.Value)) {
			return fmt.Errorf("row %d has attribute %q with a %s, which the collection lacks",
				row, x.Name, attribute.TypeOf(x.Value))
		}
	}
	if row >= a.st.Entry.Sealed() || len(a.st.Entry.Attributes) == 0 {
		return nil
	}
	if row%attribute.Span == 0 {
		if err := a.load(row); err != nil {
			return err
		}
	}
	at := row - a.first
	compare := live && (a.stale == nil || !a.stale.Contains(row))
	for _, x := range have {
		keys := a.keys[x.Name]
		if compare && (keys == nil || !bytes.Equal(keys[at], attribute.AppendKey(nil, x.Value))) {
			return fmt.Errorf("row %d has attribute %q, whose table has another value", row, x.Name)
		}
		if keys != nil {
			keys[at] = nil
		}
	}
	for name, keys := range a.keys {
		if compare && keys[at] != nil {
			return fmt.Errorf("row %d lacks attribute %q, whose table has a value", row, name)
		}
	}
	return nil
}

// load reads the tables of the rows from first on.
func (a *attributes) load(first uint32) error {
	a.keys, a.first = map[string][][]byte{}, first
	for _, r := range a.st.Entry.Attributes {
		t, err := a.st.Table(r.Name, first)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		if err := t.Validate(int(min(attribute.Span, a.st.Entry.Sealed()-first))); err != nil {
			return fmt.Errorf("attribute %q: rows from %d on: %w", r.Name, first, err)
		}
		keys := make([][]byte, attribute.Span)
		entries, err := t.AppendEntries(nil, func(uint16) bool { return true })
		if err != nil {
			return err
		}
		for _, e := range entries {
			keys[e.Row] = e.Key
		}
		a.keys[r.Name] = keys
	}
	return nil
}

// Attributes checks that the tables of a collection's attributes have the attributes of its rows. It
// reads all rows.
func Attributes(ctx context.Context, st *state.Collection) (err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	if len(st.Entry.Attributes) == 0 {
		return nil
	}
	a, err := newAttributes(st)
	if err != nil {
		return err
	}
	var run *state.ColdRun
	for row := range st.Entry.Sealed() {
		if err := ctx.Err(); err != nil {
			return fail.Wrapf(err, "check")
		}
		r, live, err := st.ReadRow(row, &run)
		if err == nil {
			err = a.row(row, live, r.Attributes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
