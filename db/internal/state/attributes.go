package state

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
)

// attributes finds the rows of a collection by attribute: rows in chunks by the tables, and one by
// one those that the tables lack: rows that no chunk has yet, and stale ones.
type attributes struct {
	single []attributed
	stale  *roaring.Bitmap
	tables map[string][]table
}

// attributed is a row with its attributes.
type attributed struct {
	row        uint32
	attributes []attribute.Attribute
}

// table is the table of the rows from first on. values has the number of the value of each row, from 1, and 0
// for none; it is nil until it is needed.
type table struct {
	attribute.Table
	first  uint32
	values []uint32
}

var errNoChunk = errors.New("table has rows that no chunk has")

// AttributeRows returns the rows whose value of an attribute is in one of the ranges. It may return
// deleted rows. It takes time in proportion to the rows found, the rows without a chunk and the
// stale rows; the first call after a commit also checks the tables of the attribute.
func (st *Collection) AttributeRows(name string, ranges []attribute.Range) (_ *roaring.Bitmap, err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	x, tables, err := st.attributeTables(name)
	if err != nil || x == nil {
		return roaring.New(), err
	}
	var found []part
	n := 0
	for i := range tables {
		t := &tables[i]
		for _, r := range ranges {
			of, err := t.Of(t.Find(r))
			if err != nil {
				return nil, st.damaged(codec.KindAttribute, t.first/attribute.Span, err)
			}
			if n += len(of); len(of) > 0 {
				found = append(found, part{t.first, of})
			}
		}
	}
	out, err := setOf(found, n, st.Entry.Sealed())
	if err != nil {
		return nil, fail.Corruptf(st.Entry.Name, "attribute %q: %w", name, err)
	}
	if x.stale != nil {
		out.AndNot(x.stale)
	}
	var key []byte
	for _, s := range x.single {
		i, ok := slices.BinarySearchFunc(s.attributes, name,
			func(a attribute.Attribute, name string) int { return strings.Compare(a.Name, name) })
		if !ok {
			continue
		}
		key = attribute.AppendKey(key[:0], s.attributes[i].Value)
		if slices.ContainsFunc(ranges, func(r attribute.Range) bool { return r.Contains(key) }) {
			out.Add(s.row)
		}
	}
	return out, nil
}

// AttributeKey returns the key of a row's value of an attribute (attribute.AppendKey), nil if it has none.
// The first call for a row of a table after a commit reads the whole table.
func (st *Collection) AttributeKey(name string, row uint32) (key []byte, err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	x, tables, err := st.attributeTables(name)
	if err != nil || x == nil {
		return nil, err
	}
	if row >= st.Entry.Sealed() || x.stale != nil && x.stale.Contains(row) {
		var run *ColdRun // which holds no such row
		cold, err := st.Cold(row, &run)
		for _, a := range cold.Attributes {
			if a.Name == name {
				key = attribute.AppendKey(nil, a.Value)
			}
		}
		return key, err
	}
	for i := range tables {
		t := &tables[i]
		if row < t.first || row-t.first >= attribute.Span {
			continue
		}
		key, err := st.valueIn(t, row-t.first)
		if err != nil {
			err = st.damaged(codec.KindAttribute, t.first/attribute.Span, err)
		}
		return key, err
	}
	return nil, nil
}

// valueIn returns a copy of the key of a row of a table.
func (st *Collection) valueIn(t *table, row uint32) ([]byte, error) {
	st.attributeMu.Lock()
	defer st.attributeMu.Unlock()
	if t.values == nil {
		values := make([]uint32, attribute.Span)
		for i := range t.Len() {
			of, err := t.Of(i, i+1)
			if err != nil {
				return nil, err
			}
			for _, row := range of {
				values[row] = uint32(i + 1)
			}
		}
		t.values = values
	}
	if t.values[row] == 0 {
		return nil, nil
	}
	return slices.Clone(t.Key(int(t.values[row] - 1))), nil
}

// part has rows of one table, counted from its first row.
type part struct {
	first uint32
	rows  []uint16
}

// setOf returns n rows as a set; all must be below end.
func setOf(found []part, n int, end uint32) (*roaring.Bitmap, error) {
	if n < int(end/256) {
		list := make([]uint32, 0, n)
		for _, p := range found {
			for _, row := range p.rows {
				list = append(list, p.first+uint32(row))
			}
		}
		slices.Sort(list)
		if n > 0 && list[n-1] >= end {
			return nil, errNoChunk
		}
		return roaring.BitmapOf(list...), nil
	}
	bits := make([]uint64, (uint64(end)+63)/64)
	for _, p := range found {
		own := bits[p.first/64:]
		for _, row := range p.rows {
			if int(row/64) >= len(own) {
				return nil, errNoChunk
			}
			own[row/64] |= 1 << (row % 64)
		}
	}
	if end%64 > 0 && bits[end/64]>>(end%64) > 0 {
		return nil, errNoChunk
	}
	return roaring.FromDense(bits, false), nil
}

// attributeTables returns what finds rows by the attribute, nil if no row ever had it.
func (st *Collection) attributeTables(name string) (*attributes, []table, error) {
	r := st.Entry.Attribute(name)
	if r == nil {
		return nil, nil, nil
	}
	if err := st.attributesLoad.do(context.Background(), st.loadAttributes); err != nil {
		return nil, nil, err
	}
	st.attributeMu.Lock()
	defer st.attributeMu.Unlock()
	x := &st.attributes
	tables, ok := x.tables[name]
	if ok {
		return x, tables, nil
	}
	if err := st.Gen.File.VerifyPages(layout.PartAttributes); err != nil {
		return nil, nil, err
	}
	var err error
	st.Gen.Locked(func() { tables, err = st.readTables(r.Object) })
	if err != nil {
		return nil, nil, err
	}
	x.tables[name] = tables
	return x, tables, nil
}

