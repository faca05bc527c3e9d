package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/torture/internal/ask"
)

// caller makes the calls on one file.
type caller struct {
	w      *watch
	ctx    context.Context
	dir    string
	path   string // of the mutant, which no call changes
	name   string
	rng    *rand.Rand
	mutant Mutant
	did    did
	colls  []ask.Collection
	asked  []ask.Question
}

// crashes are what errors say that a crash was turned into.
var crashes = []string{"runtime error:", "reading the memory map", "page structure:"}

// call makes one call under watch.
func (c *caller) call(name string, f func() error) (err error) {
	c.w.begin(name)
	defer c.w.end()
	defer func() {
		if r := recover(); r != nil {
			c.w.say("panic", "%s: %v %s", name, r, debug.Stack())
			err = errors.New("panic")
		}
	}()
	if err = f(); err != nil {
		c.did.Errors++
		c.note(name, err.Error())
	}
	return err
}

// note looks at what a call said.
func (c *caller) note(name, text string) {
	for _, s := range crashes {
		if at := strings.Index(text, s); at >= 0 {
			c.w.say("caught", "%s: %s", name, text[:min(len(text), at+300)])
			return
		}
	}
}

// copied is a fresh copy of the mutant.
func (c *caller) copied(name string) (string, error) {
	data, err := os.ReadFile(c.path)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, name)
	return path, os.WriteFile(path, data, 0o600)
}

// all makes every kind of call, some of them.
func (c *caller) all() {
	path, err := c.copied("used")
	if err != nil {
		return
	}
	c.opened(path, func(d *db.DB) {
		c.read(d)
		if c.rng.IntN(2) == 0 {
			c.write(d)
		}
	})
	switch c.rng.IntN(4) {
	case 0:
		c.again("repair", func(d *db.DB) error {
			found, err := d.Repair(c.ctx, nil)
			for _, x := range found {
				c.note("repair", fmt.Sprint(x.Damage, x.Err))
			}
			return err
		})
	case 1:
		c.again("reorder", func(d *db.DB) error { return d.Compact(c.ctx, &db.CompactOptions{Reorder: true}) })
	case 2:
		_ = c.call("salvage", func() error {
			to := filepath.Join(c.dir, "salvaged")
			_ = os.Remove(to)
			r, err := rescue.Salvage(c.ctx, c.path, to, &rescue.Options{Lost: func(l rescue.LostRow) { c.note("salvage", fmt.Sprintf("row %d of %q: %v", l.Row, l.Collection, l.Err)) }})
			for _, err := range r.NotBuilt {
				c.note("salvage", err.Error())
			}
			return err
		})
	default:
		_ = c.call("restore", func() error {
			return db.Restore(c.ctx, c.path, filepath.Join(c.dir, "restored"), true)
		})
	}
}

// again makes a call on a fresh copy.
func (c *caller) again(name string, f func(d *db.DB) error) {
	path, err := c.copied(name)
	if err != nil {
		return
	}
	c.opened(path, func(d *db.DB) { _ = c.call(name, func() error { return f(d) }) })
}

// opened opens a file, and closes it afterwards.
func (c *caller) opened(path string, f func(d *db.DB)) {
	var d *db.DB
	err := c.call("open", func() (err error) {
		d, err = db.Open(context.Background(), path, &db.Options{NoSync: true, MapReserve: 1 << 30, SampleQueries: sampled, Maintenance: &maintenance.Policy{Manual: true}})
		return err
	})
	if err != nil {
		return
	}
	f(d)
	_ = c.call("close", d.Close)
}

// read asks a third of what there is to ask, and whether all is well.
func (c *caller) read(d *db.DB) {
	var s *db.Snapshot
	err := c.call("snapshot", func() (err error) {
		s, err = d.Snapshot()
		return err
	})
	if err != nil {
		return
	}
	defer s.Release()
	for i := range c.asked {
		if c.rng.IntN(3) == 0 {
			_ = c.call(c.asked[i].Name, func() error { _, err := c.asked[i].Ask(s); return err })
		}
	}
	if c.rng.IntN(2) == 0 {
		c.answers(s)
	}
	if c.rng.IntN(2) == 0 {
		_ = c.call("check", func() error { return d.Check(c.ctx, func(p *db.CorruptError) { c.note("check", p.Error()) }, nil) })
	}
	_ = c.call("stats", func() error { _, err := d.Stats(); return err })
	_ = c.call("backup", func() error { _, err := d.Backup(c.ctx, io.Discard); return err })
	for _, x := range collections[c.name] { // as an export reads
		_ = c.call("rows of "+x.name, func() error {
			for _, err := range s.Collection(x.name).Rows(c.ctx, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// sampled is the number of queries that a database keeps, for maintenance to measure settings by.
const sampled = 100

// write changes rows, and lets indexes follow, those that are tuned with queries of users.
func (c *caller) write(d *db.DB) {
	for i := range c.colls {
		coll := &c.colls[i]
		for _, x := range coll.Indexes {
			if !x.Tuned || c.rng.IntN(2) == 0 {
				continue
			}
			queries := coll.Asked("")
			for i := range sampled {
				q := queries[i%len(queries)]
				_ = c.call("sampled query", func() error {
					_, err := d.Collection(coll.Name).Search(c.ctx, q, &db.SearchOptions{Index: x.Name})
					return err
				})
			}
		}
	}
	_ = c.call("update", func() error { return put(c.ctx, d, c.name, allRows, allRows+5) })
	_ = c.call("maintain", func() error { _, err := d.Maintain(c.ctx, 0, nil); return err })
	if c.rng.IntN(3) == 0 {
		some := slices.DeleteFunc(slices.Clone(collections[c.name]), func(x collection) bool { return x.dim > 1000 })
		x := some[c.rng.IntN(len(some))]
		_ = c.call("build", func() error {
			var o index.Options = &index.Forest{NoTune: true}
			if x.dim == 0 {
				o = []index.Options{nil, small("pt")}[c.rng.IntN(2)]
			}
			_, err := d.Collection(x.name).Build(c.ctx, "new", o, nil)
			return err
		})
	}
	_ = c.call("compact", func() error { return d.Compact(c.ctx, nil) })
	_ = c.call("update after", func() error { return put(c.ctx, d, c.name, allRows+5, allRows+6) })
}
