package pictures

import (
	"fmt"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/evaluation"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/charts"
	"github.com/anndb/anndb/internal/plot"
)

// plotPrecisionCmd draws precision@k of label models.
type plotPrecisionCmd struct {
	chartFlags
	Queries string `required:"" placeholder:"FILE"`
	Labels  string `placeholder:"FILE"`
	Index   []string
	K       int    `short:"k" default:"10" want:"1 1000"`
	Out     string `default:"precision.svg"`
	input.FileFlags
}

func (c *plotPrecisionCmd) Run(a *command.App) error {
	return c.draw(a, func(s *db.Snapshot, info db.CollectionInfo) ([]*plot.Chart, error) {
		models, err := labelModels(s, c.Collection, c.Index)
		if err != nil {
			return nil, err
		}
		q, err := input.ReadQueries(c.Queries, c.Labels, c.FileFlags, input.TargetOf(a, &info))
		if err != nil {
			return nil, err
		}
		t, err := evaluation.NewLabelTest(s, c.Collection, q)
		if err != nil {
			return nil, err
		}
		t.Info = info
		var values [][]float64
		for _, m := range models {
			v, err := t.Precision(a, s, m, c.K)
			if err != nil {
				return nil, fmt.Errorf("index %s: %w", m, err)
			}
			values = append(values, v)
		}
		title := fmt.Sprintf("%s: precision@k on %d rows", c.Collection, len(q.List))
		return []*plot.Chart{charts.Precision(title, models, values)}, nil
	}, c.Out)
}

// labelModels returns the names that are given, or those of all label models of a collection.
func labelModels(s *db.Snapshot, coll string, names []string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	list, err := s.Collection(coll).Indexes()
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if indexes.Predicts(i) {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return nil, indexes.NoLabelModel(coll)
	}
	return names, nil
}
