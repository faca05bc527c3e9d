package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Collection holds what a generation has decoded of one collection: pointer tables into the map,
// made by the first reader that needs them.
type Collection struct {
	Gen   *Generation
	Entry *layout.Collection
	// describe is what kinds know of the collection, vectors and features what they know of each part if it
	// has both.
	describe                  kind.Collection
	vectors, features         onePart
	scanVectors, scanFeatures kind.Scan // the exact scans
	// Numbering identifies the assignment of row numbers.
	Numbering *Numbering

	rowsLoad   loading
	base       query.View     // of vectors: Metric, Dim, Rows, Deleted (and vectorless), LiveCount
	sparseRows kind.SparseSet // of features

	keysLoad loading
	keyRaw   [][]byte                        // payloads of the chunks' key tables
	keyTabs  []atomic.Pointer[codec.Strings] // decoded on first use
	tailKeys [][]byte

	changesLoad loading
	changed     *roaring.Bitmap // rows with a change; nil if none ever was changed

	attributesLoad loading
	attributeMu    sync.Mutex // guards attributes.tables
	attributes     attributes
	unexpired      atomic.Pointer[unexpired]

	indexMu   sync.Mutex
	indexes   map[string]*Index
	manifests map[string]func() (*kind.Manifest, error)
	labelSets map[string]*roaring.Bitmap // filled by Check

	filterSets filterSets
}

func newCollection(g *Generation, c *layout.Collection) *Collection {
	st := &Collection{
		Gen: g, Entry: c, Numbering: g.File.numberingOf(c.ID), describe: c.Describe(c.Sparse),
		rowsLoad: newLoading(), keysLoad: newLoading(),
		changesLoad: newLoading(), attributesLoad: newLoading(),
		indexes: map[string]*Index{},
	}
	st.describe.Sampled = st.Sampled()
	st.makeParts()
	return st
}

// Rows loads the pointer tables of the rows and the tombstones.
func (st *Collection) Rows(ctx context.Context) (*query.View, error) {
	if st.Entry.Dim == 0 {
		return nil, fmt.Errorf("%w: %q has no vectors", fail.Kind, st.Entry.Name)
	}
	return &st.base, st.Load(ctx)
}

// Sparse loads the rows of a sparse collection.
func (st *Collection) Sparse(ctx context.Context) (*kind.SparseSet, error) {
	if !st.Entry.Sparse {
		return nil, fmt.Errorf("%w: %q has no features", fail.Kind, st.Entry.Name)
	}
	return &st.sparseRows, st.Load(ctx)
}

// Load loads the rows: vectors, features, or both.
func (st *Collection) Load(ctx context.Context) error {
	return st.rowsLoad.do(ctx, func(ctx context.Context) (err error) {
		defer Guard(st.Gen.File, CatchFaults(), &err)
		deletedRows, err := st.tombstones()
		if err != nil {
			return err
		}
		st.base, st.sparseRows = query.View{}, kind.SparseSet{DeletedRows: deletedRows}
		if st.Entry.Sparse {
			err = st.loadSparse(ctx)
		}
		if err == nil && st.Entry.Dim > 0 {
			err = st.loadDense(ctx)
		}
		if err == nil {
			err = st.loadTail()
		}
		if err == nil && st.Entry.Dim > 0 {
			err = st.finishDense(deletedRows)
		}
		return err
	})
}

// loadSparse loads the features of the rows in chunks.
func (st *Collection) loadSparse(ctx context.Context) error {
	c, set := st.Entry, &st.sparseRows
	vals, err := st.Gen.section(ctx, c.Name, c.ID, codec.KindSparse, int(c.ChunkCount()))
	if err != nil {
		return err
	}
	set.N, set.Shift, set.Live = int(c.Rows), c.Shift(), int(c.Live)
	// Chunks never change and Features only grows, so a valid chunk stays valid.
	checked := st.Gen.File.checked.Section(c.ID, codec.KindSparse)
	for i, v := range vals {
		chunk, err := rows.ViewSparse(v.payload, 1<<c.Shift(), c.Features, !checked.Has(uint32(i)))
		if err != nil {
			return st.damaged(codec.KindSparse, uint32(i), err)
		}
		checked.Set(uint32(i))
		set.Chunks = append(set.Chunks, chunk)
	}
	return nil
}

// loadDense loads the vectors of the rows in chunks, and their norms.
func (st *Collection) loadDense(ctx context.Context) error {
	c, g, rs := st.Entry, st.Gen, &st.base.Rows
	n := int(c.ChunkCount())
	vals, err := g.section(ctx, c.Name, c.ID, codec.KindRows, n)
	if err != nil {
		return err
	}
	*rs = query.RowSet{N: int(c.Rows), Dim: c.Dim, Shift: c.Shift(), Request: g.File.Requests()}
	for i, v := range vals {
		size := 4
		if v.block.Elem == codec.U8 {
			size = 1
		}
		if len(v.payload) != c.Dim*size<<c.Shift() || size == 4 && v.block.Elem != codec.F32 {
			return st.damaged(codec.KindRows, uint32(i),
				fmt.Errorf("%d bytes of %v", len(v.payload), v.block.Elem))
		}
		rs.Chunks = append(rs.Chunks, v.payload)
		rs.Uint8 = append(rs.Uint8, size == 1)
	}
	if c.Metric != vector.Cosine {
		return nil
	}
	norms, err := g.section(ctx, c.Name, c.ID, codec.KindNorms, n)
	if err != nil {
		return err
	}
	for i, v := range norms {
		x, err := codec.View[float32](v.payload, 1<<c.Shift())
		if err != nil {
			return st.damaged(codec.KindNorms, uint32(i), err)
		}
		rs.InvNorm = append(rs.InvNorm, x)
	}
	return nil
}

