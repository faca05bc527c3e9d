package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
)

// Check verifies the complete latest state without trusting any of it: every reachable page
// (with its own reads, not bbolt's), that each page is used once, the checksum of every block,
// and that rows, keys, tombstones, labels and indexes agree. report is called for every
// problem; the error is ErrCorrupt if there was any. Check holds a snapshot; writers run
// concurrently.
//
// Cost: it reads the file once and keeps the keys of the largest collection in
// memory, about 60 bytes each.
func (d *DB) Check(ctx context.Context, report func(*CorruptError)) error {
	s, err := d.Snapshot()
	if err != nil {
		return err
	}
	defer s.Release()
	return s.check(ctx, report)
}

// checker collects the problems that a check finds.
type checker struct {
	ctx      context.Context
	s        *Snapshot
	report   func(*CorruptError)
	problems int
	colls    map[uint64]*layout.Collection
	labels   map[uint64]*layout.Collection // label objects
	indexes  map[uint64]*layout.Collection // index objects
	marks    map[uint64]bool               // objects awaiting removal
	keys     map[uint64]map[uint32]string
}

func (c *checker) found(e *CorruptError) {
	c.problems++
	if c.report != nil {
		c.report(e)
	}
}

func (s *Snapshot) check(ctx context.Context, report func(*CorruptError)) (err error) {
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
	c := &checker{
		ctx: ctx, s: s, report: report,
		colls: map[uint64]*layout.Collection{}, labels: map[uint64]*layout.Collection{},
		indexes: map[uint64]*layout.Collection{}, marks: map[uint64]bool{}, keys: map[uint64]map[uint32]string{},
	}
	for _, x := range s.gen.Catalog.Collections {
		c.colls[x.ID] = x
		c.keys[x.ID] = map[uint32]string{}
		for _, r := range x.Indexes {
			for _, object := range r.Objects() {
				c.indexes[object] = x
			}
		}
	}
	if err := c.pages(); err != nil {
		return err
	}
	if ctx.Err() == nil && c.problems == 0 {
		// Decoded tables can only be traversed safely if all pages are valid.
		for _, x := range s.gen.Catalog.Collections {
			c.collection(x)
		}
	}
	if err := ctx.Err(); err != nil {
		return fail.Wrapf(err, "check")
	}
	if c.problems > 0 {
		return fmt.Errorf("%w: %s: %d problems", ErrCorrupt, s.d.path, c.problems)
	}
	return nil
}

// pages checks the pages of the snapshot's state.
func (c *checker) pages() error {
	g := c.s.gen
	m, live, err := c.meta(g.File)
	if err != nil {
		return err
	}
	// The size is read after the meta page: a writer that grows the file does so before it
	// writes the meta page that needs the space.
	length, err := g.File.Size()
	if err != nil {
		return fail.Wrapf(err, "check")
	}
	if err := m.Fits(length); err != nil {
		c.found(&CorruptError{Offset: -1, Err: state.Translate(err)})
		return nil
	}
	w := page.NewWalker(c.ctx, g.File, length, m, page.Visitor{
		Pair: c.pair,
		Report: func(id uint64, err error) {
			c.found(&CorruptError{Offset: m.Offset(id), Err: err})
		},
	})
	seen := map[string]bool{}
	if live {
		w.Buckets(func(b page.Bucket) {
			seen[string(b.Name)] = true
			if err := b.CheckHeader(); err != nil && layout.OfFile.Has(b.Name) {
				w.Report(b.Page, fmt.Errorf("bucket %q: %w", b.Name, err))
			}
			w.Walk(b, page.Values)
		})
	} else {
		c.openBuckets(w, seen)
	}
	for _, name := range layout.RootBuckets {
		if !seen[string(name)] && c.ctx.Err() == nil {
			c.found(&CorruptError{Offset: -1, Err: fmt.Errorf("bucket %q is missing", name)})
		}
	}
	// The list of free pages belongs to the latest state; a later commit has rewritten it.
	if live {
		w.Freelist()
	}
	return nil
}

