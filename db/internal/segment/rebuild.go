package segment

import (
	"context"
	"runtime/debug"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
)

// Rebuild describes how to rebuild an index.
type Rebuild struct {
	m      *kind.Manifest
	labels []string // see kind.Job
	// replaces is the main object of the index to rebuild, zero if the file does not have the
	// index yet.
	replaces uint64
}

// NewRebuild returns how to rebuild the index with a manifest in a file that does not have it yet.
// st is nil if the index cannot be read.
func NewRebuild(ctx context.Context, st kind.Source, m *kind.Manifest) *Rebuild {
	return &Rebuild{m: m, labels: labelNames(ctx, st, m)}
}

// labelNames returns the names of the labels that an index predicts, by number; nil if it does not, or
// cannot be read.
func labelNames(ctx context.Context, st kind.Source, m *kind.Manifest) (names []string) {
	if st == nil || !m.Of.Traits().Predicts {
		return nil
	}
	read := func() (err error) {
		x, err := st.OpenNamed(ctx, m.Info.Name)
		if err != nil {
			return err
		}
		defer st.Guard(debug.SetPanicOnFault(true), &err)
		names = x.(kind.LabelPredictor).Names()
		return nil
	}
	if read() != nil {
		return nil
	}
	return names
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
func (r *Rebuild) Uses() string { return r.m.Uses }

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
	return ix.build(ctx, &building{
		Job: kind.Job{
			Coll: coll, Name: r.Name(), Given: r.m.Given, Before: r.m, Labels: r.labels, Timer: kind.NewTimer(ctx),
		},
		overtaken: overtakes(r.Name(), r.replaces),
	})
}
