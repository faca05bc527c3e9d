// Package report writes one HTML page about a database: its collections and indexes, measured
// recall, charts, sizes and health. The page is complete in itself: no script, no other file.
package report

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/internal/table"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"size": func(n int64) string { return fmt.Sprint(table.Size(n)) },
	"time": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
}).Parse(page))

// Options are the options of Write.
type Options struct {
	// Check verifies the whole file and reports the damage.
	Check bool
	// Now is the time on the page.
	Now time.Time
	db.Run
}

// content is what the page shows.
type content struct {
	Path, Name  string
	Now         time.Time
	Stats       db.Stats
	Checked     bool
	Damage      []string
	Collections []collection
}

type collection struct {
	db.CollectionInfo
	Kind   string
	Labels []string       // the most frequent ones
	Counts map[string]int // of the rows of all labels
	More   int            // labels that are not shown
	Charts []template.HTML
	List   []described
}

type described struct {
	index.Info
	Behind         int
	Recall, Micros float64 // of the setting that a search uses by default; 0 without one
	Probes         string
	Sections       []section
	Seconds        float64
}

type section struct {
	Name  string
	Bytes int64
	Share float64 // percent
}

// Write writes the report of the latest state of d to w. Cost: with Check it
// reads the file. Errors: those of d, of the context and of w.
func Write(ctx context.Context, w io.Writer, d *db.DB, o Options) error {
	c := content{Path: d.Path(), Name: filepath.Base(d.Path()), Now: o.Now, Checked: o.Check}
	if o.Check {
		err := d.Check(ctx, func(e *db.CorruptError) { c.Damage = append(c.Damage, e.Error()) }, &o.Run)
		if err != nil && !errors.Is(err, db.ErrCorrupt) {
			return err
		}
	}
	var err error
	if c.Stats, err = d.Stats(); err != nil {
		return err
	}
	err = d.View(func(s *db.Snapshot) error {
		for _, info := range s.Collections() {
			one, err := describe(ctx, s.Collection(info.Name), info)
			if err != nil && !(o.Check && errors.Is(err, db.ErrCorrupt)) { // which the page lists
				return fmt.Errorf("collection %q: %w", info.Name, err)
			}
			c.Collections = append(c.Collections, *one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, &c); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// shownLabels is the number of labels that the page names for a collection.
const shownLabels = 12

// describe collects what the page shows of a collection; with an error, what it has found before.
func describe(ctx context.Context, c db.Collection, info db.CollectionInfo) (*collection, error) {
	out := &collection{CollectionInfo: info, Kind: "dense"}
	switch {
	case info.Text != nil:
		out.Kind = "texts, analyzer " + info.Text.Analyzer
	case info.Named:
		out.Kind = "sparse, named features"
	case info.Sparse:
		out.Kind = "sparse, numbered features"
	}
	list, err := c.Indexes()
	if err != nil {
		return out, err
	}
	for _, i := range list {
		out.List = append(out.List, indexOf(i, info))
	}
	if out.Counts, err = c.Labels(); err != nil {
		return out, err
	}
	labels := slices.Sorted(maps.Keys(out.Counts))
	slices.SortStableFunc(labels, func(a, b string) int { return out.Counts[b] - out.Counts[a] })
	out.More = max(0, len(labels)-shownLabels)
	out.Labels = labels[:len(labels)-out.More]
	rows, err := mapOf(ctx, c, info)
	if err != nil {
		return out, err
	}
	reliability := reliabilityOf(info.Name+", held-out rows", calibrated(list))
	for _, chart := range []*plot.Chart{recallOf(info.Name, list...), reliability, rows} {
		picture, err := svg(chart)
		if err != nil {
			return out, err
		}
		if picture != nil {
			out.Charts = append(out.Charts, template.HTML(picture)) // its writer escapes texts
		}
	}
	return out, nil
}

// svg draws a chart; nil for none, and for one without points.
func svg(c *plot.Chart) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	c.Width, c.Height = 760, 480
	var b bytes.Buffer
	if err := c.Write(&b); err != nil && !errors.Is(err, plot.ErrEmpty) {
		return nil, err
	}
	return b.Bytes(), nil
}

// indexOf describes an index.
func indexOf(i index.Info, info db.CollectionInfo) described {
	x := described{Info: i, Behind: info.Rows - i.Rows}
	for _, s := range i.BuildSeconds {
		x.Seconds += s
	}
	total := max(i.TotalBytes(), 1)
	for _, name := range slices.Sorted(maps.Keys(i.Bytes)) {
		n := i.Bytes[name]
		x.Sections = append(x.Sections, section{name, n, 100 * float64(n) / float64(total)})
	}
	slices.SortStableFunc(x.Sections, func(a, b section) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if i.Curve == nil {
		return x
	}
	x.Probes = fmt.Sprintf("%d queries, k = %d", i.Curve.Queries, i.Curve.K)
	x.Recall, x.Micros = Default(i)
	return x
}

// Deleted returns the number of row numbers whose rows are deleted.
func (c *collection) Deleted() int { return c.Rows - c.Live }
