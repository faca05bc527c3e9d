package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// LostRow is a row that Salvage could not read, or a range of rows of which it found nothing.
type LostRow struct {
	Collection string
	// Row is the number of the row, or of the first row of the range.
	Row uint32
	// Rows is the number of rows: 1, or more for a range of rows of which neither a block nor a
	// key was found. Deleted rows in the range do not count.
	Rows int
	// Key is the row's key; nil if it is lost as well.
	Key []byte
	Err error
}

// String describes the row, or the range, in one line.
func (l LostRow) String() string {
	if l.Rows > 1 {
		return fmt.Sprintf("collection %q: %d rows from row %d on: %v", l.Collection, l.Rows, l.Row, l.Err)
	}
	return fmt.Sprintf("collection %q row %d key %q: %v", l.Collection, l.Row, l.Key, l.Err)
}

// SalvageReport is the result of Salvage.
type SalvageReport struct {
	// Rows is the number of rows written to the new database, Lost the number of rows that
	// could not be read.
	Rows, Lost int
	// Indexes lists the rebuilt indexes as collection/index, NotBuilt the others with the
	// error.
	Indexes  []string
	NotBuilt map[string]error
	// Revived lists the collections in which deleted rows may be present again, because the
	// record of their deletion is lost.
	Revived []string
	// Searched is the reason why the catalog could not be read; nil if it could. Rows and an
	// earlier catalog were then searched for in all pages, including free ones: collections and
	// rows may be missing or belong to an earlier state.
	Searched error
	// Unnamed lists the collections for which no catalog was found. They are named by their
	// numbers; the metric of dense ones is a guess unless it is the cosine.
	Unnamed []string
}

// SalvageOptions selects how Salvage works.
type SalvageOptions struct {
	// Lost, if not nil, is called for every row that could not be read, and once for each range
	// of rows of which nothing was found.
	Lost func(LostRow)
	// Indexes selects whether indexes are rebuilt: On, also when empty, or Off.
	Indexes Switch
}

