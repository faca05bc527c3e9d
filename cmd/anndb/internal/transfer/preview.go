package transfer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// shortValues is how many values of a vector a preview shows.
const shortValues = 6

// preview shows the first rows of a file as they would be stored.
func (c *Import) preview(a *command.App, in *input.File, r *batchReader) error {
	r.size = c.Head
	first, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	if len(first) == 0 {
		return c.nothing(in)
	}
	info := db.CollectionInfo{Schema: r.into.Schema}
	info.Numbering = in.Numbering(info.Named)
	attributes := map[string]bool{}
	for i := range first {
		info.Expires = info.Expires || !first[i].ExpiresAt.IsZero()
		for name := range first[i].Attributes {
			attributes[name] = true
		}
	}
	info.Attributes = slices.Sorted(maps.Keys(attributes))
	values := func(r *db.Row) any {
		if a.People() && len(r.Vector) > shortValues {
			return shortVector(r.Vector)
		}
		return rows.ValuesShown(r, info, a.Output)
	}
	if info.Text != nil && info.Dim == 0 {
		values = nil
	}
	err = rows.Print(a, info, values, func(yield func(db.Row, error) bool) {
		for _, r := range first {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	kind := fmt.Sprintf("vectors of %d dimensions", in.Dim)
	switch in.Kind {
	case dataset.Sparse:
		kind = "sparse rows"
	case dataset.Text:
		kind = "texts for the analyzer " + info.Text.Analyzer
		if info.Dim > 0 {
			kind += fmt.Sprintf(", with vectors of %d dimensions", info.Dim)
		}
	}
	if in.Member != "" {
		kind = fmt.Sprintf("array %q, %s", in.Member, kind)
	}
	a.Summary("%s is read as %s: %s; nothing was written", in.Path, in.Format, kind)
	return nil
}

// shortVector shows the first values of a vector.
func shortVector(v []float32) string {
	var parts []string
	for _, x := range v[:shortValues] {
		parts = append(parts, rows.Float(x))
	}
	return fmt.Sprintf("[%s, … %d values]", strings.Join(parts, ", "), len(v))
}
