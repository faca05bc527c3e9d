package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// fileFlags say how to read a file of vectors.
type fileFlags struct {
	As        string   `help:"Format of the input (idx, fvecs, bvecs, ivecs, npy, csv, tsv, jsonl; sparse: libsvm, xmc, arff, jsonl); detected if not given." placeholder:"FORMAT"`
	Key       string   `name:"key-column" help:"Column or field with the key."`
	Label     []string `name:"label-column" help:"Columns or fields with labels."`
	Payload   string   `name:"payload-column" help:"Column or field with the payload."`
	Separator string   `name:"label-separator" help:"What separates labels in a csv cell." default:"|"`
	Ignore    []string `name:"ignore-column" help:"Columns or fields to leave out."`
	Header    string   `help:"Whether a csv file has a line of names: ${enum}." enum:"auto,yes,no" default:"auto"`
	Limit     int64    `aliases:"limit-queries" help:"Read at most so many records; 0 for all." default:"${limit}"`
}

// options are the flags as package dataset takes them; labels is the path of
// a separate file of labels.
func (f fileFlags) options(labels string) (dataset.Options, error) {
	o := dataset.Options{
		Format: f.As, KeyColumn: f.Key, LabelColumns: f.Label, LabelSeparator: f.Separator,
		PayloadColumn: f.Payload, IgnoreColumns: f.Ignore, LabelsPath: labels, Max: f.Limit,
		Header: map[string]dataset.Header{"auto": dataset.HeaderAuto, "yes": dataset.HeaderPresent, "no": dataset.HeaderAbsent}[f.Header],
	}
	if f.Limit < 0 {
		return o, usagef("--limit must not be negative")
	}
	return o, nil
}

// importCmd reads a file into a collection.
type importCmd struct {
	File       string `arg:"" help:"Database file; made if it does not exist."`
	Collection string `arg:"" help:"Collection; made if it does not exist."`
	Input      string `arg:"" help:"File of vectors, gzip-compressed or not."`
	Sparse     bool   `help:"The file holds sparse records; said by its content if not given."`
	Dense      bool   `help:"Take the records of a libsvm, xmc or arff file as vectors; what they leave out is zero."`
	Named      bool   `help:"Features of a new sparse collection go by the names the file has, not by number. So they always do for jsonl with names."`
	Labels     string `help:"An idx file of labels beside the vectors." placeholder:"PATH"`
	Metric     string `help:"Distance of a new collection: l2, cosine or ip; l2 if not given." enum:",l2,cosine,ip" default:"" placeholder:"METRIC"`
	Float32    bool   `help:"Store a new collection's vectors as float32 even where bytes would do."`
	KeyPrefix  string `help:"Text to put before every key."`
	Replace    bool   `help:"Replace rows of the same key. Without it they are an error, and the keys of a file that has none are numbers behind those in the collection."`
	Batch      int    `help:"Rows a transaction; 0 for as many as make 32 MiB." default:"0"`
	NoSync     bool   `help:"Do not wait for the disk: faster, but a crash of the machine can damage the file."`
	fileFlags
	sparseFlags
}

