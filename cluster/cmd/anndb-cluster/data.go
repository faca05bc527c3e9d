package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// createCmd creates a collection.
type createCmd struct {
	Name   string        `arg:""`
	Dim    int           `help:"Coordinates of vectors."`
	Metric vector.Metric `help:"l2, cosine or ip." default:"l2"`
	Text   bool          `help:"Rows have texts."`
	Sparse bool          `help:"Rows have numbered features."`
	Named  bool          `help:"Rows have named features."`
}

func (c *createCmd) Run(a *app, f client.File) error {
	schema := db.Schema{Dim: c.Dim, Sparse: c.Sparse, Named: c.Named}
	if c.Dim > 0 {
		schema.Metric = c.Metric
	}
	if c.Text {
		schema.Text = &text.Schema{}
	}
	_, err := f.Create(a.ctx, c.Name, schema)
	return err
}

// importCmd stores the rows of files.
type importCmd struct {
	Collection string   `arg:""`
	Files      []string `arg:"" help:"Files of any format that anndb reads."`
	Insert     bool     `help:"Refuse keys that exist."`
}

func (c *importCmd) Run(a *app, f client.File) error {
	coll := f.Collection(c.Collection)
	info, err := coll.Info(a.ctx)
	if err != nil {
		return err
	}
	for _, path := range c.Files {
		o := dataset.Options{Context: a.ctx, Kind: rows.Schema(&info).Kind, KeyColumn: "key"}
		if strings.Contains(path, ".jsonl") {
			o.Format = dataset.FormatJSONL
		}
		n, err := coll.Load(a.ctx, rows.File(path, o), &db.LoadOptions{Insert: c.Insert})
		if err != nil {
			return fmt.Errorf("%s: at least %d rows are stored: %w", path, n, err)
		}
		fmt.Fprintf(a.out, "%s: %d rows\n", path, n)
	}
	return nil
}

// buildCmd builds an index.
type buildCmd struct {
	Collection string `arg:""`
	Index      string `arg:""`
	Kind       string `arg:"" optional:"" help:"Of the index; without it each shard decides."`
	Options    string `help:"As JSON, those of package index."`
}

func (c *buildCmd) Run(a *app, f client.File) error {
	coll := f.Collection(c.Collection)
	in := wire.Build{Kind: c.Kind}
	if c.Options != "" {
		in.Options = json.RawMessage(c.Options)
	}
	o, err := in.Get()
	if err != nil {
		return err
	}
	info, err := coll.Build(a.ctx, c.Index, o)
	if err == nil {
		fmt.Fprintf(a.out, "%s: %s, %d rows\n", info.Name, info.Kind, info.Rows)
	}
	return err
}

// queryFlags are the parts of a query.
type queryFlags struct {
	Collection string `arg:""`
	Vector     string `help:"A vector as JSON."`
	Text       string `help:"A text."`
	Features   string `help:"Features as JSON."`
	Key        string `help:"The key of a row: like it."`
	Where      string `help:"A filter of rows."`
	Index      string `help:"Of the search, or the model."`
}

// query returns the query.
func (f *queryFlags) query() (q db.Query, where *filter.Filter, err error) {
	in := wire.Query{Text: f.Text, Key: wire.NewKey([]byte(f.Key))}
	if f.Vector != "" {
		err = wire.Unmarshal([]byte(f.Vector), &in.Vector)
	}
	if f.Features != "" && err == nil {
		err = wire.Unmarshal([]byte(f.Features), &in.Features)
	}
	if err == nil {
		where, err = wire.Where(f.Where)
	}
	if err == nil {
		q, err = in.Get()
	}
	return q, where, err
}

// searchCmd searches rows.
type searchCmd struct {
	queryFlags
	K       int      `short:"k" default:"10" help:"Number of hits."`
	Recall  float64  `help:"That is wanted."`
	Include []string `help:"labels, text, attributes, payload."`
}

func (c *searchCmd) Run(a *app, f client.File) error {
	coll := f.Collection(c.Collection)
	q, where, err := c.query()
	if err != nil {
		return err
	}
	_, o, err := (&wire.Search{Include: c.Include}).Get()
	if err != nil {
		return err
	}
	o.K, o.Recall, o.Where, o.Index = c.K, c.Recall, where, c.Index
	found, err := coll.Search(a.ctx, q, o)
	if err != nil {
		return err
	}
	return a.print(wire.NewResult(&found, false))
}

// predictCmd predicts labels.
type predictCmd struct {
	queryFlags
	Top int `help:"So many labels instead of the set that the model predicts."`
}

func (c *predictCmd) Run(a *app, f client.File) error {
	coll := f.Collection(c.Collection)
	q, where, err := c.query()
	if err != nil {
		return err
	}
	p, err := coll.Predict(a.ctx, q, &db.PredictOptions{Index: c.Index, Top: c.Top, Where: where})
	if err != nil {
		return err
	}
	return a.print(wire.NewPredictions(&p, false))
}

// countCmd counts rows.
type countCmd struct {
	Collection string `arg:""`
	Where      string `help:"A filter of rows."`
}

func (c *countCmd) Run(a *app, f client.File) error {
	coll := f.Collection(c.Collection)
	where, err := wire.Where(c.Where)
	if err != nil {
		return err
	}
	n, err := coll.Count(a.ctx, where)
	if err == nil {
		fmt.Fprintln(a.out, n)
	}
	return err
}
