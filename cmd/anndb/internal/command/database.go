package command

import (
	"cmp"
	"errors"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// InFile is the database file of a command that needs an existing one.
type InFile struct {
	File string `arg:"" type:"path"`
}

// Open opens the file; it must exist.
func (f InFile) Open(a *App, readOnly bool) (*db.DB, error) {
	return Open(a, f.File, db.Options{ReadOnly: readOnly, MustExist: true})
}

// Open opens a database as commands do: it waits as long as the user says, and does no maintenance unless o
// has a policy. A database that the host has open is that one. Close closes it.
func Open(a *App, path string, o db.Options) (*db.DB, error) {
	if d := a.Program.Host.Database(path); d != nil {
		return d, nil
	}
	o.Timeout, o.Maintenance = a.Flags.Wait, cmp.Or(o.Maintenance, &maintenance.Policy{Manual: true})
	d, err := db.Open(a.Ctx, path, &o)
	return d, Explain(path, err)
}

// Close closes a database that Open has returned, unless it is one of the host.
func Close(a *App, d *db.DB) error {
	hosted := func(f HostedFile) bool { return f.DB == d }
	if h := a.Program.Host; h != nil && slices.ContainsFunc(h.Files, hosted) {
		return nil
	}
	return d.Close()
}

// With opens the file, runs f and closes it; the first error counts.
func (f InFile) With(a *App, readOnly bool, work func(*db.DB) error) (err error) {
	d, err := f.Open(a, readOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Close(a, d)) }()
	err = work(d)
	if errors.Is(err, db.ErrCorrupt) {
		err = Explain(f.File, err)
	}
	return err
}

// WithSnapshot opens the file read-only and runs f on its current state.
func (f InFile) WithSnapshot(a *App, work func(*db.Snapshot) error) error {
	return f.With(a, true, func(d *db.DB) error { return d.View(work) })
}

// InCollection is the collection of a command that needs an existing one.
type InCollection struct {
	InFile
	Collection string `arg:""`
}

// WithCollection opens the file read-only and calls work with its current state and the collection.
func (c InCollection) WithCollection(a *App, work func(*db.Snapshot, db.CollectionInfo) error) error {
	return c.WithSnapshot(a, func(s *db.Snapshot) error {
		info, err := s.Collection(c.Collection).Info()
		if err != nil {
			return err
		}
		return work(s, info)
	})
}