// readTables reads the tables of an attribute. The generation is locked.
func (st *Collection) readTables(object uint64) (tables []table, err error) {
	b := st.Gen.Tx.Bucket(layout.BucketAttributes)
	if b == nil {
		return nil, nil // no chunk has a row with an attribute yet
	}
	err = layout.EachBlock(b, object, codec.KindAttribute, func(k, v []byte) error {
		_, _, n := codec.ParseKey(k)
		t, err := layout.ReadTable(st.Entry.Name, k, v)
		if err == nil && uint64(n)*attribute.Span >= uint64(st.Entry.Sealed()) {
			err = layout.BlockError(st.Entry.Name, object, codec.KindAttribute, n, errNoChunk)
		}
		tables = append(tables, table{Table: t, first: n * attribute.Span})
		return err
	})
	return tables, err
}

// loadAttributes reads the stale rows and the rows without a chunk.
func (st *Collection) loadAttributes(ctx context.Context) (err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	x := attributes{tables: map[string][]table{}}
	c, g := st.Entry, st.Gen
	if c.Revision > 0 {
		if err := g.File.VerifyPages(layout.PartSets | layout.PartTail); err != nil {
			return err
		}
		g.Locked(func() { x.stale, err = layout.ReadSet(g.Tx, c.Name, c.ID, codec.KindStale, c.Rows) })
		if err != nil {
			return err
		}
	}
	if err := st.changesLoad.do(ctx, st.loadChanges); err != nil {
		return err
	}
	if x.stale != nil {
		for it := x.stale.Iterator(); it.HasNext(); {
			row := it.Next()
			changed, err := st.change(row)
			if err != nil {
				return err
			}
			if changed == nil {
				return fail.Corruptf(c.Name, "row %d has changed attributes but no change", row)
			}
			x.single = append(x.single, attributed{row, changed.Attributes})
		}
	}
	err = st.eachTail(func(row uint32, payload []byte) error {
		if x.stale != nil && x.stale.Contains(row) {
			return nil
		}
		cold, err := st.tailBytes(payload)
		if err != nil {
			return err
		}
		all, err := rows.Attributes(cold)
		if err == nil && len(all) > 0 {
			x.single = append(x.single, attributed{row, all})
		}
		return err
	})
	st.attributes = x
	return err
}

// tailBytes returns the encoded Cold of a tail row.
func (st *Collection) tailBytes(payload []byte) ([]byte, error) {
	one, err := st.Entry.RowFormat().Split(payload)
	return one.Cold, err
}

// Expired returns the rows that have expired at a time, nil if no row ever expires; some of them may
// be deleted. It also returns when the next row expires, zero for never.
func (st *Collection) Expired(now time.Time) (expired *roaring.Bitmap, next time.Time, err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	x, tables, err := st.attributeTables(attribute.Expiry)
	if err != nil || x == nil {
		return nil, next, err
	}
	at, err := attribute.Normalize(now)
	if err != nil {
		return nil, next, fail.Wrapf(err, "clock")
	}
	if expired, err = st.AttributeRows(attribute.Expiry, []attribute.Range{attribute.AtMost(at)}); err != nil {
		return nil, next, err
	}
	later := attribute.Greater(at)
	earliest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for i := range tables {
		if j, k := tables[i].Find(later); j < k {
			t, err := attribute.TimeOf(tables[i].Key(j))
			if err != nil {
				return nil, next, st.damaged(codec.KindAttribute, tables[i].first/attribute.Span, err)
			}
			earliest(t) // of a stale row perhaps: then the set is computed once more than needed
		}
	}
	for _, s := range x.single {
		if _, t := attribute.Split(s.attributes); t.After(now) {
			earliest(t)
		}
	}
	return expired, next, nil
}

// Table returns the table of an attribute for the rows from first on, nil if there is none.
func (st *Collection) Table(name string, first uint32) (*attribute.Table, error) {
	_, tables, err := st.attributeTables(name)
	if err != nil {
		return nil, err
	}
	for i := range tables {
		if tables[i].first == first {
			return &tables[i].Table, nil
		}
	}
	return nil, nil
}

// StaleAttributes returns the rows whose attributes are not those of the tables, nil if there are none.
func (st *Collection) StaleAttributes() (*roaring.Bitmap, error) {
	if len(st.Entry.Attributes) == 0 {
		return nil, nil
	}
	err := st.attributesLoad.do(context.Background(), st.loadAttributes)
	return st.attributes.stale, err
}

// unexpired is the set of the live rows that have not expired, which holds until a row expires.
type unexpired struct {
	rows  *roaring.Bitmap // nil if that is every live row
	until time.Time       // zero for ever
}

// Unexpired returns the live rows that have not expired, nil if no live row has. The set is shared
// and must not be changed.
func (st *Collection) Unexpired(ctx context.Context, now time.Time) (*roaring.Bitmap, error) {
	if st.Entry.Attribute(attribute.Expiry) == nil {
		return nil, nil
	}
	if u := st.unexpired.Load(); u != nil && (u.until.IsZero() || now.Before(u.until)) {
		return u.rows, nil
	}
	if err := st.Load(ctx); err != nil {
		return nil, err
	}
	expired, next, err := st.Expired(now)
	if err != nil {
		return nil, err
	}
	u := &unexpired{until: next}
	if rows := st.liveRows(); rows.Intersects(expired) {
		rows.AndNot(expired)
		u.rows = rows
	}
	st.unexpired.Store(u)
	return u.rows, nil
}
