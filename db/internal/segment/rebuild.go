package segment

import (
	"context"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
)

// Rebuild describes how to rebuild an index with its stored settings, or with the requested ones if
// the tuning was put off and there are enough rows now.
type Rebuild struct {
	m    *kind.Manifest
	opts kind.Options
	// replaces is the main object of the index to rebuild, zero if the file does not have the
	// index yet.
	replaces uint64
}

// NewRebuild returns how to rebuild the index with a manifest in a file that does not have it yet.
// st is nil if the index cannot be read.
func NewRebuild(ctx context.Context, st kind.Source, m *kind.Manifest) *Rebuild {
	if m.Requested != nil {
		return &Rebuild{m: m, opts: m.Requested}
	}
	return &Rebuild{m: m, opts: m.Of.Again(ctx, st, m)}
}

// inPlaceOf returns how to rebuild an index that the file has.
func inPlaceOf(ctx context.Context, st kind.Source, m *kind.Manifest, r *layout.IndexRef) *Rebuild {
	again := NewRebuild(ctx, st, m)
	again.replaces = r.Object
	return again
}

// Name returns the name of the index.
func (r *Rebuild) Name() string { return r.m.Info.Name }

// Uses returns the name of the index that this one needs, empty if there is none.
func (r *Rebuild) Uses() string { return r.m.Uses() }

// overtakes returns a function that reports whether a collection no longer has an index with an object,
// unless that is zero.
func overtakes(name string, object uint64) func(c *layout.Collection) bool {
	return func(c *layout.Collection) bool {
		ref := c.Index(name)
		return object > 0 && (ref == nil || ref.Object != object)
	}
}

// Rebuild rebuilds an index. It returns ErrOvertaken if the program has built or dropped the
// index in the meantime. The caller holds a share of row numbers.
func (ix *Indexer) Rebuild(ctx context.Context, coll string, r *Rebuild) (*kind.Manifest, error) {
	timer := kind.NewTimer(ctx)
	timer.Before = r.m
	return ix.build(ctx, &building{
		Job:       kind.Job{Coll: coll, Name: r.Name(), Opts: r.opts, Timer: timer},
		overtaken: overtakes(r.Name(), r.replaces),
	})
}
