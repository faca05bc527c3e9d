package command

import (
	"fmt"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// The numberings of files: the number of the first feature.
const (
	FromZero = "0"
	FromOne  = "1"
)

// InfoOf describes a collection as it is now.
func InfoOf(d *db.DB, coll string) (info db.CollectionInfo, err error) {
	err = d.View(func(s *db.Snapshot) (err error) {
		info, err = s.Collection(coll).Info()
		return err
	})
	return info, err
}

// Scan calls f for every live row of a collection that passes a filter and stops where the
// caller interrupts.
func Scan(a *App, s *db.Snapshot, coll string, filter *db.Filter, f func(*db.Row) error) error {
	for row, err := range s.Collection(coll).Rows(a.Ctx, filter) {
		if err == nil {
			err = f(&row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CollectionsTable has a row for each collection, with all figures or those for people.
func CollectionsTable(all bool, infos ...db.CollectionInfo) *table.Table {
	columns := []string{"collection", "kind", "dim", "metric", "rows", "deleted", "indexes"}
	if all {
		columns = append(columns, "numbering", "unsealed")
	}
	t := table.New(columns...)
	for _, i := range infos {
		t.Add(i.Name, KindOf(i), max(i.Dim, i.Features), i.Metric.String(), i.Live, i.Rows-i.Live, len(i.Indexes),
			NumberingShown(i.Numbering), i.Rows-i.Sealed)
	}
	return t
}

// KindOf is the kind of a collection.
func KindOf(i db.CollectionInfo) string {
	switch {
	case i.Named:
		return "sparse, named"
	case i.Sparse:
		return "sparse"
	}
	return "dense"
}

// NumberingShown is a numbering as tables have it.
func NumberingShown(n string) any {
	if n == "" {
		return nil
	}
	return "from " + n
}

// NumberingOf is the number of a collection's first feature in files and queries.
func NumberingOf(info db.CollectionInfo) uint32 {
	if info.Numbering == FromOne {
		return 1
	}
	return 0
}

// WhereFlag restricts a command to the rows that pass a filter.
type WhereFlag struct {
	Where string `placeholder:"FILTER"`
}

// Filter returns the filter of the flag, nil without one.
func (f WhereFlag) Filter() (*db.Filter, error) {
	if f.Where == "" {
		return nil, nil
	}
	filter, err := db.ParseFilter(f.Where)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return filter, nil
}
