package rows

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Count counts rows.
type Count struct {
	command.InCollection
	command.WhereFlag
}

func (c *Count) Run(a *command.App) error {
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		n, err := s.Collection(info.Name).Count(a.Ctx, c.Where.Filter)
		if err != nil {
			return err
		}
		return a.Print(table.One("collection rows", info.Name, n))
	})
}
