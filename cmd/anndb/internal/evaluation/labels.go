package evaluation

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/internal/table"
)

// rankedAt are the k of precision@k and nDCG@k.
var rankedAt = []int{1, 3, 5}

// models are the label models to measure: those that --index names, or all. There are none, and
// nearest rows by vectors are measured, if --index names other indexes or there is no label model, and in
// a dense collection if there are other indexes, too.
func (c *Evaluate) models(list []index.Info, info db.CollectionInfo) ([]string, error) {
	var models []string
	for _, i := range list {
		if i.Predicts {
			models = append(models, i.Name)
		}
	}
	var missing []string
	for _, name := range c.Index {
		if !slices.Contains(models, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case info.Dim == 0 && len(missing) > 0:
		return nil, fmt.Errorf("collection %q has no label model %q", info.Name, missing[0])
	case info.Dim == 0 && len(models) == 0:
		return nil, indexes.NoLabelModel(info.Name)
	case len(c.Index) == 0 && (info.Sparse || len(models) == len(list)):
		return models, nil
	case len(missing) == len(c.Index):
		return nil, nil
	case len(missing) > 0:
		return nil, command.Usagef("--index names label models and forests, which are measured by other things")
	}
	return c.Index, nil
}

// labels measures label models.
func (c *Evaluate) labels(a *command.App, s *db.Snapshot, info db.CollectionInfo, models []string) error {
	if len(c.Method) > 0 {
		return command.Usagef("--method is for forests of dense collections, not for label models")
	}
	var mode fs.FileMode
	if c.Reliability != "" {
		err := c.Refuse([]string{c.Reliability}, c.File, c.Queries, c.Labels)
		if err == nil {
			mode, err = c.Allow(c.File, c.Reliability)
		}
		if err != nil {
			return err
		}
	}
	q, err := input.ReadQueries(c.Queries, c.Labels, c.FileFlags, input.TargetOf(a, &info))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(q, func(x input.Query) bool { return len(x.Labels) > 0 }) {
		return command.Usagef("no record of %s has a label to compare predictions with; "+
			"labels of idx files are in a file of their own: --labels", c.Queries)
	}
	asked := make([]answers, len(models))
	for i, m := range models {
		o := &db.PredictOptions{Index: m, Top: slices.Max(rankedAt), Set: true}
		x := &asked[i]
		x.Predicting = queries.Predicting{App: a, Snapshot: s, Info: info, Options: o, Workers: c.Threads,
			Stage: "predict by " + m}
		start := time.Now()
		if x.found, err = x.All(q); err != nil {
			return fmt.Errorf("index %s: %w", m, err)
		}
		if x.took = time.Since(start); i == 0 {
			x.Unknown.Note(a)
		}
	}
	t, err := newLabelTest(s, info, q, asked)
	if err != nil {
		return err
	}
	t.more = c.AllMeasures || !a.People()
	var found []measure
	for i, m := range models {
		list, err := t.evaluate(c, &asked[i])
		if err != nil {
			return fmt.Errorf("index %s: %w", m, err)
		}
		found = append(found, list...)
	}
	if c.Reliability != "" {
		if err := c.draw(a, t, mode); err != nil {
			return err
		}
	}
	a.Title("rows: %d, labels: %d, %d of them unknown to the collection and so always missed; threads: %d",
		len(q), len(t.names), t.unknown, c.Threads)
	if a.People() {
		return a.Print(wide(found, models))
	}
	shown := table.New("index", "measure", "value:4", "zero:4")
	for _, m := range found {
		shown.Add(m.model, m.name, m.value, m.zero)
	}
	return a.Print(shown)
}

// draw writes the reliability diagram.
func (c *Evaluate) draw(a *command.App, t *labelTest, mode fs.FileMode) error {
	rows := fmt.Sprintf("%s, %d rows of %s", c.Collection, len(t.q), filepath.Base(c.Queries))
	picture, err := report.Reliability(rows, t.reliable...)
	if err != nil {
		return err
	}
	if picture == nil {
		return command.Usagef("--reliability: no label model has probabilities")
	}
	return command.WriteFile(c.Reliability, mode, func(w io.Writer) error {
		_, err := w.Write(picture)
		return err
	})
}

// measure is a measure of one model.
type measure struct {
	model, name string
	value       float64
	zero        any // a float64 with 0/0 counted as 0; nil where that cannot happen
}

// wide has a row for each measure and a column for each model, for people.
func wide(found []measure, models []string) *table.Table {
	columns := []string{"measure"}
	for _, model := range models {
		columns = append(columns, model+":4")
	}
	t := table.New(columns...)
	var names []string
	cells := map[string][]any{}
	for _, m := range found {
		if cells[m.name] == nil {
			names = append(names, m.name)
			cells[m.name] = make([]any, len(models))
		}
		cells[m.name][slices.Index(models, m.model)] = m.value
	}
	for _, name := range names {
		t.Add(slices.Concat([]any{name}, cells[name])...)
	}
	return t
}
