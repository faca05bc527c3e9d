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

// listFiles answers with the names of the files, for a request by a Unix socket with that of its file first.
func listFiles(c *call) error {
	names := slices.Sorted(maps.Keys(c.s.files))
	if Local(c.r) {
		socket := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		own := func(name string) bool { return wire.Socket(c.s.files[name].Path()) == socket }
		if i := slices.IndexFunc(names, own); i > 0 {
			name := names[i]
			names = slices.Insert(slices.Delete(names, i, i+1), 0, name)
		}
	}
	c.answer(http.StatusOK, wire.Files{Files: names})
	return nil
}

func stats(c *call) error {
	st, err := c.file.Stats()
	if err != nil {
		return err
	}
	out, err := wire.NewStats(&st)
	if err != nil {
		return err
	}
	out.Running = c.s.running.of(c.file)
	c.answer(http.StatusOK, out)
	return nil
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
func check(c *call) error {
	out := wire.Checked{Problems: []wire.Damage{}}
	problem := func(e *db.CorruptError) {
		out.Problems = append(out.Problems, wire.Damage{
			Collection: e.Collection, Object: e.Object, Section: e.Section, Chunk: e.Chunk, Offset: e.Offset,
			Error: e.Err.Error(),
		})
	}
	err := c.run(func(run *db.Run) error { return c.file.Check(c.ctx, problem, run) })
	if err != nil && !(errors.Is(err, db.ErrCorrupt) && len(out.Problems) > 0) {
		return err
	}
	out.OK = err == nil
	c.answer(http.StatusOK, out)
	return nil
}

func maintain(c *call) error {
	var in wire.Maintain
	if err := c.decode(&in); err != nil {
		return err
	}
	var steps []maintenance.Step
	err := c.run(func(run *db.Run) (err error) {
		steps, err = c.file.Maintain(c.ctx, in.Share, run)
		return err
	})
	if err != nil {
		return err
	}
	out := wire.Maintained{Steps: make([]wire.Step, len(steps))}
	for i, step := range steps {
		out.Steps[i] = wire.Step(step)
	}
	c.answer(http.StatusOK, out)
	return nil
}

// compact rewrites the file without free pages.
func compact(c *call) error {
	var in wire.Compact
	if err := c.decode(&in); err != nil {
		return err
	}
	return c.done(c.run(func(run *db.Run) error {
		return c.file.Compact(c.ctx, &db.CompactOptions{Reorder: in.Reorder, Run: *run})
	}))
}

// done answers without a body, unless there is an error.
func (c *call) done(err error) error {
	if err == nil {
		c.WriteHeader(http.StatusNoContent)
	}
	return err
}

// backup sends a copy of the latest state. An error in the middle ends the connection.
func backup(c *call) error {
	c.Header().Set("Content-Type", "application/octet-stream")
	_, err := c.file.Backup(c.ctx, c.response)
	return err
}

func listCollections(c *call) error {
	list, err := c.file.Collections()
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, wire.NewCollections(list))
	return nil
}

func createCollection(c *call) error {
	var in wire.NewCollection
	if err := c.decode(&in); err != nil {
		return err
	}
	schema, err := in.Schema.Get()
	if err != nil {
		return err
	}
	coll, err := c.file.Create(c.ctx, in.Name, schema)
	if err != nil {
		return err
	}
	info, err := coll.Info()
	if err != nil {
		return err
	}
	c.answer(http.StatusCreated, wire.NewCollectionInfo(&info))
	return nil
}

func describeCollection(c *call) error {
	return c.file.View(func(s *db.Snapshot) error {
		coll := s.Collection(c.coll.Name())
		info, err := coll.Info()
		if err != nil {
			return err
		}
		out := wire.NewCollectionInfo(&info)
		if out.Labels, err = coll.Labels(); err != nil {
			return err
		}
		c.answer(http.StatusOK, out)
		return nil
	})
}

// changeCollection gives a collection another schema, or another name.
func changeCollection(c *call) error {
	var in wire.CollectionChange
	err := c.decode(&in)
	switch {
	case err != nil:
		return err
	case (in.Schema == nil) == (in.Name == ""):
		return fmt.Errorf(`%w: want either "schema" or "name"`, wire.ErrJSON)
	case in.Schema == nil:
		return c.done(c.file.Rename(c.ctx, c.coll.Name(), in.Name))
	}
	schema, err := in.Schema.Get()
	if err != nil {
		return err
	}
	return c.done(c.run(func(run *db.Run) error { return c.coll.SetSchema(c.ctx, schema, run) }))
}

func dropCollection(c *call) error { return c.done(c.file.Drop(c.ctx, c.coll.Name())) }

func listIndexes(c *call) error {
	list, err := c.coll.Indexes()
	if err != nil {
		return err
	}
	out, err := wire.NewIndexes(list)
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, out)
	return nil
}

func buildIndex(c *call) error {
	var in wire.Build
	if err := c.decode(&in); err != nil {
		return err
	}
	o, err := in.Get()
	if err != nil {
		return err
	}
	var info index.Info
	err = c.run(func(run *db.Run) (err error) {
		info, err = c.coll.Build(c.ctx, c.r.PathValue("index"), o, run)
		return err
	})
	if err != nil {
		return err
	}
	out, err := wire.NewIndex(&info)
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, out)
	return nil
}

// changeIndex makes an index the default one.
func changeIndex(c *call) error {
	var in wire.IndexChange
	if err := c.decode(&in); err != nil {
		return err
	}
	if !in.Default {
		return fmt.Errorf(`%w: want "default": true; to choose another one, name that`, wire.ErrJSON)
	}
	return c.done(c.coll.SetDefault(c.ctx, c.r.PathValue("index")))
}

func dropIndex(c *call) error { return c.done(c.coll.DropIndex(c.ctx, c.r.PathValue("index"))) }
