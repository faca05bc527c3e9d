package main

import (
	"fmt"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// The numberings of files: the number of the first feature.
const (
	fromZero = "0"
	fromOne  = "1"
)

// infoOf describes a collection as it is now.
func infoOf(d *db.DB, coll string) (info db.CollectionInfo, err error) {
	err = d.View(func(s *db.Snapshot) (err error) {
		info, err = s.Collection(coll).Info()
		return err
	})
	return info, err
}

// scan calls f for every live row of a collection that passes a filter and stops where the
// caller interrupts.
func scan(a *app, s *db.Snapshot, coll string, filter *db.Filter, f func(*db.Row) error) error {
	for row, err := range s.Collection(coll).Rows(a.ctx, filter) {
		if err == nil {
			err = f(&row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collectionsTable has a row for each collection, with all figures or those for people.
func collectionsTable(all bool, infos ...db.CollectionInfo) *table.Table {
	columns := []string{"collection", "kind", "dim", "metric", "rows", "deleted", "indexes"}
	if all {
		columns = append(columns, "numbering", "unsealed")
	}
	t := table.New(columns...)
	for _, i := range infos {
		t.Add(i.Name, kindOf(i), max(i.Dim, i.Features), i.Metric.String(), i.Live, i.Rows-i.Live, len(i.Indexes),
			numberingShown(i.Numbering), i.Rows-i.Sealed)
	}
	return t
}

// kindOf is the kind of a collection.
func kindOf(i db.CollectionInfo) string {
	switch {
	case i.Named:
		return "sparse, named"
	case i.Sparse:
		return "sparse"
	}
	return "dense"
}

// numberingShown is a numbering as tables have it.
func numberingShown(n string) any {
	if n == "" {
		return nil
	}
	return "from " + n
}

// numberingOf is the number of a collection's first feature in files and queries.
func numberingOf(info db.CollectionInfo) uint32 {
	if info.Numbering == fromOne {
		return 1
	}
	return 0
}

// whereFlag restricts a command to the rows that pass a filter.
type whereFlag struct {
	Where string `help:"Only rows that pass this filter, as in: price < 20 and label in (boot, bag) and not key prefix \"tmp/\"." placeholder:"FILTER"`
}

// filter returns the filter of the flag, nil without one.
func (f whereFlag) filter() (*db.Filter, error) {
	if f.Where == "" {
		return nil, nil
	}
	filter, err := db.ParseFilter(f.Where)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return filter, nil
}
