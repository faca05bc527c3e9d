package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/trace"
)

// Collection is a handle of a collection, by name. One of a database sees the latest state at each
// call, one of a snapshot always the snapshot's, where loads, builds and drops return ErrReadOnly.
// A handle costs nothing, is safe for concurrent use, and can be made before the collection exists.
type Collection struct {
	d    *DB
	s    *Snapshot // nil: the latest state
	name string
}

// Collection returns a handle that sees the latest state at each call.
func (d *DB) Collection(name string) Collection { return Collection{d: d, name: name} }

// Collection returns a handle that sees the snapshot's state.
func (s *Snapshot) Collection(name string) Collection {
	return Collection{s: s, name: name}
}

// Name returns the collection's name.
func (c Collection) Name() string { return c.name }

// Info describes the collection.
func (c Collection) Info() (info CollectionInfo, err error) {
	err = c.read(context.Background(), func(st *state.Collection) error {
		info = infoOf(st.Entry)
		return nil
	})
	return info, err
}

// hold returns the snapshot that a call reads; letGo must follow.
func (c Collection) hold(ctx context.Context) (*Snapshot, error) {
	if err := fail.Context(ctx); err != nil {
		return nil, err
	}
	switch {
	case c.s != nil:
		return c.s, nil
	case c.d == nil:
		return nil, fmt.Errorf("%w: a Collection without a database", ErrClosed)
	}
	return c.d.Snapshot()
}

func (c Collection) letGo(s *Snapshot) {
	if c.s == nil {
		s.Release()
	}
}

// writer returns the database of a handle that may write.
func (c Collection) writer() (*DB, error) {
	switch {
	case c.d != nil:
		return c.d, nil
	case c.s != nil:
		return nil, fmt.Errorf("%w: collection %q of a snapshot: use DB.Collection", ErrReadOnly, c.name)
	}
	return nil, fmt.Errorf("%w: a Collection without a database", ErrClosed)
}

// database returns the database that a handle reads.
func (c Collection) database() *DB {
	if c.s != nil {
		return c.s.d
	}
	return c.d
}

// span begins a call of n queries, which End of the manager ends.
func (c Collection) span(name string, n int) (*txn.Manager, trace.Span) {
	m := c.database().manager()
	return m, trace.Span{Name: name, Start: m.Start(), Collection: c.name, Queries: n}
}

// read calls f with the collection in the state that the handle sees. Faults of the map become
// errors.
func (c Collection) read(ctx context.Context, f func(st *state.Collection) error) error {
	s, err := c.hold(ctx)
	if err != nil {
		return err
	}
	defer c.letGo(s)
	return s.read(c.name, f)
}

// read calls f with a collection of the snapshot. Faults of the map become errors.
func (s *Snapshot) read(coll string, f func(st *state.Collection) error) (err error) {
	if err := s.open(); err != nil {
		return err
	}
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
	st, err := s.gen.Collection(coll)
	if err != nil {
		return err
	}
	return f(st)
}
