// Package transfer has the commands import and export.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/vector"
)

// Import reads a file into a collection.
type Import struct {
	File        string `arg:""`
	Collection  string `arg:""`
	Input       string `arg:""`
	Head        int    `placeholder:"N" want:"0 ${head}"`
	SkipInvalid bool
	Rejects     string `placeholder:"PATH"`
	command.ForceFlag
	Resume    bool   `xor:"known"`
	Sparse    bool   `group:"Sparse collections:" xor:"kind"`
	Dense     bool   `group:"Dense collections:" xor:"kind,names"`
	Named     bool   `group:"Sparse collections:" xor:"names"`
	Labels    string `placeholder:"PATH"`
	Metric    string `group:"Dense collections:" enum:",l2,cosine,ip" default:"" placeholder:"METRIC"`
	Float32   bool   `group:"Dense collections:"`
	KeyPrefix string
	Replace   bool `xor:"known"`
	Batch     int  `default:"0"`
	NoSync    bool
	input.FileFlags
}

// kind is what the flags say of the collection.
func (c *Import) kind() dataset.Kind {
	switch {
	case c.Dense:
		return dataset.Dense
	case c.Sparse || c.Named:
		return dataset.Sparse
	}
	return dataset.AnyKind
}

// check refuses flags that do not go together.
func (c *Import) check() error {
	switch {
	case c.Batch < 0:
		return command.Usagef("--batch must not be negative")
	case c.Head < 0 || c.Head > maxHead:
		return command.Usagef("--head must be 0 to %d", maxHead)
	case c.Resume && c.Replace:
		return command.Usagef("--resume and --replace exclude each other")
	case c.Dense && (c.Sparse || c.Named):
		return command.Usagef("--dense and --sparse or --named exclude each other")
	case c.Rejects != "":
		return command.ForceFlag{Force: true}.Refuse([]string{c.Rejects}, c.File, c.Input) // lines are added to a file
	}
	return nil
}

func (c *Import) Run(a *command.App) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	known, err := input.Existing(a, c.File, c.Collection)
	if err != nil {
		return err
	}
	from := input.Source{
		Path: c.Input, Labels: c.Labels, Flags: c.FileFlags, Kind: c.kind(),
		To: input.TargetOf(a, known), Rows: true,
	}
	if c.Rejects != "" || c.SkipInvalid {
		left := &rejects{path: c.Rejects, replace: c.Force, note: a.Note}
		from.Reject = left.add
		defer func() { err = errors.Join(err, left.Close()) }()
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
	r := &batchReader{in: in, keys: keys, size: c.rowsAtATime(), bySize: c.Batch == 0, into: known}
	if known == nil {
		if r.into, err = c.schema(a, in); err != nil {
			return err
		}
	}
	in.Row = r.check
	if c.FeatureNames != "" && !r.into.Named {
		return command.Usagef("--feature-names: the features of the collection have no names (a new collection has them with --named)")
	}
	if c.Head > 0 {
		return c.preview(a, in, r)
	}
	return c.into(a, r, known)
}

