// Package transfer has the commands import and export.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/table"
)

// Import reads a file into a collection.
type Import struct {
	File        string `arg:"" type:"path"`
	Collection  string `arg:""`
	Input       string `arg:"" type:"path"`
	SkipInvalid bool
	Rejects     string `placeholder:"FILE" type:"path"`
	Resume      bool   `without:"replace"`
	Sparse      bool   `group:"Sparse collections:"`
	Dense       bool   `group:"Dense collections:" without:"sparse named"`
	Named       bool   `group:"Sparse collections:"`

	Analyzer     string `group:"Texts:" enum:",words,english,code" default:"" placeholder:"NAME"`
	Pairs        int    `group:"Texts:" placeholder:"N"`
	FolderLabels bool   `group:"Texts:"`

	Vectors string `group:"Texts:" placeholder:"PATH" type:"path" without:"vector-column"`
	Embed   string `group:"Texts:" placeholder:"COMMAND" without:"vectors"`

	Labels    string `placeholder:"PATH" type:"path"`
	Metric    string `group:"Dense collections:" enum:",l2,cosine,ip" default:"" placeholder:"METRIC"`
	Float32   bool   `group:"Dense collections:"`
	KeyPrefix string
	Replace   bool
	Update    bool `without:"replace resume"`
	NoSync    bool
	input.FileFlags
}

// kind is what the flags, and a collection of texts, say of the records.
func (c *Import) kind(known *db.CollectionInfo) dataset.Kind {
	switch {
	case c.Text+c.Analyzer+c.Vectors+c.Embed != "", c.FolderLabels, c.Pairs != 0,
		known != nil && known.Text != nil:
		return dataset.Text
	case c.Dense:
		return dataset.Dense
	case c.Sparse || c.Named:
		return dataset.Sparse
	}
	return dataset.AnyKind
}

func (c *Import) Run(a *command.App) (err error) {
	known, err := input.Existing(a, c.File, c.Collection)
	if err != nil {
		return err
	}
	extended := c.Update && known != nil && !known.Sparse && c.Text+c.Analyzer != ""
	if extended { // the collection gets texts next to its vectors
		known.Text, known.Sparse, known.Named = c.texts(), true, true
	}
	from := input.Source{
		Path: c.Input, Labels: c.Labels, Vectors: c.Vectors, Flags: c.FileFlags, Kind: c.kind(known),
		To: input.TargetOf(a, known), Rows: true, FolderLabels: c.FolderLabels,
	}
	if c.SkipInvalid = c.SkipInvalid || c.Rejects != ""; c.SkipInvalid {
		r := rejects{path: c.Rejects, app: a}
		from.Reject = r.add
		defer func() { err = errors.Join(err, r.close()) }()
	}
	in, err := from.Open()
	if err != nil {
		return c.readAs(err)
	}
	defer in.Close()
	if err := c.checkKind(in, known); err != nil {
		return err
	}
	keys, err := c.newKeys(a, known)
	if err != nil {
		return err
	}
	r := &batchReader{in: in, keys: keys, size: readRows, into: known}
	if known == nil {
		if r.into, err = c.schema(a, in); err != nil {
			return err
		}
	}
	if c.Embed != "" {
		r.embed.by = &input.Embedder{Ctx: a.Ctx, Host: a.Program.Host, Command: c.Embed, Dim: r.into.Dim}
		r.size, r.embed.schema = input.EmbedBatch, r.into.Schema
		if r.into.Dim == 0 { // until the first batch
			r.into.Schema = db.Schema{Text: r.into.Text}
		}
	}
	in.Row = r.check
	if c.FeatureNames != "" && !r.into.Named {
		return command.Usagef("--feature-names: the features of the collection have no names " +
			"(a new collection has them with --named)")
	}
	return c.into(a, r, known, extended)
}

// into writes the rows to the database.
func (c *Import) into(a *command.App, r *batchReader, known *db.CollectionInfo, extended bool) (err error) {
	// What the first batch shows to be wrong must leave no file behind.
	first, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	if len(first) == 0 {
		return c.nothing(r.in)
	}
	newFile := !command.Exists(c.File)
	d, err := command.Open(a, c.File, db.Options{NoSync: c.NoSync})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, command.Close(a, d)) }()
	created, err := c.create(a, d, r.into.Schema)
	if err != nil {
		c.undo(a, d, created, newFile)
		return err
	}
	if extended {
		if err := d.Collection(c.Collection).SetSchema(a.Ctx, known.Schema, nil); err != nil {
			return err
		}
	}
	start := time.Now()
	batches := r.batches(first)
	if c.Input != command.Standard { // which may keep the other goroutine waiting
		batches = par.Ahead(batches)
	}
	n, err := c.load(a, d.Collection(c.Collection), batches, r.in.Records)
	if err != nil {
		c.undo(a, d, created, newFile)
		return c.failed(n, err)
	}
	return c.report(a, d, r.in, imported{known, created, n, time.Since(start).Seconds()})
}

