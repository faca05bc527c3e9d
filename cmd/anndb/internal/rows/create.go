package rows

import (
	"cmp"
	"errors"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// Create makes an empty collection.
type Create struct {
	File       string   `arg:"" type:"path"`
	Collection string   `arg:""`
	Dim        int      `group:"Dense collections:" default:"0" placeholder:"N"`
	Metric     string   `group:"Dense collections:" enum:",l2,cosine,ip" default:"" placeholder:"METRIC"`
	Float32    bool     `group:"Dense collections:"`
	Named      bool     `group:"Sparse collections:"`
	Numbered   bool     `group:"Sparse collections:" without:"named"`
	Text       bool     `group:"Texts:" without:"named numbered"`
	Meta       []string `placeholder:"NAME=VALUE" sep:"none"`
	Analyzer   string   `group:"Texts:" enum:",words,english,code" default:"" placeholder:"NAME" with:"text"`
	Pairs      int      `group:"Texts:" placeholder:"N" with:"text"`
	Base       string   `group:"Sparse collections:" enum:",0,1" default:"" placeholder:"N" with:"numbered"`
}

// schema is the kind of collection that the flags describe.
func (c *Create) schema() (s db.Schema, err error) {
	sparse := c.Named || c.Numbered
	if c.Text {
		s.Text = &text.Schema{Analyzer: c.Analyzer, Pairs: c.Pairs}
	}
	switch {
	case sparse && (c.Dim != 0 || c.Metric != "" || c.Float32):
		return s, command.Usagef("--dim, --metric and --float-32 are for dense collections: " +
			"sparse rows are float32 and compared by cosine")
	case c.Text && c.Dim == 0 && (c.Metric != "" || c.Float32):
		return s, command.Usagef("--metric and --float-32 are for vectors: add --dim N for those next to the texts")
	case c.Text && c.Dim == 0:
		return s, nil
	case !sparse && c.Dim < 1:
		return s, command.Usagef("say --dim N for vectors of N numbers, --named or --numbered for sparse rows, " +
			"--text for texts")
	case c.Named:
		return db.Schema{Named: true}, nil
	case c.Numbered:
		return db.Schema{Sparse: true, Numbering: cmp.Or(c.Base, command.FromZero)}, nil
	}
	s.Dim, s.Float32 = c.Dim, c.Float32
	s.Metric, err = vector.ParseMetric(cmp.Or(c.Metric, "l2"))
	return s, err
}

func (c *Create) Run(a *command.App) (err error) {
	schema, err := c.schema()
	if err != nil {
		return err
	}
	for _, m := range c.Meta {
		name, value, ok := strings.Cut(m, "=")
		if !ok {
			return command.Usagef("--meta %q: want NAME=VALUE", m)
		}
		if schema.Meta == nil {
			schema.Meta = map[string]string{}
		}
		schema.Meta[name] = value
	}
	d, err := command.Open(a, c.File, db.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, command.Close(a, d)) }()
	made, err := d.Create(a.Ctx, c.Collection, schema)
	if err != nil {
		return err
	}
	info, err := made.Info()
	if err != nil {
		return err
	}
	return a.Done(command.CollectionsTable(!a.People(), info))
}
