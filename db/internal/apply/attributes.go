package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
)

// Rows in chunks are found by the tables of their attributes: one for each attribute and 65,536
// rows, which a transaction that completes a chunk extends. A row whose attributes change keeps
// its old entries and is stale: readers look at the row itself. When more than maxStale rows of a
// table are stale, it is written again with their present attributes. Deleted rows keep their
// entries until then.

// maxStale bounds the stale rows of a table. A reader needs about 2 µs for each, a writer some
// milliseconds for a table.
const maxStale = 256

// attributesTx holds what a transaction changes of the attributes of a collection.
type attributesTx struct {
	objects map[string]uint64 // of the attributes seen
	sealed  map[string]entriesByTable
	stale   *roaring.Bitmap // rows below first whose attributes change
}

// entriesByTable has new entries by the number of their table.
type entriesByTable map[uint32][]attribute.Entry

func newAttributesTx() attributesTx {
	return attributesTx{map[string]uint64{}, map[string]entriesByTable{}, roaring.New()}
}

// NewNames has the attributes that operations add to collections, by name, with their types.
type NewNames map[uint64]map[string]attribute.Type

// Check refuses values of another type than the attribute has in the collection, and attributes with
// which the collection would have too many. It remembers the types of those that pass.
func (n NewNames) Check(c *layout.Collection, key []byte, attributes []attribute.Attribute) error {
	var fresh map[string]attribute.Type
	for _, x := range attributes {
		has, is := n[c.ID][x.Name], attribute.TypeOf(x.Value)
		if r := c.Attribute(x.Name); r != nil {
			has = r.Type
		}
		if has != attribute.NoType && has != is {
			return fmt.Errorf("%w: collection %q: key %q: %q is a %s, and here a %s: "+
				"an attribute has values of one type", fail.Attribute, c.Name, key, x.Name, has, is)
		}
		if has == attribute.NoType {
			if fresh == nil {
				fresh = map[string]attribute.Type{}
			}
			fresh[x.Name] = is
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	have := len(c.Attributes) + len(n[c.ID]) + len(fresh)
	for _, names := range []map[string]attribute.Type{n[c.ID], fresh} {
		if names[attribute.Expiry] != attribute.NoType {
			have--
		}
	}
	if c.Attribute(attribute.Expiry) != nil {
		have--
	}
	if have >= layout.MaxAttributes { // one is left for the expiry
		return fmt.Errorf("%w: collection %q would have %d of different names, want at most %d",
			fail.Attribute, c.Name, have, layout.MaxAttributes-1)
	}
	if n[c.ID] == nil {
		n[c.ID] = map[string]attribute.Type{}
	}
	maps.Copy(n[c.ID], fresh)
	return nil
}

// nameAttributes gives types and objects to attributes that the collection does not have yet.
func (a *Applier) nameAttributes(t *collTx, attributes []attribute.Attribute) {
	for _, x := range attributes {
		if t.attributes.objects[x.Name] != 0 {
			continue
		}
		r := t.c.Attribute(x.Name)
		if r == nil {
			ref := layout.AttributeRef{Name: x.Name, Type: attribute.TypeOf(x.Value), Object: a.cat.Allocate(1)}
			t.c.Attributes = append(t.c.Attributes, ref)
			slices.SortFunc(t.c.Attributes, func(x, y layout.AttributeRef) int {
				return strings.Compare(x.Name, y.Name)
			})
			r = t.c.Attribute(x.Name)
		}
		t.attributes.objects[x.Name] = r.Object
	}
}

// seal records the attributes of a row that enters a chunk.
func (t *attributesTx) seal(row uint32, attributes []attribute.Attribute) {
	for _, x := range attributes {
		t.add(row, x)
	}
}

func (t *attributesTx) add(row uint32, x attribute.Attribute) {
	tables := t.sealed[x.Name]
	if tables == nil {
		tables = entriesByTable{}
		t.sealed[x.Name] = tables
	}
	n := row / attribute.Span
	tables[n] = append(tables[n], attribute.Entry{Key: attribute.AppendKey(nil, x.Value), Row: uint16(row)})
}

// writeAttributes brings the tables of a collection up to date.
func (a *Applier) writeAttributes(t *collTx) error {
	if len(t.c.Attributes) == 0 {
		return nil
	}
	stale := t.attributes.stale
	stale.AndNot(t.deletedRows) // a later transaction of the group has deleted the row
	if err := layout.EditSets(a.tx, t.c.ID, codec.KindStale, stale, t.deletedRows); err != nil {
		return err
	}
	fresh, err := a.freshen(t)
	if err != nil {
		return err
	}
	for _, r := range t.c.Attributes {
		tables := t.attributes.sealed[r.Name]
		numbers := map[uint32]bool{}
		for n := range fresh {
			numbers[n] = true
		}
		for n := range tables {
			numbers[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(numbers)) {
			if err := editTable(a.tx, t.c, r.Object, n, tables[n], fresh[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshen adds the present attributes of stale rows to the tables that have too many, and returns
// these rows by the number of the table. They are not stale any more.
func (a *Applier) freshen(t *collTx) (map[uint32]*roaring.Bitmap, error) {
	fresh := map[uint32]*roaring.Bitmap{}
	touched := t.attributes.stale.Clone()
	touched.AddRange(uint64(t.first), uint64(t.c.Sealed())) // rows may have become stale before they were sealed
	if t.c.Revision == 0 || touched.IsEmpty() {
		return fresh, nil
	}
	all, err := layout.ReadSet(a.tx, t.c.Name, t.c.ID, codec.KindStale, t.c.Rows)
	if err != nil {
		return nil, err
	}
	all.RemoveRange(uint64(t.c.Sealed()), 1<<32)
	for _, n := range layout.SetBlocks(touched) {
		rows := kind.Within(all, int(n)*attribute.Span, attribute.Span)
		if rows == nil || rows.GetCardinality() <= maxStale {
			continue
		}
		fresh[n] = rows
		if err := a.addPresent(t, n, rows); err != nil {
			return nil, err
		}
		done := roaring.AddOffset(rows, n*attribute.Span)
		if err := layout.EditSets(a.tx, t.c.ID, codec.KindStale, nil, done); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// addPresent adds the present attributes of stale rows of table n, whose numbers count from its
// first row, in place of those with which a row has entered its chunk in this transaction.
func (a *Applier) addPresent(t *collTx, n uint32, rows *roaring.Bitmap) error {
	for _, tables := range t.attributes.sealed {
		tables[n] = slices.DeleteFunc(tables[n], func(e attribute.Entry) bool {
			return rows.Contains(uint32(e.Row))
		})
	}
	for it := rows.Iterator(); it.HasNext(); {
		row := n*attribute.Span + it.Next()
		x, err := a.change(t.c, row)
		if err != nil {
			return err
		}
		if x == nil {
			return layout.BlockError(t.c.Name, t.c.ID, codec.KindChange, row, errors.New("block is missing"))
		}
		for _, y := range x.Attributes {
			t.attributes.add(row, y)
		}
	}
	return nil
}

// editTable adds entries to table n of an attribute, from which it removes those of stale rows,
// numbered from the table's first row.
func editTable(
	tx *bbolt.Tx, c *layout.Collection, object uint64, n uint32, add []attribute.Entry, stale *roaring.Bitmap,
) error {
	b, err := tx.CreateBucketIfNotExists(layout.BucketAttributes)
	if err != nil {
		return fail.Wrapf(err, "bucket of attributes")
	}
	if err := layout.PutBallast(b); err != nil {
		return err
	}
	key := codec.Key(object, codec.KindAttribute, n)
	old := b.Get(key[:])
	var entries []attribute.Entry
	if old != nil {
		t, err := layout.ReadTable(c.Name, key[:], old)
		if err != nil {
			return err
		}
		entries, err = t.AppendEntries(nil, func(row uint16) bool {
			return stale == nil || !stale.Contains(uint32(row))
		})
		if err != nil {
			return layout.BlockError(c.Name, object, codec.KindAttribute, n, err)
		}
		if len(add) == 0 && len(entries) == t.Rows() {
			return nil
		}
	}
	slices.SortFunc(add, attribute.Entry.Compare)
	entries = merged(entries, add)
	if len(entries) == 0 {
		return b.Delete(key[:])
	}
	h := codec.Header{Kind: codec.KindAttribute, Elem: codec.BytesElem, Rows: uint64(len(entries)), Cols: 1}
	value := codec.Encode(key[:], h, attribute.EncodeTable(entries))
	if err := b.Put(key[:], value); err != nil {
		return fail.Wrapf(err, "put table of attributes")
	}
	return nil
}

// merged merges two ascending lists.
func merged(a, b []attribute.Entry) []attribute.Entry {
	out := make([]attribute.Entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Compare(b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// RewriteTables replaces all tables of a collection by tables of the present attributes of its rows,
// which each yields by row.
func RewriteTables(
	tx *bbolt.Tx, c *layout.Collection, each func(yield func(row uint32, all []attribute.Attribute)) error,
) error {
	t := newAttributesTx()
	err := each(func(row uint32, all []attribute.Attribute) {
		if row < c.Sealed() {
			t.seal(row, all)
		}
	})
	if err != nil {
		return err
	}
	for _, r := range c.Attributes {
		if b := tx.Bucket(layout.BucketAttributes); b != nil {
			from := codec.Key(r.Object, codec.KindAttribute, 0)
			if _, err := layout.RemovePrefix(b, from[:12], 1<<16); err != nil {
				return err
			}
		}
		tables := t.sealed[r.Name]
		for _, n := range slices.Sorted(maps.Keys(tables)) {
			if err := editTable(tx, c, r.Object, n, tables[n], nil); err != nil {
				return err
			}
		}
	}
	sealed := roaring.New()
	sealed.AddRange(0, uint64(c.Sealed()))
	return layout.EditSets(tx, c.ID, codec.KindStale, nil, sealed)
}
