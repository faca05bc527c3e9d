package rows

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Get shows rows.
type Get struct {
	command.InCollection
	Keys []string `arg:""`
}

func (c *Get) Run(a *command.App) error {
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		if a.Format == table.Text { // a row has more than fits on a line
			a.Format = table.Vertical
		}
		return printRows(a, info, true, func(yield func(db.Row, error) bool) {
			for _, key := range c.Keys {
				row, err := s.Collection(c.Collection).Get([]byte(key))
				if !yield(row, err) {
					return
				}
			}
		})
	})
}
