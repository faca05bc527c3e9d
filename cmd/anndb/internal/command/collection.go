package command

import (
	"fmt"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/table"
)

// The numberings of files: the number of the first feature.
const (
	FromZero = "0"
	FromOne  = "1"
)

// CollectionsTable has a row for each collection, with all figures or those for people.
func CollectionsTable(all bool, infos ...db.CollectionInfo) *table.Table {
	columns := []string{"collection", "kind", "dim", "metric", "rows", "deleted", "indexes"}
	if all {
		columns = append(columns, "numbering", "unsealed")
	}
	t := table.New(columns...)
	for _, i := range infos {
		metric, dim := i.Metric.String(), max(i.Dim, i.Features)
		switch {
		case i.Text != nil && i.Dim > 0:
			metric, dim = metric+", bm25", i.Dim
		case i.Text != nil:
			metric = "bm25"
		}
		if i.Text != nil && i.Text.Pairs > 0 {
			metric += fmt.Sprintf(", pairs from %d rows", i.Text.Pairs)
		}
		if i.Weight > 0 {
			metric += fmt.Sprintf(", weight %.2g", i.Weight)
		}
		t.Add(i.Name, KindOf(i), dim, metric, i.Live, i.Rows-i.Live, len(i.Indexes),
			NumberingShown(i.Numbering), i.Rows-i.Sealed)
	}
	return t
}

// KindOf is the kind of a collection.
func KindOf(i db.CollectionInfo) string {
	switch {
	case i.Text != nil && i.Dim > 0:
		return "texts and vectors, " + i.Text.Analyzer
	case i.Text != nil:
		return "texts, " + i.Text.Analyzer
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
	Where Filter `placeholder:"FILTER"`
}

// Filter is a flag's filter, nil if there is none.
type Filter struct{ *filter.Filter }

// UnmarshalText reads a filter.
func (f *Filter) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		f.Filter, err = filter.Parse(string(text))
	}
	return err
}
