package evaluation

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
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
		if indexes.Predicts(i) {
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
	switch {
	case c.Queries == "":
		return command.Usagef("--holdout is for nearest rows: "+
			"a label model knows the labels of its rows, so %q needs --queries", info.Name)
	case len(c.Method) > 0:
		return command.Usagef("--method is for forests of dense collections, not for label models")
	}
	q, err := input.ReadQueries(c.Queries, c.Labels, c.FileFlags, input.TargetOf(a, &info))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(q.List, func(x input.Query) bool { return len(x.Labels) > 0 }) {
		return command.Usagef("no record of %s has a label to compare predictions with; "+
			"labels of idx files are in a file of their own: --labels", c.Queries)
	}
	t, err := NewLabelTest(s, c.Collection, q)
	if err != nil {
		return err
	}
	t.Info = info
	out := &measures{models: models}
	for _, m := range models {
		list, err := t.evaluate(a, s, m, c.Threads)
		if err != nil {
			return fmt.Errorf("index %s: %w", m, err)
		}
		out.of = append(out.of, list)
	}
	omission := ""
	if t.omitted > 0 {
		omission = fmt.Sprintf("; %d that the file declares and no row has are left out", t.omitted)
	}
	a.Title("rows: %d, labels: %d, %d of them unknown to the collection and so always missed%s; threads: %d",
		len(q.List), len(t.names), t.unknown, omission, c.Threads)
	if !a.People() {
		return a.Print(out.long())
	}
	return a.Print(out.wide())
}

// measures are the measures of label models, in one order.
type measures struct {
	models []string
	of     [][]measure // each model
}

// measure is a measure of one model.
type measure struct {
	name  string
	value float64
	zero  any // a float64 with 0/0 counted as 0; nil where that cannot happen
}

// long has a row for each measure of each model, for programs.
func (m *measures) long() *table.Table {
	t := table.New("index", "measure", "value:4", "zero:4")
	for i, model := range m.models {
		for _, x := range m.of[i] {
			t.Add(model, x.name, x.value, x.zero)
		}
	}
	return t
}

// wide has a row for each measure and a column for each model, for people.
func (m *measures) wide() *table.Table {
	columns := []string{"measure"}
	for _, model := range m.models {
		columns = append(columns, model+":4")
	}
	t := table.New(columns...)
	done := map[string]bool{}
	for _, first := range slices.Concat(m.of...) {
		if done[first.name] {
			continue
		}
		done[first.name] = true
		values := []any{first.name}
		for _, list := range m.of {
			var value any
			if i := slices.IndexFunc(list, func(x measure) bool { return x.name == first.name }); i >= 0 {
				value = list[i].value
			}
			values = append(values, value)
		}
		t.Add(values...)
	}
	return t
}
