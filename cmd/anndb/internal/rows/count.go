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
	filter, err := c.Filter()
	if err != nil {
		return err
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		n, err := s.Collection(info.Name).Count(a.Ctx, filter)
		if err != nil {
			return err
		}
		t := table.New("collection", "rows")
		t.Add(info.Name, n)
		return a.Print(t)
	})
}
