package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// maxHead bounds the rows of a preview, which are held in memory.
const maxHead = 10000

// shortValues is how many values of a vector a preview shows.
const shortValues = 6

// preview shows the first rows of a file as they would be stored.
func (c *importCmd) preview(a *app, in *input, r *batchReader) error {
	r.size, r.bySize = c.Head, false
	rows, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	if len(rows) == 0 {
		return c.nothing(in)
	}
	info := db.CollectionInfo{Schema: r.into.Schema}
	info.Numbering = in.numbering(info.Named)
	attributes := map[string]bool{}
	for i := range rows {
		info.Expires = info.Expires || !rows[i].ExpiresAt.IsZero()
		for name := range rows[i].Attributes {
			attributes[name] = true
		}
	}
	info.Attributes = slices.Sorted(maps.Keys(attributes))
	values := func(r *db.Row) any {
		if a.People() && len(r.Vector) > shortValues {
			return shortVector(r.Vector)
		}
		return valuesShown(r, info, a.Output)
	}
	err = printRowsOf(a, info, values, func(add func(*db.Row) error) error {
		for i := range rows {
			if err := add(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	kind := fmt.Sprintf("vectors of %d dimensions", in.Dim)
	if in.Kind == dataset.Sparse {
		kind = "sparse rows"
	}
	if in.Member != "" {
		kind = fmt.Sprintf("array %q, %s", in.Member, kind)
	}
	a.summary("%s is read as %s: %s; nothing was written", in.path, in.Format, kind)
	return nil
}

// shortVector shows the first values of a vector.
func shortVector(v []float32) string {
	var parts []string
	for _, x := range v[:shortValues] {
		parts = append(parts, float(x))
	}
	return fmt.Sprintf("[%s, … %d values]", strings.Join(parts, ", "), len(v))
}
