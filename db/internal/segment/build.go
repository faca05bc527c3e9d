package segment

import (
	"context"
	"errors"
	"fmt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/vector"
)

// Request describes an index to build.
type Request struct {
	Collection, Name string
	Options          index.Options
	// Auto is set for a build by maintenance. The index is published only if the collection still
	// lacks one that finds rows.
	Auto bool
}

// Build learns an index over the rows of the latest state and publishes it, in the place of one of
// that name. Name and options are valid. The caller holds a share of row numbers.
func (ix *Indexer) Build(ctx context.Context, r Request) (m *kind.Manifest, err error) {
	s := trace.Span{Name: trace.Build, Start: ix.txn.Start(), Collection: r.Collection, Index: r.Name}
	defer func() {
		if s.Err = err; m != nil {
			s.Rows = m.Info.Rows
		}
		ix.txn.End(ctx, s)
	}()
	job := &building{
		Job:  kind.Job{Coll: r.Collection, Name: r.Name, Given: r.Options, Timer: kind.NewTimer(ctx)},
		auto: r.Auto,
	}
	if r.Auto {
		job.overtaken = func(c *layout.Collection) bool { return !Lacking(c, c.ByFeatures(job.kind)) }
	}
	return ix.build(ctx, job)
}

// building is a build in progress: of all rows, or of a segment of the index Base.
type building struct {
	kind.Job
	plan plan // of a segment
	kind kind.Kind
	id   uint64 // of the collection, set when it is first read
	// changes are the rows that are relabelled during the build.
	changes *apply.Watch
	// overtaken reports whether the program has changed the indexes so that this one must not be
	// published any more. It is nil for a build by the program.
	overtaken func(c *layout.Collection) bool
	auto      bool // see Request
	// asked is the number of queries of users that had been sampled when the build began, if it measures
	// settings of all segments on them.
	asked  int
	metric vector.Metric
	dim    int
}

// build learns, stores and publishes an index.
func (ix *Indexer) build(ctx context.Context, job *building) (*kind.Manifest, error) {
	changes, end := ix.txn.Watch()
	defer end()
	job.changes = changes
	return ix.learn(ctx, job)
}

// learn learns, stores and publishes an index or a segment.
func (ix *Indexer) learn(ctx context.Context, job *building) (*kind.Manifest, error) {
	err := ix.latest(job, func(st *state.Collection) (err error) {
		job.kind, err = ix.suitable(job.Given, st.Entry)
		return err
	})
	if err != nil {
		return nil, err
	}
	job.Latest = func(f func(st kind.Source) error) error {
		return ix.latest(job, func(st *state.Collection) error {
			of, err := st.Part(ctx, job.kind)
			if err != nil {
				return err
			}
			c := of.Collection()
			job.metric, job.dim = c.Metric, c.Dim
			return f(of)
		})
	}
	err = job.Latest(func(st kind.Source) error {
		c := st.Collection()
		if job.Base == nil {
			job.End, job.asked = int(c.Rows), c.Sampled.Taken()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l, err := job.kind.Build(ctx, &job.Job)
	if job.Base != nil && errors.Is(err, fail.Empty) {
		l, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ix.store(ctx, job, l)
}

// suitable returns the kind that options select, or an error if it does not suit a collection.
func (ix *Indexer) suitable(o index.Options, c *layout.Collection) (kind.Kind, error) {
	k := ix.kindOf(o.Name())
	if k == nil { // in a damaged manifest
		return nil, fmt.Errorf("%w: unknown kind of index %q", fail.Option, o.Name())
	}
	if !c.Suits(k) {
		form, other := "dense", "sparse"
		if c.Sparse {
			form, other = other, form
		}
		return nil, fmt.Errorf("%w: %q is %s, an index of kind %s is for %s rows",
			fail.Kind, c.Name, form, o.Name(), other)
	}
	return k, nil
}

// latest calls f with the latest generation of the collection that is being indexed.
func (ix *Indexer) latest(job *building, f func(st *state.Collection) error) error {
	return ix.txn.View(func(g *state.Generation) error {
		st, err := g.Collection(job.Coll)
		switch {
		case err != nil:
			return err
		case job.id == 0:
			job.id = st.Entry.ID
		case job.id != st.Entry.ID:
			return dropped(job.Coll)
		case job.Base != nil && job.overtaken(st.Entry):
			return ErrOvertaken
		}
		return f(st)
	})
}

// dropped returns the error of a build whose collection was dropped during the build.
func dropped(coll string) error {
	return fmt.Errorf("%w: %q: the collection was dropped during the build", fail.NoCollection, coll)
}
