package server

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
)

// reply answers with what do returns, without a body for nil.
func reply(do func(*call) (any, error)) func(*call) error {
	return func(c *call) error {
		out, err := do(c)
		switch {
		case err != nil:
			return err
		case out == nil:
			c.WriteHeader(http.StatusNoContent)
		default:
			c.answer(http.StatusOK, out)
		}
		return nil
	}
}

// body is reply with what a body of JSON has.
func body[In any](do func(*call, *In) (any, error)) func(*call) error {
	return reply(func(c *call) (any, error) {
		in := new(In)
		if err := c.decode(in); err != nil {
			return nil, err
		}
		return do(c, in)
	})
}

// listFiles answers with the names of the files, for a request by a Unix socket with that of its file first.
func listFiles(c *call) (any, error) {
	names := slices.Sorted(maps.Keys(c.s.files))
	if Local(c.r) {
		socket := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		own := func(name string) bool { return wire.Socket(c.s.files[name].Path()) == socket }
		if i := slices.IndexFunc(names, own); i > 0 {
			name := names[i]
			names = slices.Insert(slices.Delete(names, i, i+1), 0, name)
		}
	}
	return wire.Files{Files: names}, nil
}

func stats(c *call) (any, error) {
	st, err := c.file.Stats()
	if err != nil {
		return nil, err
	}
	return wire.Stats{Stats: st, Running: c.s.running.of(c.file)}, nil
}

// running are the long calls in progress.
type running struct {
	mu    sync.Mutex
	calls map[*call]wire.Running
}

// run does a long call, whose progress the statistics of the file have until it ends.
func (c *call) run(do func(*db.Run) error) error {
	r, begin := &c.s.running, time.Now()
	report := func(stage string, done, total int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls == nil {
			r.calls = map[*call]wire.Running{}
		}
		r.calls[c] = wire.Running{
			Call: c.r.Method + " " + c.r.URL.EscapedPath(), Stage: stage, Done: done, Total: total,
			Seconds: time.Since(begin).Seconds(),
		}
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, c)
	}()
	report("", 0, 0)
	return do(&db.Run{Progress: report})
}

// of returns the calls for a file.
func (r *running) of(file *db.DB) (out []wire.Running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, x := range r.calls {
		if c.file == file {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b wire.Running) int { return strings.Compare(a.Call, b.Call) })
	return out
}

// check verifies the file. Damage is its answer, not an error of the request.
func check(c *call) (any, error) {
	out := wire.Checked{Problems: []wire.Damage{}}
	problem := func(e *db.CorruptError) {
		out.Problems = append(out.Problems, wire.Damage{CorruptError: *e, Reason: e.Err.Error()})
	}
	err := c.run(func(run *db.Run) error { return c.file.Check(c.ctx, problem, run) })
	out.OK = err == nil
	if errors.Is(err, db.ErrCorrupt) && len(out.Problems) > 0 {
		err = nil
	}
	return out, err
}

func maintain(c *call, in *wire.Maintain) (any, error) {
	out := wire.Maintained{Steps: []maintenance.Step{}}
	err := c.run(func(run *db.Run) error {
		steps, err := c.file.Maintain(c.ctx, in.Share, run)
		out.Steps = append(out.Steps, steps...)
		return err
	})
	return out, err
}

// compact rewrites the file without free pages.
func compact(c *call, in *wire.Compact) (any, error) {
	return nil, c.run(func(run *db.Run) error {
		return c.file.Compact(c.ctx, &db.CompactOptions{Reorder: in.Reorder, Run: *run})
	})
}

// backup sends a copy of the latest state. An error in the middle ends the connection.
func backup(c *call) error {
	c.Header().Set("Content-Type", "application/octet-stream")
	_, err := c.file.Backup(c.ctx, c.response)
	return err
}

func listCollections(c *call) (any, error) {
	list, err := c.file.Collections()
	return wire.Collections{Collections: list}, err
}

func createCollection(c *call) error {
	var in wire.NewCollection
	if err := c.decode(&in); err != nil {
		return err
	}
	coll, err := c.file.Create(c.ctx, in.Name, in.Schema)
	if err != nil {
		return err
	}
	info, err := coll.Info()
	if err == nil {
		c.answer(http.StatusCreated, info)
	}
	return err
}

func describeCollection(c *call) (any, error) {
	var out wire.Collection
	err := c.file.View(func(s *db.Snapshot) (err error) {
		coll := s.Collection(c.coll.Name())
		if out.CollectionInfo, err = coll.Info(); err == nil {
			out.Labels, err = coll.Labels()
		}
		return err
	})
	return out, err
}

// changeCollection gives a collection another schema, or another name.
func changeCollection(c *call, in *wire.CollectionChange) (any, error) {
	switch {
	case (in.Schema == nil) == (in.Name == ""):
		return nil, fmt.Errorf(`%w: want either "schema" or "name"`, wire.ErrJSON)
	case in.Schema == nil:
		return nil, c.file.Rename(c.ctx, c.coll.Name(), in.Name)
	}
	return nil, c.run(func(run *db.Run) error { return c.coll.SetSchema(c.ctx, *in.Schema, run) })
}

func dropCollection(c *call) (any, error) { return nil, c.file.Drop(c.ctx, c.coll.Name()) }

func listIndexes(c *call) (any, error) {
	list, err := c.coll.Indexes()
	return wire.Indexes{Indexes: list}, err
}

func buildIndex(c *call, in *wire.Build) (any, error) {
	o, err := in.Get()
	if err != nil {
		return nil, err
	}
	var info index.Info
	err = c.run(func(run *db.Run) (err error) {
		info, err = c.coll.Build(c.ctx, c.r.PathValue("index"), o, run)
		return err
	})
	return info, err
}

// changeIndex makes an index the default one.
func changeIndex(c *call, in *wire.IndexChange) (any, error) {
	if !in.Default {
		return nil, fmt.Errorf(`%w: want "default": true; to choose another one, name that`, wire.ErrJSON)
	}
	return nil, c.coll.SetDefault(c.ctx, c.r.PathValue("index"))
}

func dropIndex(c *call) (any, error) { return nil, c.coll.DropIndex(c.ctx, c.r.PathValue("index")) }