// into writes the rows to the database.
func (c *Import) into(a *command.App, r *batchReader, known *db.CollectionInfo) (err error) {
	// What the first batch shows to be wrong must leave no file behind.
	first, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	if len(first) == 0 {
		return c.nothing(r.in)
	}
	newFile := !command.Exists(c.File)
	o := &db.Options{Timeout: a.Flags.Wait, Maintenance: &db.Maintenance{Manual: true}}
	if c.NoSync {
		o.NoSync = true
	}
	d, err := db.Open(a.Ctx, c.File, o)
	if err != nil {
		return command.Explain(c.File, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	created, err := c.create(a, d, r.into.Schema)
	if err != nil {
		c.undo(a, d, created, newFile)
		return err
	}
	start := time.Now()
	next := r.next
	if c.Input != command.Standard { // which may keep the other goroutine waiting
		var stop func()
		next, stop = r.ahead()
		defer stop()
	}
	if c.Resume {
		s := &resumption{coll: d.Collection(c.Collection), batches: next}
		next = s.next
		if first, err = s.unstored(first); err != nil {
			return c.failed(0, err)
		}
		defer func() { a.Note("rows that were there already: %d", s.skipped) }()
	}
	n, err := c.importRows(a, d, first, next, r.in.Records)
	if err != nil {
		c.undo(a, d, created, newFile)
		return c.failed(n, err)
	}
	return c.report(a, d, r.in, imported{known, created, n, time.Since(start).Seconds()})
}

// checkKind refuses flags that do not suit the file or the collection.
func (c *Import) checkKind(in *input.File, known *db.CollectionInfo) error {
	if in.Kind == dataset.Sparse {
		switch {
		case c.Float32 || c.Metric != "" && c.Metric != vector.Cosine.String():
			return command.Usagef("--float-32 and --metric are for dense collections: " +
				"sparse rows are float32 and compared by cosine")
		case c.Named && in.FeatureNames == nil:
			return command.Usagef("--named: %s has no names of features", c.Input)
		}
		return nil
	}
	return c.checkExisting(known)
}

// schema returns the description of a new collection for the records of a file.
func (c *Import) schema(a *command.App, in *input.File) (info *db.CollectionInfo, err error) {
	info = &db.CollectionInfo{Name: c.Collection}
	s := &info.Schema
	if in.Kind == dataset.Sparse {
		named := c.Named || in.NamesItself()
		s.Sparse, s.Named, s.Numbering = true, named, in.Numbering(named)
		if in.Distance != "" {
			a.Note("%s is for the distance %q: sparse rows are compared by cosine", in.Path, in.Distance)
		}
		return info, nil
	}
	s.Dim = in.Dim
	s.Float32 = c.Float32
	if in.Filled {
		s.Numbering = in.Numbering(false)
	}
	s.Metric, err = vector.ParseMetric(cmp.Or(c.metric(a, in), "l2"))
	return info, err
}

// create makes the collection unless there is one.
func (c *Import) create(a *command.App, d *db.DB, s db.Schema) (created bool, err error) {
	_, err = d.Create(a.Ctx, c.Collection, s)
	if errors.Is(err, db.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// metric returns the metric of a new collection: that of the flag, or by the distance that the file
// records, as sets of ann-benchmarks do; empty if there is neither.
func (c *Import) metric(a *command.App, in *input.File) string {
	if c.Metric != "" || in.Distance == "" {
		return c.Metric
	}
	m := map[string]string{
		"euclidean": "l2", "hamming": "l2", "angular": "cosine", "cosine": "cosine", "dot": "ip", "ip": "ip",
	}[in.Distance]
	if m == "" {
		a.Note("%s is for the distance %q, which is not supported: the metric is l2", in.Path, in.Distance)
	} else {
		a.Note("%s is for the distance %q: the metric is %s (--metric selects another one)",
			in.Path, in.Distance, m)
	}
	return m
}

// undo removes what a failed import made if it holds no row: the collection that it
// created, and the database file if it was new and has no other collection.
func (c *Import) undo(a *command.App, d *db.DB, created, newFile bool) {
	if created {
		info, err := command.InfoOf(d, c.Collection)
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
	after, err := command.InfoOf(d, c.Collection)
	if err != nil {
		return err
	}
	fresh := newRows(x.before, after)
	values := []any{c.Collection, x.created, x.rows, fresh, x.rows - fresh, after.Live}
	columns := []string{"collection", "created", "rows", "new", "replaced", "total"}
	if in.Kind == dataset.Dense {
		columns, values = append(columns, "dim"), append(values, in.Dim)
	} else {
		var labels []db.LabelCount
		err = d.View(func(s *db.Snapshot) (err error) {
			labels, err = s.Collection(c.Collection).Labels()
			return err
		})
		if err != nil {
			return err
		}
		columns = append(columns, "format", "features", "numbering", "named", "labels")
		values = append(values, in.Format, after.Features, command.NumberingShown(after.Numbering), after.Named, len(labels))
	}
	t := table.New(append(columns, "seconds:2", "rows/s:0")...)
	t.Add(append(values, x.seconds, float64(x.rows)/x.seconds)...)
	a.Progress.End()
	return a.Done(t)
}

// rowsAtATime is how many rows are read at a time.
func (c *Import) rowsAtATime() int {
	if c.Batch == 0 {
		return readRows
	}
	return c.Batch
}

// batchReader reads rows in batches.
type batchReader struct {
	in   *input.File
	into *db.CollectionInfo // the collection, or that to be made
	keys newKeys
	size int
	// bySize reports whether a batch also ends by its size.
	bySize bool
	batch  []db.Row
	other  []db.Row // the memory of the batch before
	row    db.Row   // of the record that was read last
	// mismatch is why no record of the file suits the collection.
	mismatch error
	ended    bool
}

// ahead returns next with another goroutine that reads the next batch while one is in use, and a
// function that ends it.
func (r *batchReader) ahead() (next func() ([]db.Row, error), stop func()) {
	type read struct {
		rows []db.Row
		err  error
	}
	batches, stopped := make(chan read), make(chan struct{})
	go func() {
		defer close(batches)
		for {
			rows, err := r.next()
			select {
			case batches <- read{rows, err}:
			case <-stopped:
				return
			}
			if len(rows) == 0 {
				return
			}
		}
	}()
	next = func() ([]db.Row, error) {
		b := <-batches
		return b.rows, b.err
	}
	return next, func() {
		close(stopped)
		for range batches { // until the goroutine has ended
		}
	}
}

// next is the next batch, empty at the end. Its rows share no memory with the reader, and their memory is
// used again for the second batch after it.
func (r *batchReader) next() ([]db.Row, error) {
	r.batch, r.other = r.other, r.batch
	n := 0
	for size := 0; n < r.size && (!r.bySize || size < batchSize) && !r.ended; {
		if n == len(r.batch) {
			r.batch = append(r.batch, db.Row{})
		}
		switch err := r.read(&r.batch[n]); {
		case err == io.EOF:
			r.ended = true
		case err != nil:
			return nil, err
		default:
			size += sizeOf(&r.batch[n])
			n++
		}
	}
	return r.batch[:n], nil
}

// batchSize is the size of the rows, in bytes, with which a batch ends.
const batchSize = 4 << 20

// sizeOf returns about how much memory the longer parts of a row have.
func sizeOf(r *db.Row) int {
	n := 4*len(r.Vector) + 8*r.Sparse.Len() + len(r.Payload)
	for _, f := range r.Features {
		n += 24 + len(f.Name)
	}
	for _, l := range r.Labels {
		n += 16 + len(l)
	}
	return n
}

// read reads a row into the memory of an earlier one.
func (r *batchReader) read(row *db.Row) error {
	rec := dataset.Record{
		Key: row.Key, Vector: row.Vector, Features: row.Sparse, Labels: row.Labels, Payload: row.Payload,
		Attributes: row.Attributes,
	}
	if err := r.in.Read(&rec); err != nil {
		return err
	}
	*row = r.row
	return r.mismatch
}

// check makes a row of a record and refuses one that the collection would not take.
func (r *batchReader) check(rec *dataset.Record) error {
	r.row = db.Row{
		Key: r.keys.of(rec.Key, r.in.Keyed), Labels: rec.Labels, Payload: rec.Payload,
		Attributes: rec.Attributes, ExpiresAt: rec.ExpiresAt,
	}
	switch {
	case r.in.Kind == dataset.Dense:
		r.row.Vector = rec.Vector
	case !r.into.Named && !r.in.NamesItself():
		r.row.Sparse = rec.Features
	default:
		var q db.Query
		if q, r.mismatch = r.in.Query(rec, r.into.Named); r.mismatch != nil {
			return nil
		}
		r.row.Sparse, r.row.Features = q.Sparse, q.Features
	}
	if err := r.into.CheckRow(r.row); err != nil {
		return command.OfFile(err)
	}
	return r.keys.once(r.row.Key)
}

// readRows is how many rows are read at a time where transactions go by size.
const readRows = 128

// importRows puts batches of rows, beginning with one that has been read
// already, and returns how many rows were acknowledged. Every batch is a
// transaction of its own unless they go by size.
func (c *Import) importRows(a *command.App, d *db.DB, batch []db.Row, next func() ([]db.Row, error),
	total int64) (n int, err error) {
	if c.Batch == 0 {
		rows := func(yield func(db.Row, error) bool) {
			for len(batch) > 0 {
				for _, r := range batch {
					if !yield(r, nil) {
						return
					}
				}
				var err error
				if batch, err = next(); err != nil {
					yield(db.Row{}, err)
					return
				}
			}
		}
		loaded := func(_ string, done, _ int) { a.Progress.Update("import", done, int(max(0, total))) }
		o := db.LoadOptions{Insert: !c.Replace, Run: db.Run{Progress: loaded}}
		n, err := d.Collection(c.Collection).Load(a.Ctx, rows, &o)
		return n, command.OfFile(err)
	}
	for len(batch) > 0 {
		written, err := c.putRows(a, d, batch)
		n += written
		if err != nil {
			return n, err
		}
		a.Progress.Update("import", n, int(max(0, total)))
		if batch, err = next(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// putRows writes rows in one transaction, or in several where a row replaces one
// of the same batch, and returns how many were written.
func (c *Import) putRows(a *command.App, d *db.DB, rows []db.Row) (n int, err error) {
	for len(rows) > 0 {
		end, seen := 0, map[string]bool{}
		for end < len(rows) && !(c.Replace && seen[string(rows[end].Key)]) {
			seen[string(rows[end].Key)] = true
			end++
		}
		put := db.TxCollection.Insert
		if c.Replace {
			put = db.TxCollection.Put
		}
		err := putRows(a, d, c.Collection, rows[:end], put)
		if err != nil {
			return n, err
		}
		n, rows = n+end, rows[end:]
	}
	return n, nil
}

// putRows writes rows in one transaction.
func putRows(a *command.App, d *db.DB, coll string, rows []db.Row, put func(db.TxCollection, db.Row) error) error {
	return d.Update(a.Ctx, func(b *db.Tx) error {
		for _, r := range rows {
			if err := put(b.Collection(coll), r); err != nil {
				return command.OfFile(fmt.Errorf("key %q: %w", r.Key, err))
			}
		}
		return nil
	})
}

// checkExisting refuses options that say something else than a collection that is
// there already.
func (c *Import) checkExisting(info *db.CollectionInfo) error {
	if info == nil {
		return nil
	}
	if c.Metric != "" {
		metric, err := vector.ParseMetric(c.Metric)
		if err != nil {
			return err
		}
		if metric != info.Metric {
			return command.Usagef("--metric %s: collection %q exists with metric %s", c.Metric, info.Name, info.Metric)
		}
	}
	if c.Float32 && !info.Float32 {
		return command.Usagef("--float-32: collection %q exists and stores bytes where they lose nothing", info.Name)
	}
	return nil
}
