package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
)

// File is a handle of a served file. It costs nothing.
type File struct {
	c    *Client
	path string
}

// Collection returns a handle of the collection with the name, which need not exist yet.
func (f File) Collection(name string) Collection {
	return Collection{f: f, name: name, path: f.path + "/collections/" + wire.PathKey([]byte(name))}
}

// Collections lists the collections in order of creation.
func (f File) Collections(ctx context.Context) ([]db.CollectionInfo, error) {
	var out wire.Collections
	err := f.c.call(ctx, get(f.path+"/collections"), &out)
	return out.Collections, err
}

// Create creates an empty collection and returns a handle of it. Errors: db.ErrExists.
func (f File) Create(ctx context.Context, name string, schema db.Schema) (Collection, error) {
	in := wire.NewCollection{Name: name, Schema: schema}
	r := &request{method: http.MethodPost, path: f.path + "/collections", in: in}
	return f.Collection(name), f.c.call(ctx, r, nil)
}

// Rename gives a collection another name. Errors: db.ErrExists.
func (f File) Rename(ctx context.Context, name, to string) error {
	in := wire.CollectionChange{Name: to}
	return f.c.call(ctx, &request{method: http.MethodPatch, path: f.Collection(name).path, in: in}, nil)
}

// Drop removes a collection with its rows and indexes.
func (f File) Drop(ctx context.Context, name string) error {
	return f.c.call(ctx, &request{method: http.MethodDelete, path: f.Collection(name).path}, nil)
}

// Stats describes the latest state, as db.DB.Stats does.
func (f File) Stats(ctx context.Context) (out db.Stats, err error) {
	err = f.c.call(ctx, get(f.path), &out)
	return out, err
}

// Maintain maintains the indexes, as db.DB.Maintain does, and returns the steps.
func (f File) Maintain(ctx context.Context, share float64) ([]maintenance.Step, error) {
	var out wire.Maintained
	in := wire.Maintain{Share: share}
	r := &request{method: http.MethodPost, path: f.path + "/maintain", in: in, long: true}
	err := f.c.call(ctx, r, &out)
	return out.Steps, err
}

// Compact rewrites the file without free pages, as db.DB.Compact does. Of o only Reorder has an effect; nil
// options are the defaults.
func (f File) Compact(ctx context.Context, o *db.CompactOptions) error {
	in := wire.Compact{Reorder: o != nil && o.Reorder}
	return f.c.call(ctx, &request{method: http.MethodPost, path: f.path + "/compact", in: in, long: true}, nil)
}

// Check verifies the file, as db.DB.Check does: report, if not nil, is called for every problem, and the
// error is db.ErrCorrupt if there was any.
func (f File) Check(ctx context.Context, report func(*db.CorruptError)) error {
	var out wire.Checked
	r := &request{method: http.MethodPost, path: f.path + "/check", read: true, long: true}
	if err := f.c.call(ctx, r, &out); err != nil || out.OK {
		return err
	}
	for _, d := range out.Problems {
		if report != nil {
			d.Err = errors.New(d.Reason)
			report(&d.CorruptError)
		}
	}
	return fmt.Errorf("%w: %d problems", db.ErrCorrupt, len(out.Problems))
}

// Backup writes a copy of the latest state, a complete database, to w and returns its length in bytes. After
// an error what was written is incomplete.
func (f File) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	err = f.c.stream(ctx, f.path+"/backup", func(body io.Reader) (err error) {
		n, err = io.Copy(w, body)
		return err
	})
	return n, err
}
