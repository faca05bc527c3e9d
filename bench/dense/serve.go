package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// collection and indexName are the names that the benchmark's own files use. A
// file with one other collection and index serves as well.
const collection, indexName = "rows", "main"

// engine is anndb as a child measures it: through the public API, from a file
// that was closed and opened again. Keys are row numbers in decimal.
type engine struct {
	path   string
	db     *db.DB
	snap   *db.Snapshot
	coll   string
	detail []string
	opts   db.SearchOptions
	filter *filter.Filter
	hits   []db.Hit
	// last is the work of the latest search, total that of the taken searches.
	last, total trace.SearchStats
	taken       int
}

// About is anndb's version, as far as the binary knows it, and its kernels.
func (e *engine) About() string {
	version := "anndb"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return version + " kernels=" + vector.KernelName()
}

// Build writes the rows to the file named by the word scratch, reorders them,
// builds the index, and compacts the file. Words: scratch, metric (l2, cosine),
// storage (auto, float32), and those of buildOptions.
func (e *engine) Build(ctx context.Context, base *child.Rows, o child.Words, threads int) error {
	e.path = o["scratch"]
	if e.path == "" || base.F32 == nil {
		return errors.New("build needs a scratch file and float32 rows")
	}
	options, err := buildOptions(o)
	if err != nil {
		return err
	}
	dense := db.Schema{Dim: base.Dim, Metric: vector.L2}
	if o["metric"] == "cosine" {
		dense.Metric = vector.Cosine
	}
	if o["storage"] == "float32" {
		dense.Float32 = true
	}
	if err := os.Remove(e.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	d, err := db.Open(ctx, e.path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Create(ctx, collection, dense); err != nil {
		return err
	}
	start := time.Now()
	const group = 5000
	for first := 0; first < base.N; first += group {
		err := d.Update(ctx, func(b *db.Tx) error {
			for i := first; i < min(first+group, base.N); i++ {
				row := db.Row{Key: strconv.AppendInt(nil, int64(i), 10), Vector: base.Float32(i)}
				if err := b.Collection(collection).Put(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	e.detail = []string{fmt.Sprintf("import:%.2f", time.Since(start).Seconds())}
	start = time.Now()
	if err := d.Compact(ctx, &db.CompactOptions{Reorder: true}); err != nil {
		return err
	}
	e.detail = append(e.detail, fmt.Sprintf("reorder:%.2f", time.Since(start).Seconds()))
	info, err := d.Collection(collection).Build(ctx, indexName, options, &db.Run{Workers: threads})
	if err != nil {
		return err
	}
	for stage, s := range info.BuildSeconds {
		e.detail = append(e.detail, fmt.Sprintf("%s:%.2f", strings.ReplaceAll(stage, " ", "-"), s))
	}
	start = time.Now()
	if err := d.Compact(ctx, nil); err != nil {
		return err
	}
	e.detail = append(e.detail, fmt.Sprintf("compact:%.2f", time.Since(start).Seconds()))
	sort.Strings(e.detail[1:])
	return d.Close()
}

// buildOptions reads the words kind, trees, depth, labels, rotate, sketch,
// hops and seed; what is left out is anndb's default.
func buildOptions(o child.Words) (*index.Forest, error) {
	b := &index.Forest{}
	var seed, rotate, sketch, hops int
	var errs []error
	for name, to := range map[string]*int{
		"trees": &b.Trees, "depth": &b.Depth, "labels": &b.LeafNeighbors, "rotate": &rotate,
		"sketch": &sketch, "hops": &hops, "seed": &seed,
	} {
		v, err := o.Int(name, 0)
		errs = append(errs, err)
		*to = v
	}
	b.Seed = uint64(seed)
	for _, part := range []struct {
		n    int // negative: off
		off  *bool
		size *int
	}{
		{rotate, &b.NoRotation, &b.Coordinates},
		{sketch, &b.NoSketches, &b.SketchBytes},
		{hops, &b.NoLists, &b.ListNeighbors},
	} {
		*part.size, *part.off = max(0, part.n), part.n < 0
	}
	return b, errors.Join(errs...)
}

// Detail is where the time of the build went.
func (e *engine) Detail() string { return strings.Join(e.detail, ",") }

// Save moves the file to its place.
func (e *engine) Save(path string) error { return os.Rename(e.path, path) }

// Open opens the file for reading and holds one snapshot.
func (e *engine) Open(path string, _ int, _ child.Words) error {
	d, err := db.Open(context.Background(), path, &db.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return err
	}
	s, err := d.Snapshot()
	if err != nil {
		return errors.Join(err, d.Close())
	}
	e.db, e.snap = d, s
	all := s.Collections()
	if len(all) != 1 {
		return fmt.Errorf("%s has %d collections instead of one", path, len(all))
	}
	e.coll = all[0].Name
	return nil
}

// Settings are the points of the curve that anndb's tuner measured on the rows
// it held out when the index was built.
func (e *engine) Settings() ([]string, error) {
	list, err := e.snap.Collection(e.coll).Indexes()
	if err != nil || len(list) != 1 || list[0].Curve == nil {
		return nil, errors.Join(errors.New("no single tuned index"), err)
	}
	var out []string
	for _, p := range list[0].Curve.Points {
		text, err := json.Marshal(p.Params)
		if err != nil {
			return nil, err
		}
		out = append(out, "params="+string(text))
	}
	return out, nil
}

// Set takes recall=0.95 or params={…}, the parameters of a search as JSON.
func (e *engine) Set(o child.Words) error {
	e.opts = db.SearchOptions{}
	if text, ok := o["recall"]; ok {
		r, err := strconv.ParseFloat(text, 64)
		e.opts.Recall = r
		return err
	}
	if text, ok := o["params"]; ok {
		e.opts.Params = new(query.Params)
		return json.Unmarshal([]byte(text), e.opts.Params)
	}
	return nil
}

// Filter restricts searches to rows by their keys; bit i belongs to key i.
func (e *engine) Filter(bits []byte) error {
	e.filter = nil
	if bits == nil {
		return nil
	}
	c, pass := e.snap.Collection(e.coll), roaring.New()
	for row, err := range c.Rows(context.Background(), nil) {
		if err != nil {
			return err
		}
		if i := decimal(row.Key); int(i/8) < len(bits) && bits[i/8]>>(i%8)&1 == 1 {
			pass.Add(row.Row)
		}
	}
	var err error
	e.filter, err = c.RowFilter(pass)
	return err
}

// Search asks for the k nearest rows.
func (e *engine) Search(q *child.Rows, i, k int) (err error) {
	e.opts.K, e.opts.Reuse, e.opts.Where = k, e.hits, e.filter
	found, err := e.snap.Collection(e.coll).Search(context.Background(), db.Query{Vector: q.Float32(i)}, &e.opts)
	e.hits, e.last = found.Hits, found.Stats
	return err
}

// Take reads the row numbers from the keys, and counts the work.
func (e *engine) Take(ids []uint32) {
	e.taken++
	e.total.Leaves += e.last.Leaves
	e.total.Labels += e.last.Labels
	e.total.Sketched += e.last.Sketched
	e.total.Exact += e.last.Exact
	for i := range ids {
		ids[i] = child.Missing
		if i < len(e.hits) {
			ids[i] = decimal(e.hits[i].Key)
		}
	}
}

// Work is what a search read: leaves with their label entries, sketches, rows.
func (e *engine) Work() string {
	t, n := e.total, float64(max(1, e.taken))
	e.total, e.taken = trace.SearchStats{}, 0
	return fmt.Sprintf("leaves:%.1f,labels:%.0f,sketches:%.0f,rows:%.1f",
		float64(t.Leaves)/n, float64(t.Labels)/n, float64(t.Sketched)/n, float64(t.Exact)/n)
}

// decimal is strconv.Atoi for keys, without the string.
func decimal(key []byte) uint32 {
	n := uint32(0)
	for _, c := range key {
		if c < '0' || c > '9' {
			return child.Missing
		}
		n = n*10 + uint32(c-'0')
	}
	return n
}

// Batch answers all queries by SearchBatch.
func (e *engine) Batch(q *child.Rows, k, threads int) error {
	list := make([]db.Query, q.N)
	for i := range list {
		list[i].Vector = q.Float32(i)
	}
	e.opts.K, e.opts.Workers = k, threads
	_, err := e.snap.Collection(e.coll).SearchBatch(context.Background(), list, &e.opts)
	return err
}

// Close closes the file.
func (e *engine) Close() error {
	if e.db == nil {
		return nil
	}
	e.snap.Release()
	return e.db.Close()
}