// Run executes the command.
func (c *importCmd) Run(a *app) (err error) {
	if c.Batch < 0 {
		return usagef("--batch must not be negative")
	}
	switch {
	case c.Dense && (c.Sparse || c.Named):
		return usagef("--dense and --sparse or --named exclude each other")
	case c.Dense:
	case c.Sparse || c.Named || holdsSparse(c.Input, c.fileFlags, c.sparseFlags):
		return c.sparse(a)
	}
	metric, err := vector.ParseMetric(cmp.Or(c.Metric, "l2"))
	if err != nil {
		return err
	}
	info, err := existing(a, c.File, c.Collection)
	if err != nil {
		return err
	}
	if err := c.checkExisting(info); err != nil {
		return err
	}
	in, err := openDense(c.Input, c.Labels, c.fileFlags, c.sparseFlags, target{info, a.note})
	if err != nil {
		return err
	}
	defer in.Close()
	numbering := db.NumberedUnknown
	if x, ok := in.(*filled); ok {
		numbering = x.in.numbering(false)
	}
	keys, err := c.newKeys(a, info)
	if err != nil {
		return err
	}
	r := &batchReader{in: in, keys: keys, size: c.rowsAtATime()}
	// What the first batch shows to be no vectors must leave no file behind.
	first, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	d, err := db.OpenContext(a.ctx, c.File, &db.Options{NoSync: c.NoSync})
	if err != nil {
		return explain(c.File, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	storage := db.StorageAuto
	if c.Float32 {
		storage = db.StorageFloat32
	}
	err = d.CreateDense(a.ctx, c.Collection, db.DenseOptions{Dim: in.Dim(), Metric: metric, Storage: storage, Numbering: numbering})
	created := err == nil
	if err != nil && !errors.Is(err, db.ErrExists) {
		return err
	}
	start := time.Now()
	n, err := c.importRows(a, d, first, r.next, r.in.Len())
	if err != nil {
		return c.failed(n, err)
	}
	took := time.Since(start)
	after, err := infoOf(d, c.Collection)
	if err != nil {
		return err
	}
	fresh := newRows(info, after)
	t := table.New("collection", "created", "rows", "new", "replaced", "total", "dim", "seconds:2", "rows/s:0")
	t.Add(c.Collection, created, n, fresh, n-fresh, after.Live, in.Dim(), took.Seconds(), float64(n)/took.Seconds())
	a.progress.end()
	return a.table(t)
}

// rowsAtATime is how many rows are read at a time.
func (c *importCmd) rowsAtATime() int {
	if c.Batch == 0 {
		return readRows
	}
	return c.Batch
}

// batchReader reads rows in batches.
type batchReader struct {
	in    dataset.Reader
	keys  newKeys
	size  int
	ended bool
}

// next is the next batch, empty at the end. Its rows share no memory with the
// reader.
func (r *batchReader) next() ([]db.Row, error) {
	var batch []db.Row
	var rec dataset.Record
	for len(batch) < r.size && !r.ended {
		switch err := r.in.Read(&rec); {
		case err == io.EOF:
			r.ended = true
		case err != nil:
			return nil, err
		default:
			batch = append(batch, db.Row{
				Key: r.keys.of(rec.Key, r.in.Keyed()), Vector: slices.Clone(rec.Vector),
				Labels: slices.Clone(rec.Labels), Payload: slices.Clone(rec.Payload),
			})
		}
	}
	return batch, nil
}

// readRows is how many rows are read at a time where transactions go by size.
const readRows = 1024

// importRows puts batches of rows, beginning with one that has been read
// already, and returns how many rows were acknowledged. Every batch is a
// transaction of its own unless they go by size.
func (c *importCmd) importRows(a *app, d *db.DB, batch []db.Row, next func() ([]db.Row, error), total int64) (n int, err error) {
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
		load := d.LoadNew
		if c.Replace {
			load = d.Load
		}
		return load(a.ctx, c.Collection, rows, func(p db.Progress) { a.progress.update("import", p.Done, int(max(0, total))) })
	}
	for len(batch) > 0 {
		written, err := c.putRows(a, d, batch)
		n += written
		if err != nil {
			return n, err
		}
		a.progress.update("import", n, int(max(0, total)))
		if batch, err = next(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// putRows writes rows in one transaction, or in several where a row replaces one
// of the same batch, and returns how many were written.
func (c *importCmd) putRows(a *app, d *db.DB, rows []db.Row) (n int, err error) {
	for len(rows) > 0 {
		end, seen := 0, map[string]bool{}
		for end < len(rows) && !(c.Replace && seen[string(rows[end].Key)]) {
			seen[string(rows[end].Key)] = true
			end++
		}
		put := (*db.Batch).Insert
		if c.Replace {
			put = (*db.Batch).Put
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
func putRows(a *app, d *db.DB, coll string, rows []db.Row, put func(*db.Batch, string, db.Row) error) error {
	return d.Update(a.ctx, func(b *db.Batch) error {
		for _, r := range rows {
			if err := put(b, coll, r); err != nil {
				return fmt.Errorf("key %q: %w", r.Key, err)
			}
		}
		return nil
	})
}