// load stores the rows of batches, and returns how many rows were acknowledged.
func (c *Import) load(
	a *command.App, coll db.Collection, batches iter.Seq2[[]db.Row, error], total int64,
) (n int, err error) {
	stored := 0                // by the import that --resume continues
	var late *input.EmbedError // of rows behind those that have their vectors and are stored
	rows := func(yield func(db.Row, error) bool) {
		for batch, err := range batches {
			if err != nil {
				if !errors.As(err, &late) {
					yield(db.Row{}, err)
				}
				return
			}
			for _, r := range batch {
				has := false
				switch {
				case c.Resume:
					has, err = coll.Has(r.Key)
				case c.Update:
					r, err = merged(coll, r)
				}
				if has {
					stored++
				} else if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
	o := db.LoadOptions{Insert: !c.Replace && !c.Update}
	o.Progress = func(_ string, done, _ int) { a.Progress.Update("import", done, int(max(0, total))) }
	n, err = coll.Load(a.Ctx, rows, &o)
	if c.Resume {
		a.Note("rows that were there already: %d", stored)
	}
	if err == nil && late != nil {
		err = late
	}
	return n, command.OfFile(err)
}

// merged is a row of the file with what the stored row of its key has and the file has not.
func merged(coll db.Collection, r db.Row) (db.Row, error) {
	old, err := coll.Get(r.Key)
	if err != nil {
		if errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return r, err
	}
	old.Text = cmp.Or(r.Text, old.Text)
	if r.Vector != nil {
		old.Vector = r.Vector
	}
	if r.Sparse.Len()+len(r.Features) > 0 {
		old.Sparse, old.Features = r.Sparse, r.Features
	}
	if len(r.Labels) > 0 {
		old.Labels = r.Labels
	}
	if old.Attributes == nil {
		old.Attributes = map[string]any{}
	}
	maps.Copy(old.Attributes, r.Attributes)
	if len(r.Payload) > 0 {
		old.Payload = r.Payload
	}
	if !r.ExpiresAt.IsZero() {
		old.ExpiresAt = r.ExpiresAt
	}
	return old, nil
}

// create makes the collection unless there is one.
func (c *Import) create(a *command.App, d *db.DB, s db.Schema) (created bool, err error) {
	_, err = d.Create(a.Ctx, c.Collection, s)
	if errors.Is(err, db.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// undo removes what a failed import made if it holds no row: the collection that it
// created, and the database file if it was new and has no other collection.
func (c *Import) undo(a *command.App, d *db.DB, created, newFile bool) {
	if created {
		info, err := d.Collection(c.Collection).Info()
		if err == nil && info.Rows > 0 {
			return
		}
		if err == nil {
			// The import may have failed because the context of the command has ended.
			err = d.Drop(context.WithoutCancel(a.Ctx), c.Collection)
		}
		if err != nil {
			a.Note("the empty collection %q stays: %s", c.Collection, command.Message(err))
			return
		}
	}
	if left, err := d.Collections(); err != nil || len(left) > 0 || !newFile {
		return
	}
	// The lock is still held: no other process can have written to the file.
	if err := os.Remove(c.File); err != nil {
		a.Note("the empty database stays: %v", err)
	}
}

// imported is what an import did.
type imported struct {
	before  *db.CollectionInfo // nil if there was no collection
	created bool
	rows    int
	seconds float64
}

// report describes a finished import.
func (c *Import) report(a *command.App, d *db.DB, in *input.File, x imported) error {
	after, err := d.Collection(c.Collection).Info()
	if err != nil {
		return err
	}
	fresh := after.Live
	if x.before != nil {
		fresh -= x.before.Live
	}
	values := []any{c.Collection, x.created, x.rows, fresh, x.rows - fresh, after.Live}
	columns := []string{"collection", "created", "rows", "new", "replaced", "total"}
	switch in.Kind {
	case dataset.Dense:
		columns, values = append(columns, "dim"), append(values, in.Dim)
	case dataset.Text:
		if after.Dim > 0 {
			columns, values = append(columns, "dim"), append(values, after.Dim)
		}
		columns = append(columns, "format", "analyzer", "words")
		values = append(values, in.Format, after.Text.Analyzer, after.Features)
	default:
		labels, err := d.Collection(c.Collection).Labels()
		if err != nil {
			return err
		}
		columns = append(columns, "format", "features", "numbering", "named", "labels")
		values = append(values, in.Format, after.Features, command.NumberingShown(after.Numbering),
			after.Named, len(labels))
	}
	t := table.New(append(columns, "seconds:2", "rows/s:0")...)
	t.Add(append(values, x.seconds, float64(x.rows)/x.seconds)...)
	a.Progress.End()
	return a.Done(t)
}
