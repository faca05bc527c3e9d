// Package file has the commands about the whole file: what it holds, whether it is damaged, copies and
// repair.
package file

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/internal/table"
)

// Stats describes a file.
type Stats struct {
	command.InFile
	Collection string `arg:"" optional:""`
	All        bool
}

func (c *Stats) Run(a *command.App) error {
	c.All = c.All || !a.People()
	return c.With(a, true, func(d *db.DB) error {
		if c.Collection != "" {
			return d.View(func(s *db.Snapshot) error { return c.collection(a, s) })
		}
		st, err := d.Stats()
		if err != nil {
			return err
		}
		var every []index.Info
		live := map[string]int{}
		err = d.View(func(s *db.Snapshot) error {
			for _, info := range st.Collections {
				live[info.Name] = info.Rows
				list, err := s.Collection(info.Name).Indexes()
				if err != nil {
					return err
				}
				for _, i := range list {
					i.Collection = info.Name
					every = append(every, i)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		sections := []table.Section{
			c.fileTable(a, st).As("file", ""),
			command.CollectionsTable(c.All, st.Collections...).As("collections", "Collections"),
			c.indexesTable(every, live).As("indexes", "Indexes (recall and µs of the default setting)"),
		}
		if c.All {
			sections = append(sections, indexes.TreeTable(every...).As("trees", indexes.TreeTitle))
		}
		return a.Report(sections...)
	})
}

// fileTable describes the file.
func (c *Stats) fileTable(a *command.App, st db.Stats) *table.Table {
	if !c.All {
		t := table.New("file", "size", "free")
		t.Add(a.Shown(c.File), table.Size(st.FileBytes), table.Size(st.FreeBytes))
		return t
	}
	t := table.New("file", "size", "free", "live", "page_size", "generation", "map_reserve")
	t.Add(a.Shown(c.File), table.Size(st.FileBytes), table.Size(st.FreeBytes), table.Size(st.LiveBytes),
		st.PageSize, st.Generation, table.Size(st.MapReserve))
	return t
}

// indexesTable has a row for each index; rows has the row numbers in use of each collection.
func (c *Stats) indexesTable(list []index.Info, rows map[string]int) *table.Table {
	columns := []string{"collection", "index", "kind", "covered", "fresh", "size", "recall:3", "micros:1"}
	if c.All {
		columns = append(columns, "trees", "depth", "setting")
	}
	t := table.New(columns...)
	for _, i := range list {
		recall, micros := best(i)
		var trees, depth any
		switch o, ok := i.Options.(*index.Forest); {
		case ok:
			trees, depth = o.Trees, o.Depth
		case i.Tree != nil:
			trees, depth = i.Tree.Trees, i.Tree.Depth
		}
		t.Add(i.Collection, i.Name, i.Kind, i.Rows, rows[i.Collection]-i.Rows, table.Size(i.TotalBytes()), recall,
			micros, trees, depth, indexes.SparseSetting(i))
	}
	return t
}

// shownLabels is how many labels people see of a collection.
const shownLabels = 10

// collection describes one collection: its attributes, indexes and labels.
func (c *Stats) collection(a *command.App, s *db.Snapshot) error {
	info, err := s.Collection(c.Collection).Info()
	if err != nil {
		return err
	}
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return err
	}
	byLabel, title, err := c.labelsTable(s)
	if err != nil {
		return err
	}
	attributes := table.New("attribute", "rows")
	for _, name := range info.Attributes {
		n, err := s.Collection(c.Collection).Count(a.Ctx, filter.Exists(name))
		if err != nil {
			return err
		}
		attributes.Add(name, n)
	}
	for i := range list {
		list[i].Collection = info.Name
	}
	meta := table.New("name", "value")
	for _, name := range slices.Sorted(maps.Keys(info.Meta)) {
		meta.Add(name, info.Meta[name])
	}
	sections := []table.Section{
		command.CollectionsTable(c.All, info).As("collection", ""),
		meta.As("meta", "Meta"),
		attributes.As("attributes", "Attributes"),
	}
	if !c.All {
		return a.Report(append(sections,
			c.indexesTable(list, map[string]int{info.Name: info.Rows}).As("indexes", "Indexes"),
			byLabel.As("labels", title))...)
	}
	sections = append(sections,
		indexes.IndexTable(list...).As("indexes", "Indexes"),
		indexes.LabelsTable(list...).As("approximate", "Approximate labels of training points"),
		indexes.TreeTable(list...).As("trees", indexes.TreeTitle),
		byLabel.As("labels", title))
	for _, i := range list {
		sections = append(sections,
			indexes.CurveTable(i.Curve, true).As("curve "+i.Name, indexes.CurveTitle(i)),
			indexes.SettingsTable(i, indexes.ShownSettings).As(
				"settings "+i.Name, i.Name+": "+indexes.SettingsTitle(i)),
			indexes.TrialsTable(i, indexes.ShownSettings).As("trials "+i.Name, i.Name+": "+indexes.TrialsTitle(i)),
			indexes.MembersTable(i).As("members "+i.Name, i.Name+": "+indexes.MembersTitle(i)))
	}
	return a.Report(sections...)
}

// LabelsTable counts the rows of each label, or of the most frequent ones.
func (c *Stats) labelsTable(s *db.Snapshot) (t *table.Table, title string, err error) {
	counts, err := s.Collection(c.Collection).Labels()
	if err != nil {
		return nil, "", err
	}
	title = fmt.Sprintf("Labels: %d", len(counts))
	labels := slices.Sorted(maps.Keys(counts))
	if !c.All && len(labels) > shownLabels {
		slices.SortStableFunc(labels, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
		labels = labels[:shownLabels]
		title += fmt.Sprintf(", the %d most frequent (--all shows all)", shownLabels)
	}
	t = table.New("label", "rows")
	for _, label := range labels {
		t.Add(label, counts[label])
	}
	return t, title, nil
}

// best is the measured recall and time of the setting that a search uses by
// default; nothing for an index that was not tuned or does not reach it.
func best(i index.Info) (recall, micros any) {
	if r, m := report.Default(i); m > 0 {
		return r, m
	}
	return nil, nil
}