// Salvage writes every readable row of the damaged database at from to a new database at to,
// and rebuilds its indexes with their stored settings, without tuning. It reads the file page
// by page and validates everything: a damaged page or block loses only the rows in it. If the
// catalog or both meta pages cannot be read, rows are searched for in all pages, see
// SalvageReport.Searched. The file at from must not be open for writing; it is not changed.
//
// Cost: two passes over the file, three if its pages are damaged. In memory: the offset of
// every block and the key of every row.
//
// Errors: ErrExists for a file at to, ErrCorrupt if there is no catalog and no row,
// ErrNotDatabase, ErrLocked, ErrInvalid, those of Load.
func Salvage(ctx context.Context, from, to string, o *SalvageOptions) (r SalvageReport, err error) {
	if o == nil {
		o = &SalvageOptions{}
	}
	if err := o.Indexes.check("Indexes"); err != nil {
		return r, err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %s", ErrExists, to)
	}
	f, err := os.Open(from)
	if err != nil {
		return r, fail.Wrapf(err, "salvage")
	}
	defer f.Close()
	w := newDamagedFile(ctx, f)
	if err := w.survey(from); err != nil {
		return r, err
	}
	r.Searched, r.Unnamed = w.reason, w.unnamed
	d, err := Open(to, &Options{Maintenance: &Maintenance{Manual: true}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, c := range w.cat.Collections {
		if _, err = d.Create(ctx, c.Name, schemaOf(c)); err != nil {
			return r, err
		}
		x := w.collection(c)
		if x.unsure {
			r.Revived = append(r.Revived, c.Name)
		}
		x.lost = func(l LostRow) {
			r.Lost += l.Rows
			if o.Lost != nil {
				o.Lost(l)
			}
		}
		n, err := d.Collection(c.Name).Load(asStage(ctx, c.Name), x.rows())
		r.Rows += n
		if err != nil {
			return r, err
		}
		if o.Indexes == Off {
			continue
		}
		for i := range c.Indexes {
			name := c.Name + "/" + c.Indexes[i].Name
			if err := w.rebuild(asStage(ctx, name), d, c, &c.Indexes[i]); err != nil {
				if ctx.Err() != nil {
					return r, err
				}
				if r.NotBuilt == nil {
					r.NotBuilt = map[string]error{}
				}
				r.NotBuilt[name] = err
				continue
			}
			r.Indexes = append(r.Indexes, name)
		}
	}
	return r, nil
}

// place is the position of a block in the file.
type place struct {
	at   int64
	n    int
	elem codec.Elem
	cols uint32
}

// damagedFile holds the parts found in a damaged file.
type damagedFile struct {
	ctx    context.Context
	f      *os.File
	cat    *layout.Catalog
	blocks map[string]place // valid blocks, by bucket and key
	// pairs holds the valid entries of the other buckets, by bucket and key.
	pairs  map[string]map[string][]byte
	broken map[string]bool         // buckets that may be incomplete
	found  map[uint64]*salvageable // by collection; nil until it is needed
	// The following fields are set by a search.
	reason      error // why the catalog could not be read
	latest      *layout.Catalog
	deletedRows map[uint64]*roaring.Bitmap // by collection
	changed     map[uint64]*roaring.Bitmap // rows with a change, by collection
	unnamed     []string
	// revisions has the revision of each change found by a search, by its key in blocks.
	revisions map[string]uint64
}

func newDamagedFile(ctx context.Context, f *os.File) *damagedFile {
	return &damagedFile{
		ctx: ctx, f: f, blocks: map[string]place{}, pairs: map[string]map[string][]byte{},
		broken: map[string]bool{}, deletedRows: map[uint64]*roaring.Bitmap{},
		changed: map[uint64]*roaring.Bitmap{}, revisions: map[string]uint64{},
	}
}

// survey walks all reachable pages, of the newer state first, and of the other one if the newer
// one has no catalog. It then searches all pages for missing parts, or for everything if
// neither state has a catalog.
func (w *damagedFile) survey(path string) error {
	info, err := w.f.Stat()
	if err != nil {
		return fail.Wrapf(err, "salvage")
	}
	metas := readMetas(w.f)
	reason := errors.Join(metas.Err[:]...)
	size := int64(layout.PageSize)
	for _, m := range metas.Valid() {
		size = int64(m.PageSize)
		if reason = w.walk(m, info.Size()); reason == nil {
			if len(w.broken) == 0 {
				return nil
			}
			return w.search(info.Size(), size)
		}
		if err := w.ctx.Err(); err != nil {
			return fail.Wrapf(err, "salvage")
		}
	}
	w.reason = fmt.Errorf("%w: %s: no catalog can be read: %w", ErrCorrupt, path, fail.Inner{Err: reason})
	if errors.Is(reason, fail.NewerFormat) {
		return w.reason
	}
	clear(w.blocks)
	clear(w.pairs)
	w.cat = nil
	if err := w.search(info.Size(), size); err != nil {
		return err
	}
	if err := w.assume(); err != nil {
		return fmt.Errorf("%w; %w", w.reason, err)
	}
	return nil
}

func (w *damagedFile) walk(m page.Meta, length int64) error {
	clear(w.blocks)
	clear(w.pairs)
	clear(w.broken)
	w.cat = nil
	now := ""
	walk := page.NewWalker(w.ctx, w.f, length, m, page.Visitor{
		Pair:   w.pair,
		Report: func(uint64, error) { w.broken[now] = true },
	})
	var buckets []page.Bucket
	walk.Buckets(func(b page.Bucket) { buckets = append(buckets, b) })
	for _, b := range buckets {
		now = string(b.Name)
		walk.Walk(b, page.Values)
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	data, err := w.block(string(layout.BucketMeta), layout.CatalogKey)
	if err != nil {
		return err
	}
	w.cat, err = layout.DecodeCatalog(data)
	return err
}

// pair records a key and value.
func (w *damagedFile) pair(bucket, key, value []byte, at int64) {
	name := string(bucket)
	switch name {
	case string(layout.BucketBlocks), string(layout.BucketTail), string(layout.BucketSets),
		string(layout.BucketMeta):
		if len(key) != codec.KeySize {
			w.broken[name] = true
			return
		}
		b, err := codec.Parse(value)
		if err != nil || b.Verify(key) != nil {
			w.broken[name] = true
			return
		}
		w.blocks[name+string(key)] = place{at, len(value), b.Elem, b.Cols}
	case string(layout.BucketKeys), string(layout.BucketFeatures):
		if w.pairs[name] == nil {
			w.pairs[name] = map[string][]byte{}
		}
		w.pairs[name][string(key)] = bytes.Clone(value)
	}
}

var errGone = errors.New("block is missing or damaged")

// block reads and decodes a valid block.
func (w *damagedFile) block(bucket string, key [codec.KeySize]byte) ([]byte, error) {
	p, ok := w.blocks[bucket+string(key[:])]
	if !ok {
		object, kind, chunk := codec.ParseKey(key[:])
		return nil, layout.BlockError("", object, kind, chunk, errGone)
	}
	value := make([]byte, p.n)
	if _, err := w.f.ReadAt(value, p.at); err != nil {
		return nil, fail.Wrapf(err, "salvage")
	}
	return layout.DecodeBlock("", key[:], value, true)
}

// rebuild rebuilds an index with the settings in its manifest.
func (w *damagedFile) rebuild(
	ctx context.Context, d *DB, c *layout.Collection, r *layout.IndexRef,
) error {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	data, err := w.block(string(layout.BucketMeta), key)
	if err != nil {
		var e error
		if data, e = w.block(string(layout.BucketBlocks), key); e != nil {
			return err
		}
	}
	m, err := layout.DecodeManifest(data, kindOf)
	if err != nil {
		return err
	}
	_, err = d.rebuild(ctx, c.Name, newRebuild(ctx, nil, m))
	return err
}

// salvagedRows reads the rows of one collection of a damaged file.
type salvagedRows struct {
	w           *damagedFile
	c           *layout.Collection
	found       *salvageable
	keys        map[uint32][]byte // keys of rows in the key table
	deletedRows *roaring.Bitmap   // nil if the tombstones are incomplete
	// changed has the rows whose labels or payload were changed, as far as is known.
	changed *roaring.Bitmap
	whole   bool // the key table is complete
	unsure  bool
	// searched is set if keys may be of an earlier state; then only DeletedRows decides which rows are live.
	searched bool
	lost     func(LostRow)
	// The following fields belong to the chunk of the row read last.
	chunk     int64
	vectors   []byte
	elem      codec.Elem
	sparse    vector.CSR
	keyTable  codec.Strings
	coldTable codec.Strings
	coldFirst uint32
	chunkErr  error
}

// collection determines which rows of a collection are live.
func (w *damagedFile) collection(c *layout.Collection) *salvagedRows {
	if w.reason != nil {
		return w.searched(c)
	}
	x := &salvagedRows{w: w, c: c, chunk: -1}
	verifyPages := x.readKeys()
	x.whole = verifyPages && !w.broken[string(layout.BucketKeys)] && w.pairs[string(layout.BucketKeys)] != nil
	if c.Rows == 0 {
		x.whole = true
	}
	deletedRows := w.set(c, codec.KindTombstones, x.found.tombstones)
	x.changed = w.set(c, codec.KindChanged, x.found.changed)
	if found := w.changed[c.ID]; found != nil {
		x.changed.Or(found)
	}
	if uint64(c.Rows)-deletedRows.GetCardinality() == uint64(c.Live) {
		x.deletedRows = deletedRows
	}
	x.unsure = !x.whole && x.deletedRows == nil
	return x
}

// set returns the union of the blocks found of a collection's set. Blocks may be missing.
func (w *damagedFile) set(c *layout.Collection, kind codec.Kind, chunks []uint32) *roaring.Bitmap {
	out := roaring.New()
	for _, chunk := range chunks {
		key := codec.Key(c.ID, kind, chunk)
		p, ok := w.blocks[string(layout.BucketSets)+string(key[:])]
		if !ok {
			continue
		}
		value := make([]byte, p.n)
		if _, err := w.f.ReadAt(value, p.at); err != nil {
			continue
		}
		set, err := layout.DecodeSet(c.Name, key[:], value)
		if err == nil && layout.CheckSetEnd(set, chunk, c.Rows) == nil {
			out.Or(roaring.AddOffset(set, chunk<<16))
		}
	}
	return out
}

// readKeys reads the keys of the collection's rows and reports whether all entries found have a
// valid row number.
func (x *salvagedRows) readKeys() (verifyPages bool) {
	x.found = x.w.of(x.c.ID)
	x.keys, verifyPages = x.found.keys, !x.found.badKeys
	for row := range x.keys {
		if row >= x.c.Rows {
			verifyPages = false
			delete(x.keys, row)
		}
	}
	return verifyPages
}

// live reports whether a row was not deleted, as far as is known.
func (x *salvagedRows) live(row uint32) bool {
	switch {
	case x.searched:
		return !x.deletedRows.Contains(row)
	case x.keys[row] != nil:
		return true
	case x.deletedRows != nil:
		return !x.deletedRows.Contains(row)
	}
	return !x.whole
}

// rows iterates over the live rows in the order of their numbers. If two rows with the same key
// both seem live, the later one is kept.
func (x *salvagedRows) rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		at := uint64(0)
		for _, e := range x.found.extents(x.c.Rows, x.c.Shift()) {
			x.lose(extent{at, e.from})
			for row := e.from; row < e.to; row++ {
				if !x.yield(uint32(row), yield) {
					return
				}
			}
			at = e.to
		}
		x.lose(extent{at, uint64(x.c.Rows)})
	}
}

// yield reads a row and yields it, if it is live.
func (x *salvagedRows) yield(row uint32, yield func(Row, error) bool) bool {
	if err := x.w.ctx.Err(); err != nil {
		yield(Row{}, fail.Wrapf(err, "salvage"))
		return false
	}
	if !x.live(row) {
		return true
	}
	r, err := x.row(row)
	if err == nil {
		err = checkRow(&r, x.c)
	}
	if err == nil {
		return yield(r, nil)
	}
	key := x.keys[row]
	if key == nil {
		key = r.Key
	}
	x.lost(LostRow{Collection: x.c.Name, Row: row, Rows: 1, Key: key, Err: err})
	return true
}

func (x *salvagedRows) row(row uint32) (Row, error) {
	if row >= x.c.Sealed() {
		return x.fresh(row)
	}
	r, err := x.chunked(row)
	if err != nil {
		// A free page may still have the row from before its chunk was sealed.
		if old, e := x.fresh(row); e == nil {
			return old, nil
		}
	}
	return r, err
}

// fresh returns a row that is in no chunk.
func (x *salvagedRows) fresh(row uint32) (r Row, err error) {
	data, err := x.w.block(string(layout.BucketTail), codec.Key(x.c.ID, codec.KindTail, row))
	if err != nil {
		return r, err
	}
	t, err := x.c.RowFormat().DecodeOne(data)
	if err != nil {
		return r, err
	}
	r = Row{Key: t.Key, Vector: t.Vector, Sparse: t.Sparse, Labels: t.Labels, Payload: t.Payload}
	changed, err := x.change(row)
	if err != nil {
		return r, err
	}
	if changed != nil {
		r.Labels, r.Payload = changed.Labels, changed.Payload
	}
	return r, x.named(&r)
}

// chunked returns a row of a chunk.
func (x *salvagedRows) chunked(row uint32) (r Row, err error) {
	shift := x.c.Shift()
	if chunk := int64(row >> shift); chunk != x.chunk {
		x.chunk = chunk
		x.chunkErr = x.open(uint32(chunk))
	}
	at := int(row & (1<<shift - 1))
	if x.keyTable.Len() > at {
		r.Key = bytes.Clone(x.keyTable.At(at))
	}
	if r.Key == nil {
		r.Key = x.keys[row] // the key table of the collection has it as well
	}
	if x.chunkErr != nil {
		return r, x.chunkErr
	}
	if r.Key == nil {
		return r, layout.BlockError(x.c.Name, x.c.ID, codec.KindKeys, uint32(x.chunk), errGone)
	}
	if r.Labels, r.Payload, err = x.cold(row); err != nil {
		return r, err
	}
	if x.c.Sparse {
		r.Sparse = x.sparse.Row(at)
		return r, x.named(&r)
	}
	r.Vector = make([]float32, x.c.Dim)
	if x.elem == codec.U8 {
		for j, u := range x.vectors[at*x.c.Dim : (at+1)*x.c.Dim] {
			r.Vector[j] = float32(u)
		}
		return r, nil
	}
	v, err := codec.View[float32](x.vectors[4*at*x.c.Dim:], x.c.Dim)
	copy(r.Vector, v)
	return r, err
}

// open reads the vectors and keys of a chunk.
func (x *salvagedRows) open(chunk uint32) error {
	c, n := x.c, 1<<x.c.Shift()
	x.keyTable, x.coldTable = codec.Strings{}, codec.Strings{}
	if data, err := x.w.block(string(layout.BucketBlocks), codec.Key(c.ID, codec.KindKeys, chunk)); err == nil {
		if t, err := codec.NewStrings(data); err == nil && t.Len() == n {
			x.keyTable = t
		}
	}
	kind := codec.KindRows
	if c.Sparse {
		kind = codec.KindSparse
	}
	data, err := x.w.block(string(layout.BucketBlocks), codec.Key(c.ID, kind, chunk))
	if err != nil {
		return err
	}
	if c.Sparse {
		x.sparse, err = rows.ViewSparse(data, n, c.Dim, true)
		return err
	}
	switch len(data) {
	case n * c.Dim:
		x.elem = codec.U8
	case 4 * n * c.Dim:
		x.elem = codec.F32
	default:
		return layout.BlockError(c.Name, c.ID, kind, chunk, fmt.Errorf("%d bytes", len(data)))
	}
	x.vectors = data
	return nil
}

// cold returns the present labels and payload of a row of a chunk. If they were changed, the run
// that holds those of the chunk is not needed.
func (x *salvagedRows) cold(row uint32) ([]string, []byte, error) {
	if changed, err := x.change(row); err != nil {
		return nil, nil, err
	} else if changed != nil {
		return changed.Labels, changed.Payload, nil
	}
	if err := x.openRun(row); err != nil {
		return nil, nil, err
	}
	return rows.DecodeCold(x.coldTable.At(int(row - x.coldFirst)))
}

// change returns the change of a row's labels and payload, nil if there is none. A change that
// is lost is an error: what the row was written with is no longer true.
func (x *salvagedRows) change(row uint32) (*layout.Change, error) {
	key := codec.Key(x.c.ID, codec.KindChange, row)
	if _, found := x.w.blocks[string(layout.BucketTail)+string(key[:])]; !found && !x.changed.Contains(row) {
		return nil, nil
	}
	data, err := x.w.block(string(layout.BucketTail), key)
	if err != nil {
		return nil, err
	}
	return layout.DecodeChange(data)
}

// openRun decodes the run of labels and payloads that holds a row, unless it is decoded already.
// The run begins at the row or at an earlier one of the chunk.
func (x *salvagedRows) openRun(row uint32) error {
	if n := x.coldTable.Len(); n > 0 && row >= x.coldFirst && row-x.coldFirst < uint32(n) {
		return nil
	}
	err := layout.BlockError(x.c.Name, x.c.ID, codec.KindCold, row, errGone)
	first, ok := x.found.coldBefore(row, row>>x.c.Shift()<<x.c.Shift())
	if !ok {
		return err
	}
	data, e := x.w.block(string(layout.BucketBlocks), codec.Key(x.c.ID, codec.KindCold, first))
	if e != nil {
		return err
	}
	t, e := codec.NewStrings(data)
	if e != nil || row-first >= uint32(t.Len()) {
		return err
	}
	x.coldTable, x.coldFirst = t, first
	return nil
}

// named replaces the numbers of a row's features by their names.
func (x *salvagedRows) named(r *Row) error {
	if !x.c.Named {
		return nil
	}
	dict := x.w.pairs[string(layout.BucketFeatures)]
	for i, id := range r.Sparse.Index {
		number := binary.BigEndian.AppendUint32(nil, id)
		name, ok := dict[string(layout.FeatureKey(x.c.ID, layout.FeatureByID, number))]
		if !ok {
			return fail.Corruptf(x.c.Name, "feature %d has lost its name", id)
		}
		// The dictionary must map the name back to the number; otherwise it is damaged.
		back := layout.FeatureKey(x.c.ID, layout.FeatureByName, name)
		n, ok := layout.EntryNumber(string(layout.BucketFeatures), back, dict[string(back)])
		if !ok || n != uint64(id) {
			return fail.Corruptf(x.c.Name, "feature %d has a damaged name", id)
		}
		r.Features = append(r.Features, Feature{string(name), r.Sparse.Value[i]})
	}
	r.Sparse = vector.Sparse{}
	return nil
}
