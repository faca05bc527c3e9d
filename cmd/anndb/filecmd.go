package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// statsCmd describes a file.
type statsCmd struct {
	inFile
	Collection string        `arg:"" optional:"" help:"Only this collection, in detail."`
	Watch      bool          `help:"Write a line of figures again and again, until interrupted, also while another process writes."`
	Every      time.Duration `help:"Time between two lines of --watch." default:"2s"`
	Times      int           `help:"Lines of --watch; 0 for no end." default:"0"`
}

// Run executes the command.
func (c *statsCmd) Run(a *app) error {
	if c.Watch {
		if c.Collection != "" || c.Every <= 0 || c.Times < 0 {
			return usagef("--watch wants no collection, a time above zero and a number of lines that is not negative")
		}
		return c.watch(a)
	}
	return c.with(a, true, func(d *db.DB) error {
		if c.Collection != "" {
			return d.View(func(s *db.Snapshot) error { return c.collection(a, s) })
		}
		st, err := d.Stats()
		if err != nil {
			return err
		}
		file := table.New("file", "size", "bytes", "free_bytes", "live_bytes", "page_size", "generation",
			"map_reserve")
		file.Add(st.Path, table.Size(st.FileBytes), st.FileBytes, st.FreeBytes, st.LiveBytes, st.PageSize,
			st.Generation, table.Size(st.MapReserve))
		colls := collectionsTable(st.Collections...)
		var every []db.IndexInfo
		indexes := table.New("collection", "index", "kind", "trees", "depth", "rows", "fresh", "size", "recall:3",
			"micros:1", "setting")
		err = d.View(func(s *db.Snapshot) error {
			for _, info := range st.Collections {
				list, err := s.Collection(info.Name).Indexes()
				if err != nil {
					return err
				}
				for _, i := range list {
					recall, micros := best(i)
					var trees, depth any
					switch o, ok := i.Options.(*db.Forest); {
					case ok:
						trees, depth = o.Trees, o.Depth
					case i.Tree != nil:
						trees, depth = i.Tree.Trees, i.Tree.Depth
					}
					indexes.Add(info.Name, i.Name, i.Kind, trees, depth, i.Rows, info.Rows-i.Rows,
						table.Size(i.TotalBytes()), recall, micros, sparseSetting(i))
					i.Name = info.Name + "/" + i.Name
					every = append(every, i)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return a.Report(file.As("file", ""), colls.As("collections", "Collections"),
			indexes.As("indexes", "Indexes (recall and µs of the setting that searches use by default)"),
			treeTable(every...).As("trees", treeTitle))
	})
}

// collection describes one collection: its indexes with their curves, and its
// labels.
func (c *statsCmd) collection(a *app, s *db.Snapshot) error {
	info, err := s.Collection(c.Collection).Info()
	if err != nil {
		return err
	}
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return err
	}
	counts, err := s.Collection(c.Collection).Labels()
	if err != nil {
		return err
	}
	byLabel := table.New("label", "rows")
	for _, l := range counts {
		byLabel.Add(l.Label, l.Rows)
	}
	attributes := table.New("attribute", "rows")
	for _, name := range info.Attributes {
		n, err := s.Collection(c.Collection).Count(a.ctx, db.Exists(name))
		if err != nil {
			return err
		}
		attributes.Add(name, n)
	}
	sections := []table.Section{
		collectionsTable(info).As("collection", ""),
		attributes.As("attributes", "Attributes"),
		indexTable(list...).As("indexes", "Indexes"),
		labelsTable(list...).As("approximate", "Approximate labels of training points"),
		treeTable(list...).As("trees", treeTitle),
		byLabel.As("labels", "Labels"),
	}
	for _, i := range list {
		sections = append(sections,
			curveTable(i.Curve).As("curve "+i.Name, curveTitle(i)),
			settingsTable(i, shownSettings).As("settings "+i.Name, i.Name+": "+settingsTitle(i)),
			trialsTable(i, shownSettings).As("trials "+i.Name, i.Name+": "+trialsTitle(i)))
	}
	return a.Report(sections...)
}

func collectionsTable(infos ...db.CollectionInfo) *table.Table {
	t := table.New("collection", "kind", "dim", "numbering", "metric", "rows", "deleted", "unsealed", "indexes")
	for _, i := range infos {
		t.Add(i.Name, kindOf(i), i.Dim, numberingShown(i.Numbering), i.Metric.String(), i.Live, i.Rows-i.Live,
			i.Rows-i.Sealed, len(i.Indexes))
	}
	return t
}

// kindOf is the kind of a collection.
func kindOf(i db.CollectionInfo) string {
	switch {
	case i.Named:
		return "sparse, named"
	case i.Sparse:
		return "sparse"
	}
	return "dense"
}

// defaultRecall is the target of a search that names none.
const defaultRecall = 0.95

// best is the measured recall and time of the setting that a search uses by
// default; nothing for an index that was not tuned or does not reach it.
func best(i db.IndexInfo) (recall, micros any) {
	if i.Curve == nil {
		return nil, nil
	}
	for _, p := range i.Curve.Points {
		if p.Recall >= defaultRecall && (micros == nil || p.Micros < micros.(float64)) {
			recall, micros = cmp.Or(p.Checked, p.Recall), p.Micros
		}
	}
	return recall, micros
}

// checkCmd verifies a file.
type checkCmd struct {
	inFile
}

// errProblems is the error of a check that has found damage.
var errProblems = errors.New("the file is damaged")

// Run executes the command.
func (c *checkCmd) Run(a *app) error {
	start := time.Now()
	t := table.New("problem", "collection", "object", "section", "chunk", "offset")
	err := c.with(a, true, func(d *db.DB) error {
		return d.Check(a.ctx, func(p *db.CorruptError) {
			t.Add(message(p.Err), p.Collection, p.Object, p.Section, p.Chunk, p.Offset)
			a.progress.Update("problems", t.Len(), 0)
		})
	})
	a.progress.End()
	if err != nil && t.Len() == 0 {
		return err
	}
	if t.Len() > 0 {
		if werr := a.Print(t); werr != nil {
			return werr
		}
		return fmt.Errorf("%s: %w: problems: %d "+
			"(anndb repair %s rebuilds indexes, with --to NEW it saves the rows)",
			c.File, errProblems, t.Len(), c.File)
	}
	clean := table.New("file", "problems", "seconds:2")
	clean.Add(c.File, 0, time.Since(start).Seconds())
	return a.Print(clean)
}

// backupCmd copies a database.
type backupCmd struct {
	inFile
	Output string `arg:"" help:"File to write."`
	Force  bool   `help:"Replace the output if it exists."`
}

// Run executes the command.
func (c *backupCmd) Run(a *app) error {
	if err := notFolder(c.Output); err != nil {
		return err
	}
	if _, err := os.Lstat(c.Output); err == nil && !c.Force {
		return usagef("%s exists: add --force to replace it", c.Output)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	source, err := os.Stat(c.File)
	if err != nil {
		return explain(c.File, err)
	}
	if there, err := os.Stat(c.Output); err == nil && os.SameFile(source, there) {
		return usagef("%s is the database itself", c.Output)
	}
	perm := source.Mode().Perm() // a copy is as private as the original
	start := time.Now()
	var n int64
	err = c.with(a, true, func(d *db.DB) error {
		st, err := d.Stats()
		if err != nil {
			return err
		}
		return writeFile(c.Output, perm, func(w io.Writer) (err error) {
			n, err = d.Backup(a.ctx, &meter{w: w, total: st.FileBytes, progress: a.progress})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("backup to %s: %w", c.Output, err)
	}
	a.progress.End()
	t := table.New("file", "size", "bytes", "seconds:2")
	t.Add(c.Output, table.Size(n), n, time.Since(start).Seconds())
	return a.Print(t)
}

// meter reports how much was written through it.
type meter struct {
	w        io.Writer
	n, total int64
	progress *progress.Line
}

// Write passes p on and counts it.
func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	// In MiB, so that a terabyte fits an int of 32 bits.
	m.progress.Update("backup", int(m.n>>20), int(m.total>>20))
	return n, err
}

// compactCmd shrinks a file.
type compactCmd struct {
	inFile
	Reorder bool `help:"Also give near rows of dense collections near numbers, which makes searches in large ones faster. Indexes are rebuilt: best before the first build."`
}

// Run executes the command.
func (c *compactCmd) Run(a *app) error {
	start := time.Now()
	return c.with(a, false, func(d *db.DB) error {
		rewrite := d.Compact
		if c.Reorder {
			rewrite = d.Reorder
		}
		st, err := rewrite(a.ctx)
		if err != nil {
			return err
		}
		t := table.New("file", "before", "after", "bytes_before", "bytes_after", "seconds:2")
		t.Add(c.File, table.Size(st.Before), table.Size(st.After), st.Before, st.After, time.Since(start).Seconds())
		return a.Print(t)
	})
}