// openBuckets visits the buckets through the transaction, for a state whose meta page has been
// overwritten, and records their names in seen.
func (c *checker) openBuckets(w *page.Walker, seen map[string]bool) {
	g := c.s.gen
	for _, name := range append(slices.Clone(layout.RootBuckets), layout.BucketFeatures) {
		var b *bbolt.Bucket
		g.Locked(func() { b = g.Tx.Bucket(name) })
		if b == nil {
			continue
		}
		seen[string(name)] = true
		if b.Root() != 0 {
			w.Walk(page.Bucket{Name: name, Root: uint64(b.Root())}, page.Values)
		} else if err := c.inlinePairs(name, b); err != nil {
			c.found(&CorruptError{Offset: -1, Err: fmt.Errorf("bucket %q: %w", name, err)})
		}
	}
}

// inlinePairs checks the pairs of a bucket that is stored inline in its parent, on a page that
// only the transaction knows.
func (c *checker) inlinePairs(name []byte, b *bbolt.Bucket) (err error) {
	g := c.s.gen
	defer state.Guard(g.File, state.CatchFaults(), &err)
	var pairs [][2][]byte
	g.Locked(func() {
		err = b.ForEach(func(k, v []byte) error {
			pairs = append(pairs, [2][]byte{k, v})
			return nil
		})
	})
	for _, p := range pairs {
		c.pair(name, p[0], p[1], g.File.Offset(uintptr(unsafe.Pointer(unsafe.SliceData(p[1])))))
	}
	return err
}

// meta finds the meta page of the snapshot's state. Later commits may have overwritten it; the
// pages of the state are kept, and the newer meta page bounds their numbers.
func (c *checker) meta(f io.ReaderAt) (m page.Meta, live bool, err error) {
	metas := readMetas(f)
	for range 3 {
		if len(metas.Valid()) == 2 {
			break
		}
		// The read may have seen a partially written page.
		time.Sleep(time.Millisecond)
		metas = readMetas(f)
	}
	id := uint64(c.s.gen.Tx.ID())
	for i, e := range metas.Err {
		switch {
		case e != nil:
			c.found(&CorruptError{Offset: int64(i) * layout.PageSize, Err: e})
		case live:
		case metas.Meta[i].TxID == id:
			m, live = metas.Meta[i], true
		case metas.Meta[i].High >= m.High:
			m = metas.Meta[i]
		}
	}
	if m.PageSize == 0 {
		return m, false, fmt.Errorf("%w: %s: no meta page is valid", ErrCorrupt, c.s.d.path)
	}
	return m, live, nil
}

// pair checks one key and value of a bucket.
func (c *checker) pair(bucket, key, value []byte, at int64) {
	fail := func(format string, a ...any) {
		c.found(&CorruptError{Offset: at,
			Err: fmt.Errorf("bucket %q: "+format, append([]any{bucket}, a...)...)})
	}
	switch string(bucket) {
	case string(layout.BucketBlocks), string(layout.BucketTail), string(layout.BucketSets),
		string(layout.BucketMeta):
		c.block(string(bucket), key, value, at)
	case string(layout.BucketKeys):
		n, ok := layout.EntryNumber(string(layout.BucketKeys), key, value)
		if !ok || n > layout.MaxRows {
			fail("checksum of an entry of %d and %d bytes does not match", len(key), len(value))
			return
		}
		id, row := binary.BigEndian.Uint64(key), uint32(n)
		x := c.colls[id]
		switch {
		case x == nil:
			if !c.marked(id) {
				fail("key of collection %d, which does not exist", id)
			}
		case row >= x.Rows:
			fail("key %q points to row %d of %d", key[8:], row, x.Rows)
		case c.keys[id][row] != "":
			fail("keys %q and %q share row %d", key[8:], c.keys[id][row], row)
		default:
			c.keys[id][row] = string(key[8:])
		}
	case string(layout.BucketLabels):
		object, ok := layout.EntryNumber(string(layout.BucketLabels), key, value)
		if !ok {
			fail("checksum of an entry of %d and %d bytes does not match", len(key), len(value))
			return
		}
		id := binary.BigEndian.Uint64(key)
		if x := c.colls[id]; x != nil {
			c.labels[object] = x
		} else if !c.marked(id) {
			fail("label of collection %d, which does not exist", id)
		}
	case string(layout.BucketFeatures):
		c.feature(key, value, fail)
	default:
		fail("unknown bucket")
	}
}

