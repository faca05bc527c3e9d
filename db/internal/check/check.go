// Package check verifies a committed state of a database without trusting any of it: its pages, its
// blocks, and that rows, keys, tombstones, labels and indexes agree.
package check

import (
	"context"
	"fmt"
	"io"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
)

// checker collects the problems that a check finds.
type checker struct {
	ctx      context.Context
	g        *state.Generation
	path     string
	report   func(fail.Damage)
	problems int
	colls    map[uint64]*layout.Collection
	labels   map[uint64]*layout.Collection // label objects
	indexes  map[uint64]*layout.Collection // index objects
	attrs    map[uint64]*layout.Collection // objects of attributes
	marks    map[uint64]bool               // objects awaiting removal
	keys     map[uint64]map[uint32]string
	read     stage // MiB of pages
	compared stage // rows of all collections
	opened   stage // indexes
}

// stage reports how much of a part of the check is done.
type stage struct {
	report      func(kind.Progress) // nil for no reports
	name        string
	done, total int64
	unit        int64 // what counts as one in reports
	every       int64 // how much is done between reports
}

// add records more.
func (s *stage) add(n int64) {
	before := s.done / s.every
	s.done += n
	if s.report != nil && s.done/s.every != before {
		s.report(kind.Progress{Stage: s.name, Done: int(s.done / s.unit), Total: int(s.total / s.unit)})
	}
}

func (c *checker) found(e fail.Damage) {
	c.problems++
	c.report(e)
}

// Run checks a generation of the file at path and calls report for every problem. The error is
// fail.ErrCorrupt if there was any.
func Run(
	ctx context.Context, g *state.Generation, path string, report func(fail.Damage),
) (err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	c := &checker{
		ctx: ctx, g: g, path: path, report: report,
		colls: map[uint64]*layout.Collection{}, labels: map[uint64]*layout.Collection{},
		indexes: map[uint64]*layout.Collection{}, attrs: map[uint64]*layout.Collection{},
		marks: map[uint64]bool{}, keys: map[uint64]map[uint32]string{},
	}
	reports := kind.ProgressOf(ctx)
	c.read = stage{report: reports, name: "pages", unit: 1 << 20, every: 1 << 20}
	c.compared = stage{report: reports, name: "rows", unit: 1, every: 1024}
	c.opened = stage{report: reports, name: "indexes", unit: 1, every: 1}
	for _, x := range g.Catalog.Collections {
		c.compared.total += int64(x.Rows)
		c.opened.total += int64(len(x.Indexes))
		c.colls[x.ID] = x
		c.keys[x.ID] = map[uint32]string{}
		for _, r := range x.Attributes {
			c.attrs[r.Object] = x
		}
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
		for _, x := range g.Catalog.Collections {
			c.collection(x)
		}
	}
	if err := ctx.Err(); err != nil {
		return fail.Wrapf(err, "check")
	}
	if c.problems > 0 {
		return fmt.Errorf("%w: %s: %d problems", fail.ErrCorrupt, path, c.problems)
	}
	return nil
}

// pages checks the pages of the generation.
func (c *checker) pages() error {
	g := c.g
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
		c.found(fail.Damage{Offset: -1, Err: state.Translate(err)})
		return nil
	}
	free, _ := g.File.FreePages() // an error is found below
	c.read.total = (int64(m.High) - int64(free)) * int64(m.PageSize)
	w := page.NewWalker(c.ctx, g.File, length, m, page.Visitor{
		Pair: c.pair,
		Report: func(id uint64, err error) {
			c.found(fail.Damage{Offset: m.Offset(id), Err: err})
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
			c.found(fail.Damage{Offset: -1, Err: fmt.Errorf("bucket %q is missing", name)})
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
	g := c.g
	for _, name := range layout.AllBuckets {
		var b *bbolt.Bucket
		g.Locked(func() { b = g.Tx.Bucket(name) })
		if b == nil {
			continue
		}
		seen[string(name)] = true
		if b.Root() != 0 {
			w.Walk(page.Bucket{Name: name, Root: uint64(b.Root())}, page.Values)
		} else if err := c.inlinePairs(name, b); err != nil {
			c.found(fail.Damage{Offset: -1, Err: fmt.Errorf("bucket %q: %w", name, err)})
		}
	}
}

// inlinePairs checks the pairs of a bucket that is stored inline in its parent, on a page that
// only the transaction knows.
func (c *checker) inlinePairs(name []byte, b *bbolt.Bucket) (err error) {
	g := c.g
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

// meta finds the meta page of the generation. Later commits may have overwritten it; the
// pages of the state are kept, and the newer meta page bounds their numbers.
func (c *checker) meta(f io.ReaderAt) (m page.Meta, live bool, err error) {
	metas := state.ReadMetas(f)
	for range 3 {
		if len(metas.Valid()) == 2 {
			break
		}
		// The read may have seen a partially written page.
		time.Sleep(time.Millisecond)
		metas = state.ReadMetas(f)
	}
	id := uint64(c.g.Tx.ID())
	for i, e := range metas.Err {
		switch {
		case e != nil:
			c.found(fail.Damage{Offset: int64(i) * layout.PageSize, Err: e})
		case live:
		case metas.Meta[i].TxID == id:
			m, live = metas.Meta[i], true
		case metas.Meta[i].High >= m.High:
			m = metas.Meta[i]
		}
	}
	if m.PageSize == 0 {
		return m, false, fmt.Errorf("%w: %s: no meta page is valid", fail.ErrCorrupt, c.path)
	}
	return m, live, nil
}
