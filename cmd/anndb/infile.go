package main

import (
	"errors"

	"github.com/anndb/anndb/db"
)

// inFile is the database file of a command that needs an existing one.
type inFile struct {
	File string `arg:"" help:"Database file."`
}

// open opens the file; it must exist.
func (f inFile) open(a *app, readOnly bool) (*db.DB, error) {
	o := &db.Options{
		ReadOnly: readOnly, MustExist: true, Timeout: a.flags.Wait, Maintenance: &db.Maintenance{Manual: true},
	}
	d, err := db.Open(a.ctx, f.File, o)
	return d, explain(f.File, err)
}

// with opens the file, runs f and closes it; the first error counts.
func (f inFile) with(a *app, readOnly bool, work func(*db.DB) error) (err error) {
	d, err := f.open(a, readOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	err = work(d)
	if errors.Is(err, db.ErrCorrupt) {
		err = explain(f.File, err)
	}
	return err
}

// withSnapshot opens the file read-only and runs f on its current state.
func (f inFile) withSnapshot(a *app, work func(*db.Snapshot) error) error {
	return f.with(a, true, func(d *db.DB) error { return d.View(work) })
}

// withCollection opens the file read-only and runs f on the current state of one of
// its collections.
func (f inFile) withCollection(a *app, name string, work func(*db.Snapshot, db.CollectionInfo) error) error {
	return f.withSnapshot(a, func(s *db.Snapshot) error {
		info, err := s.Collection(name).Info()
		if err != nil {
			return err
		}
		return work(s, info)
	})
}