// feature checks an entry of the dictionary of features.
func (c *checker) feature(key, value []byte, fail func(string, ...any)) {
	if len(key) < 10 {
		fail("entry of %d and %d bytes", len(key), len(value))
		return
	}
	id := binary.BigEndian.Uint64(key)
	x := c.colls[id]
	switch {
	case x == nil:
		if !c.marked(id) {
			fail("feature of collection %d, which does not exist", id)
		}
	case key[8] == layout.FeatureByName:
		n, ok := layout.EntryNumber(string(layout.BucketFeatures), key, value)
		if !ok || n >= uint64(x.Dim) {
			fail("feature %q has no valid number", key[9:])
			return
		}
		c.mirror(x, string(key[9:]), uint32(n), fail)
	case key[8] == layout.FeatureByID && len(key) == 13:
		c.mirror(x, string(value), binary.BigEndian.Uint32(key[9:]), fail)
	default:
		fail("entry of %d and %d bytes", len(key), len(value))
	}
}

// mirror checks that the name and the number of a feature refer to each other.
func (c *checker) mirror(x *layout.Collection, name string, id uint32, fail func(string, ...any)) {
	back, err := c.s.gen.Collections[x.Name].FeatureName(id)
	if err != nil {
		fail("%w", err)
	} else if back != name {
		fail("feature %d is named %q and %q", id, name, back)
	}
}

// marked reports whether an object awaits removal.
func (c *checker) marked(object uint64) bool {
	if len(c.marks) == 0 {
		c.marks[0] = true
		c.s.gen.Locked(func() {
			for _, id := range layout.OrphanMarks(c.s.gen.Tx) {
				c.marks[id] = true
			}
		})
	}
	return object > 0 && c.marks[object]
}

// block checks one block: frame, checksum, and contents if they are self-contained.
func (c *checker) block(bucket string, key, value []byte, at int64) {
	object, kind, chunk := codec.ParseKey(key)
	p := &CorruptError{Object: object, Section: kind.String(), Chunk: chunk, Offset: at}
	if x := c.colls[object]; x != nil {
		p.Collection = x.Name
	} else if x := c.indexes[object]; x != nil {
		p.Collection = x.Name
	}
	if len(key) != codec.KeySize || len(value)%codec.Align != 0 {
		p.Err = fmt.Errorf("bucket %q: entry of %d and %d bytes", bucket, len(key), len(value))
		c.found(p)
		return
	}
	b, err := codec.Parse(value)
	if err == nil && b.Kind != kind {
		err = fmt.Errorf("block is of kind %v", b.Kind)
	}
	if err == nil {
		err = b.Verify(key)
	}
	if err == nil {
		var data []byte
		if data, err = b.Data(layout.LimitOf(kind)); err == nil {
			err = checkContents(kind, data)
		}
	}
	if err == nil && object != 0 && kind != codec.KindLabelRows && c.colls[object] == nil &&
		c.indexes[object] == nil && !c.marked(object) {
		err = errors.New("block of an object that does not exist")
	}
	if x := c.indexes[object]; err == nil && kind == codec.KindRelabelled && x != nil &&
		!slices.ContainsFunc(x.Indexes, func(r layout.IndexRef) bool { return r.Object == object && r.Labels }) {
		err = errors.New("relabelled rows of an object that is not the main one of a label model")
	}
	if err != nil {
		p.Err = fmt.Errorf("bucket %q: %w", bucket, err)
		c.found(p)
	}
}

// checkContents decodes payloads that have an internal structure.
func checkContents(kind codec.Kind, data []byte) error {
	switch kind {
	case codec.KindKeys, codec.KindCold:
		t, err := codec.NewStrings(data)
		for i := 0; err == nil && kind == codec.KindCold && i < t.Len(); i++ {
			_, _, err = rows.DecodeCold(t.At(i))
		}
		return err
	case codec.KindChange:
		_, err := layout.DecodeChange(data)
		return err
	case codec.KindTombstones, codec.KindLabelRows, codec.KindChanged, codec.KindRelabelled:
		set := roaring.New()
		if err := set.UnmarshalBinary(data); err != nil {
			return err
		}
		return set.Validate()
	case codec.KindManifest:
		_, err := layout.DecodeManifest(data, kindOf)
		return err
	}
	return nil
}

