package indexes

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/table"
)

// pairFlags name the pairs of queries and keys by which the fusion of searches is tuned.
type pairFlags struct {
	Pairs        string `placeholder:"FILE" type:"path"`
	Vectors      string `placeholder:"PATH" type:"path" with:"pairs" without:"vector-column embed"`
	Embed        string `placeholder:"COMMAND" with:"pairs"`
	As           string `placeholder:"FORMAT" with:"pairs"`
	KeyColumn    string `with:"pairs"`
	Text         string `placeholder:"NAME" with:"pairs"`
	VectorColumn string `placeholder:"NAME" with:"pairs"`
}

// tunePairs tunes the weight of the vector in searches of texts and vectors.
func (f *pairFlags) tunePairs(a *command.App, to command.InCollection) error {
	return to.With(a, false, func(d *db.DB) error {
		c := d.Collection(to.Collection)
		info, err := c.Info()
		if err != nil {
			return err
		}
		if info.Text == nil || info.Dim == 0 {
			return command.Usagef("--pairs is for collections of texts and vectors; %q is %s", info.Name,
				command.KindOf(info))
		}
		from := input.Source{
			Path: f.Pairs, Vectors: f.Vectors, Kind: dataset.Text, To: input.TargetOf(a, &info),
			Flags: input.FileFlags{
				As: f.As, Key: f.KeyColumn, Text: f.Text, Vector: f.VectorColumn,
				SparseFlags: input.SparseFlags{Base: "auto"},
			},
		}
		var by *input.Embedder
		if f.Embed != "" {
			by = &input.Embedder{Ctx: a.Ctx, Host: a.Program.Host, Command: f.Embed, Dim: info.Dim}
		}
		queries, keys, err := from.ReadPairs(by)
		if err != nil {
			return err
		}
		t, err := c.TuneFusion(a.Ctx, queries, keys, nil, a.Run())
		a.Progress.End()
		if err != nil {
			return err
		}
		shown := table.New("search", "weight", "mrr@10:4")
		shown.Add("text", nil, t.Text)
		shown.Add("vector", nil, t.Vector)
		shown.Add("reciprocal ranks", nil, t.Ranks)
		shown.Add("default", rank.DefaultWeight, t.Default)
		if t.Kept == "" {
			shown.Add("tuned", t.Weight, t.Tuned)
		}
		if err := a.Done(shown); err != nil {
			return err
		}
		a.Summary("pairs: %d, the rows of %d are among the first by text or vector; weight of the vector "+
			"from now on: %.2g", len(keys), t.Found, t.Weight)
		if t.Kept != "" {
			a.Note("%s", t.Kept)
		}
		return nil
	})
}
