package tools

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

type listOutput struct {
	Database    string      `json:"database"`
	Collections []described `json:"collections"`
	Notes       []string    `json:"notes,omitempty"`
}

type described struct {
	Name         string            `json:"name"`
	Rows         int               `json:"rows"`
	SearchableBy []string          `json:"searchable_by"`
	Attributes   map[string]any    `json:"attributes,omitempty"`
	Labels       map[string]int    `json:"labels,omitempty"`
	LabelCount   int               `json:"label_count,omitempty"`
	Indexes      []indexInfo       `json:"indexes,omitempty"`
	Keys         []string          `json:"keys,omitempty"`
	Meta         map[string]string `json:"meta,omitempty"`
}

type indexInfo struct {
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"`
	Predicts bool   `json:"predicts"`
	Default  bool   `json:"default"`
}

// list describes the collection of the call, or all.
func list(c *call, _ *where) (out listOutput, err error) {
	infos, err := c.state.Collections(c)
	if err != nil {
		return out, err
	}
	if c.info != nil {
		infos = []db.CollectionInfo{*c.info}
	}
	out = listOutput{Database: c.db, Collections: []described{}}
	for i := range infos[:min(len(infos), mostParts)] {
		one, err := describe(c, &infos[i])
		if err != nil {
			return out, err
		}
		out.Collections = append(out.Collections, one)
	}
	out.Collections, _, err = bounded(out.Collections)
	var more []string
	for _, info := range infos[len(out.Collections):] {
		more = append(more, info.Name)
	}
	if more != nil {
		out.Notes = []string{"list with collection describes: " + part(strings.Join(more, ", "), 0, mostText)}
	}
	return out, err
}

func describe(c *call, info *db.CollectionInfo) (out described, err error) {
	out = described{
		Name: info.Name, Rows: info.Live, SearchableBy: searchableBy(info), Meta: info.Meta,
		Attributes: map[string]any{},
	}
	for _, name := range info.Attributes[:min(len(info.Attributes), mostRows)] {
		out.Attributes[name] = nil
	}
	rows, read := c.state.Collection(info.Name), 0
	for r, err := range rows.Rows(c, nil) {
		if err != nil {
			return out, err
		}
		if read++; read > mostParts {
			break
		}
		if read <= 3 {
			out.Keys = append(out.Keys, string(r.Key))
		}
		for name, v := range r.Attributes {
			if example, ok := out.Attributes[name]; ok && example == nil {
				out.Attributes[name] = attributeShown(v)
			}
		}
	}
	if out.Labels, err = rows.Labels(c); err != nil {
		return out, err
	}
	out.LabelCount = len(out.Labels)
	byRows := slices.SortedFunc(maps.Keys(out.Labels), func(a, b string) int {
		return cmp.Or(cmp.Compare(out.Labels[b], out.Labels[a]), strings.Compare(a, b))
	})
	for _, rare := range byRows[min(len(byRows), mostParts):] {
		delete(out.Labels, rare)
	}
	indexes, err := rows.Indexes(c)
	for _, i := range indexes {
		out.Indexes = append(out.Indexes, indexInfo{i.Name, i.Kind, i.Predicts, i.Default})
	}
	return out, err
}
