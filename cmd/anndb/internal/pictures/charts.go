package pictures

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/charts"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/internal/table"
)

// chartFlags are shared by pictures of what a database holds.
type chartFlags struct {
	command.InCollection
	pictureFlags
}

// chartFunc makes the charts of a collection.
type chartFunc func(*db.Snapshot, db.CollectionInfo) ([]*plot.Chart, error)

// draw writes the charts of the collection to the files of these names, one for each.
func (f chartFlags) draw(a *command.App, charts chartFunc, names ...string) error {
	if !strings.EqualFold(filepath.Ext(names[0]), ".svg") {
		return command.Usagef("--out %q (want a name that ends in .svg)", names[0])
	}
	mode, err := f.Allow(f.File, names...)
	if err != nil {
		return err
	}
	var drawn []*plot.Chart
	err = f.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) (err error) {
		drawn, err = charts(s, info)
		return err
	})
	if err != nil {
		return err
	}
	t := table.New("picture")
	for i, c := range drawn {
		c.Width, c.Height = f.Width, f.Height
		if f.Title != "" {
			c.Title = f.Title
		}
		err = command.WriteFile(names[i], mode, c.Write)
		if err != nil {
			return fmt.Errorf("draw %s: %w", names[i], err)
		}
		t.Add(names[i])
	}
	return a.Done(t)
}

// plotRecallCmd draws the curves of tuned indexes.
type plotRecallCmd struct {
	chartFlags
	Index []string `arg:"" optional:""`
	Out   string   `default:"recall.svg"`
}

func (c *plotRecallCmd) Run(a *command.App) error {
	return c.draw(a, func(s *db.Snapshot, _ db.CollectionInfo) (_ []*plot.Chart, err error) {
		var list []index.Info
		for _, name := range c.Index {
			i, err := s.Collection(c.Collection).Index(name)
			if err != nil {
				return nil, err
			}
			list = append(list, i)
		}
		if len(c.Index) == 0 {
			if list, err = s.Collection(c.Collection).Indexes(); err != nil {
				return nil, err
			}
		}
		chart := charts.Recall(c.Collection, list...)
		if chart == nil {
			return nil, fmt.Errorf("collection %q has no tuned index to draw: make one with anndb build", c.Collection)
		}
		return []*plot.Chart{chart}, nil
	}, c.Out)
}

// plotLabelsCmd draws the frequencies of labels.
type plotLabelsCmd struct {
	chartFlags
	Out string `default:"labels.svg"`
}

func (c *plotLabelsCmd) Run(a *command.App) error {
	ext := filepath.Ext(c.Out)
	return c.draw(a, func(s *db.Snapshot, _ db.CollectionInfo) ([]*plot.Chart, error) {
		counts, err := charts.CountLabels(a.Ctx, s.Collection(c.Collection))
		if err != nil {
			return nil, err
		}
		if len(counts.Labels) == 0 {
			return nil, fmt.Errorf("no row of collection %q has a label", c.Collection)
		}
		return []*plot.Chart{counts.Frequencies(c.Collection), counts.RowCounts(c.Collection)}, nil
	}, c.Out, strings.TrimSuffix(c.Out, ext)+"-per-row"+ext)
}

// plotLeavesCmd draws the sizes of leaves.
type plotLeavesCmd struct {
	chartFlags
	Index string `arg:""`
	Out   string `default:"leaves.svg"`
}

func (c *plotLeavesCmd) Run(a *command.App) error {
	return c.draw(a, func(s *db.Snapshot, _ db.CollectionInfo) ([]*plot.Chart, error) {
		sizes, err := s.Collection(c.Collection).LeafSizes(a.Ctx, c.Index)
		if err != nil {
			return nil, err
		}
		return []*plot.Chart{charts.LeafSizes(c.Index, sizes)}, nil
	}, c.Out)
}

// plotMapCmd draws the rows in the plane.
type plotMapCmd struct {
	chartFlags
	Out  string `default:"map.svg"`
	Rows int    `default:"5000" want:"3 100000"`
	By   string `placeholder:"ATTRIBUTE"`
}

func (c *plotMapCmd) Run(a *command.App) error {
	return c.draw(a, func(s *db.Snapshot, info db.CollectionInfo) ([]*plot.Chart, error) {
		if c.By != "" && !slices.Contains(info.Attributes, c.By) {
			return nil, fmt.Errorf("no row of collection %q has an attribute %q", c.Collection, c.By)
		}
		o := charts.MapOptions{Rows: c.Rows, Attribute: c.By}
		chart, err := charts.Map(a.Ctx, s.Collection(c.Collection), o)
		return []*plot.Chart{chart}, err
	}, c.Out)
}