// collection checks the cross-references of one collection and its indexes.
func (c *checker) collection(x *layout.Collection) {
	fail := func(err error) {
		if c.ctx.Err() != nil {
			return // a cancelled load is not damage
		}
		c.found(&CorruptError{Collection: x.Name, Offset: -1, Err: err})
	}
	st := c.s.gen.Collections[x.Name]
	err := func() (err error) {
		defer state.Guard(c.s.gen.File, state.CatchFaults(), &err)
		err = st.Load(c.ctx)
		return err
	}()
	if err != nil {
		fail(err)
		return
	}
	keys := c.keys[x.ID]
	if len(keys) != int(x.Live) {
		fail(fmt.Errorf("%d keys for %d live rows", len(keys), x.Live))
	}
	st.Gen.Locked(func() { err = checkChanges(st) })
	if err != nil {
		fail(err)
		return
	}
	counts := map[string]int{}
	var run *state.ColdRun
	for row := range x.Rows {
		if c.ctx.Err() != nil {
			return
		}
		r, live, err := c.s.nextRow(st, row, &run)
		switch {
		case err != nil:
			fail(err)
			return
		case live && keys[row] != string(r.Key):
			fail(fmt.Errorf("row %d has key %q, the key table says %q", row, r.Key, keys[row]))
		case !live && keys[row] != "":
			fail(fmt.Errorf("key %q points to deleted row %d", keys[row], row))
		}
		if !live || err != nil {
			continue
		}
		if err := checkRow(&r, x); err != nil {
			fail(fmt.Errorf("row %d: %w", row, err))
		}
		c.rowLabels(st, &r, fail)
		for _, l := range r.Labels {
			counts[l]++
		}
	}
	c.labelCounts(x.Name, counts, fail)
	for i := range x.Indexes {
		err := checkIndex(c.ctx, st, &x.Indexes[i])
		if err != nil {
			fail(fmt.Errorf("index %q: %w", x.Indexes[i].Name, err))
		}
	}
}

// checkIndex checks that the arrays of an index are consistent with each other.
func checkIndex(ctx context.Context, st *state.Collection, r *layout.IndexRef) (err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	x, err := st.OpenIndex(ctx, r)
	if err != nil {
		return err
	}
	if learns := x.Manifest.Of.Predicts(); r.Labels != learns {
		return fail.Corruptf(st.Entry.Name, "the catalog has Labels = %v for an index of kind %s",
			r.Labels, x.Manifest.Kind)
	}
	if _, err := st.Relabelled(r.Object); err != nil {
		return err
	}
	return x.Opened.Check(ctx)
}

// checkChanges checks that the changes of labels and payloads belong to rows that are not
// deleted, and that the set of these rows is complete. The caller has locked the generation.
func checkChanges(st *state.Collection) (err error) {
	g := st.Gen
	defer state.Guard(g.File, state.CatchFaults(), &err)
	set, err := layout.ReadSet(g.Tx, st.Entry.Name, st.Entry.ID, codec.KindChanged, st.Entry.Rows)
	if err != nil {
		return err
	}
	n := 0
	tail := g.Tx.Bucket(layout.BucketTail)
	err = layout.EachBlock(tail, st.Entry.ID, codec.KindChange, func(k, v []byte) error {
		_, _, row := codec.ParseKey(k)
		n++
		if _, err := layout.ReadChange(st.Entry, k, v); err != nil {
			return err
		}
		if !set.Contains(row) || st.Deleted(row) {
			return layout.BlockError(st.Entry.Name, st.Entry.ID, codec.KindChange, row,
				errors.New("the row is deleted or not in the set of changed rows"))
		}
		return nil
	})
	if err == nil && set.GetCardinality() != uint64(n) {
		err = fail.Corruptf(st.Entry.Name, "%d rows are in the set of changed rows, %d changes exist",
			set.GetCardinality(), n)
	}
	return err
}

// labelCounts checks that the label sets contain no other live rows than those counted.
func (c *checker) labelCounts(coll string, counts map[string]int, fail func(error)) {
	labels, err := c.s.Collection(coll).Labels()
	if err != nil {
		fail(err)
	}
	for _, l := range labels {
		if l.Rows != counts[l.Label] {
			fail(fmt.Errorf("label %q has a set of %d live rows, %d rows have it",
				l.Label, l.Rows, counts[l.Label]))
		}
	}
}

// rowLabels checks that the label sets contain a row.
func (c *checker) rowLabels(st *state.Collection, r *Row, fail func(error)) {
	for _, l := range r.Labels {
		set, err := st.CachedLabel(l)
		if err != nil {
			fail(err)
		} else if set == nil || !set.Contains(r.Row) {
			fail(fmt.Errorf("row %d has label %q, whose set does not hold it", r.Row, l))
		}
	}
}