// loadTail loads the rows after the last chunk.
func (st *Collection) loadTail() error {
	c, tail, rs := st.Entry, &st.sparseRows.Tail, &st.base.Rows
	*tail = vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: c.Features}
	st.tailKeys = nil
	var inv []float32
	format := c.RowFormat()
	err := st.eachTail(func(row uint32, payload []byte) error {
		one, err := format.Split(payload)
		if err != nil {
			return err
		}
		st.tailKeys = append(st.tailKeys, one.Key)
		if c.Sparse {
			tail.Append(one.Sparse)
		}
		if c.Dim > 0 {
			rs.Tail = append(rs.Tail, codec.Bytes(one.Vector))
		}
		if format.Norms && c.Dim > 0 {
			inv = append(inv, vector.InverseNorm(one.Vector))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if inv != nil {
		rs.InvNorm = append(rs.InvNorm, inv)
	}
	if err := tail.Validate(); err != nil {
		return fail.Corruptf(c.Name, "rows not sealed yet: %w", err)
	}
	if tail.Cols > c.Features {
		return fail.Corruptf(c.Name, "feature %d of %d", tail.Cols-1, c.Features)
	}
	return nil
}

// finishDense determines the rows with a vector.
func (st *Collection) finishDense(deletedRows *roaring.Bitmap) (err error) {
	c, live := st.Entry, int(st.Entry.Live)
	if c.Both() {
		if deletedRows, err = st.withoutVector(deletedRows); err != nil {
			return err
		}
		live = int(c.Rows) - int(deletedRows.GetCardinality())
		st.vectors.describe.Live = uint32(live)
	}
	st.base.Metric, st.base.Dim, st.base.LiveCount = c.Metric, c.Dim, live
	st.base.Deleted, st.base.DeletedBits = deletedRows, kind.BitsOf(deletedRows, int(c.Rows))
	if err := st.base.Validate(); err != nil {
		return fail.Corruptf(c.Name, "%w", err)
	}
	return nil
}

// tombstones reads the set of deleted rows, nil if there are none.
func (st *Collection) tombstones() (deletedRows *roaring.Bitmap, err error) {
	c, g := st.Entry, st.Gen
	if err := g.File.VerifyPages(layout.PartSets); err != nil {
		return nil, err
	}
	g.Locked(func() { deletedRows, err = layout.ReadSet(g.Tx, c.Name, c.ID, codec.KindTombstones, c.Rows) })
	if err != nil {
		return nil, err
	}
	if live := c.Rows - uint32(deletedRows.GetCardinality()); live != c.Live {
		return nil, fail.Corruptf(c.Name, "%d rows are not deleted, the catalog counts %d", live, c.Live)
	}
	if deletedRows.IsEmpty() {
		return nil, nil
	}
	return deletedRows, nil
}

// withoutVector returns the rows that are deleted or have no vector: no search of vectors finds them.
func (st *Collection) withoutVector(deletedRows *roaring.Bitmap) (out *roaring.Bitmap, err error) {
	c, g := st.Entry, st.Gen
	g.Locked(func() { out, err = layout.ReadSet(g.Tx, c.Name, c.ID, codec.KindVectorless, c.Rows) })
	if err == nil && deletedRows != nil {
		out.Or(deletedRows)
	}
	return out, err
}

// eachTail calls f for the verified payload of every row after the last chunk, in order. It
// reports errors of f as damage to that row.
func (st *Collection) eachTail(f func(row uint32, payload []byte) error) error {
	c, g := st.Entry, st.Gen
	if err := g.File.VerifyPages(layout.PartTail); err != nil {
		return err
	}
	want := c.Sealed()
	seen := g.File.verified.Section(c.ID, codec.KindTail)
	g.state.Lock()
	defer g.state.Unlock()
	err := layout.EachBlock(g.Tx.Bucket(layout.BucketTail), c.ID, codec.KindTail, func(k, v []byte) error {
		_, _, row := codec.ParseKey(k)
		if row != want {
			return st.damaged(codec.KindTail, want, errors.New("row is missing"))
		}
		p, err := layout.DecodeBlock(c.Name, k, v, !seen.Has(row))
		if err != nil {
			return err
		}
		seen.Set(row)
		if err := f(row, p); err != nil {
			return st.damaged(codec.KindTail, row, err)
		}
		want++
		return nil
	})
	if err != nil {
		return err
	}
	if want != c.Rows {
		return st.damaged(codec.KindTail, want, errors.New("row is missing"))
	}
	return nil
}

// DeletedSet returns the set of deleted rows, nil if there are none. Load must have succeeded.
func (st *Collection) DeletedSet() *roaring.Bitmap {
	if st.Entry.Sparse {
		return st.sparseRows.DeletedRows
	}
	return st.base.Deleted
}

// liveRows returns the rows that are not deleted. Load must have succeeded.
func (st *Collection) liveRows() *roaring.Bitmap {
	rows := roaring.New()
	rows.AddRange(0, uint64(st.Entry.Rows))
	if d := st.DeletedSet(); d != nil {
		rows.AndNot(d)
	}
	return rows
}

// Deleted reports whether a row has a tombstone. Load must have succeeded.
func (st *Collection) Deleted(row uint32) bool {
	d := st.DeletedSet()
	return d != nil && d.Contains(row)
}

// damaged returns the error for a damaged block of the collection's own object.
func (st *Collection) damaged(section codec.Kind, chunk uint32, err error) error {
	return layout.BlockError(st.Entry.Name, st.Entry.ID, section, chunk, err)
}
