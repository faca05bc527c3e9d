package pictures

import (
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/charts"
	"github.com/anndb/anndb/internal/plot"
)

// plotTimeCmd draws where the time of searches goes.
type plotTimeCmd struct {
	chartFlags
	Index   string        `arg:"" optional:""`
	Recall  float64       `default:"0.95"`
	K       int           `short:"k" default:"10"`
	Queries string        `placeholder:"FILE"`
	Lasting time.Duration `default:"2s" want:"100ms 1h"`
	Out     string        `default:"time.svg"`
	input.FileFlags
}

func (c *plotTimeCmd) Run(a *command.App) error {
	return c.draw(a, func(s *db.Snapshot, info db.CollectionInfo) ([]*plot.Chart, error) {
		if info.Dim == 0 {
			return nil, fmt.Errorf("collection %q is sparse: the time of dense searches is drawn", c.Collection)
		}
		queries, err := c.queries(a, s.Collection(c.Collection), info)
		if err != nil {
			return nil, err
		}
		o := db.SearchOptions{Index: c.Index, K: c.K, Recall: c.Recall}
		chart, err := charts.Time(a.Ctx, s.Collection(c.Collection), queries, o, c.Lasting)
		return []*plot.Chart{chart}, err
	}, c.Out)
}

// timedRows is the number of stored rows that are queries without a file of them.
const timedRows = 1000

// queries returns the queries of a file, or stored rows.
func (c *plotTimeCmd) queries(
	a *command.App, coll db.Collection, info db.CollectionInfo,
) ([]db.Query, error) {
	var vectors [][]float32
	if c.Queries != "" {
		var err error
		if vectors, err = input.ReadVectors(c.Queries, c.FileFlags, input.TargetOf(a, &info)); err != nil {
			return nil, err
		}
	} else {
		rows, err := charts.Spread(coll, info, timedRows)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			vectors = append(vectors, r.Vector)
		}
	}
	var queries []db.Query
	for _, v := range vectors {
		if v != nil {
			queries = append(queries, db.Query{Vector: v})
		}
	}
	return queries, nil
}
