package queries

import (
	"fmt"

	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// hitTable is the table of a search.
type hitTable struct {
	cmd    *Search
	s      *db.Snapshot
	out    *table.Stream
	labels bool // some row has labels
	people bool // who need no numbers of rows
}

func (t *hitTable) columns() []string {
	columns := []string{"query", "rank", "key"}
	if !t.people {
		columns = append(columns, "row")
	}
	columns = append(columns, "distance:4")
	if t.labels {
		columns = append(columns, "labels")
	}
	if t.cmd.Payload {
		columns = append(columns, "payload")
	}
	if t.cmd.Values {
		columns = append(columns, "attributes", "expires")
	}
	if t.cmd.Explain {
		columns = append(columns, "explanation")
	}
	return columns
}

// add writes the hits of a query.
func (t *hitTable) add(query string, hits []db.Hit, o table.Output) error {
	for rank, h := range hits {
		values := []any{query, rank + 1, string(h.Key)}
		if !t.people {
			values = append(values, h.Row)
		}
		values = append(values, h.Distance)
		if t.labels || t.cmd.Payload || t.cmd.Values {
			row, err := t.s.Collection(t.cmd.Collection).GetRow(h.Row)
			if err != nil {
				return err
			}
			if t.labels {
				values = append(values, row.Labels)
			}
			if t.cmd.Payload {
				values = append(values, string(row.Payload))
			}
			if t.cmd.Values {
				shown, err := rows.AttributesShown(row.Attributes, o)
				if err != nil {
					return fmt.Errorf("row %q: %w", row.Key, err)
				}
				values = append(values, shown, rows.ExpiryShown(row.ExpiresAt))
			}
		}
		switch {
		case t.cmd.Explain && h.Why == nil:
			values = append(values, nil)
		case t.cmd.Explain && o.InJSON():
			values = append(values, newReasonJSON(h.Why, 0))
		case t.cmd.Explain:
			values = append(values, h.Why.Text)
		}
		t.out.Add(values...)
	}
	return t.out.Err()
}
