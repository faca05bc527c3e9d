package server

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/anndb/anndb/db"
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
	c.answer(http.StatusOK, out)
	return nil
}

// check verifies the file. Damage is its answer, not an error of the request.
func check(c *call) error {
	out := wire.Checked{Problems: []wire.Damage{}}
	err := c.file.Check(c.ctx, func(e *db.CorruptError) {
		out.Problems = append(out.Problems, wire.Damage{
			Collection: e.Collection, Object: e.Object, Section: e.Section, Chunk: e.Chunk, Offset: e.Offset,
			Error: e.Err.Error(),
		})
	}, nil)
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
	steps, err := c.file.Maintain(c.ctx, in.Share, nil)
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

func dropCollection(c *call) error {
	if err := c.file.Drop(c.ctx, c.coll.Name()); err != nil {
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}

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
	info, err := c.coll.Build(c.ctx, c.r.PathValue("index"), o, nil)
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

func dropIndex(c *call) error {
	if err := c.coll.DropIndex(c.ctx, c.r.PathValue("index")); err != nil {
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}
