package rows

import (
	"context"
	"errors"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Copy copies the rows of a collection.
type Copy struct {
	command.InCollection
	To string `arg:""`
	command.WhereFlag
}

func (c *Copy) Run(a *command.App) error {
	return c.With(a, false, func(d *db.DB) error {
		n := 0
		err := d.View(func(s *db.Snapshot) error {
			info, err := s.Collection(c.Collection).Info()
			if err != nil {
				return err
			}
			to, err := d.Create(a.Ctx, c.To, info.Schema)
			if err != nil {
				return err
			}
			o := db.LoadOptions{Insert: true}
			o.Progress = func(_ string, done, _ int) { a.Progress.Update("copy", done, info.Live) }
			n, err = to.Load(a.Ctx, s.Collection(c.Collection).Rows(a.Ctx, c.Where.Filter), &o)
			if err != nil { // half a copy is none
				err = errors.Join(err, d.Drop(context.WithoutCancel(a.Ctx), c.To))
			}
			return err
		})
		a.Progress.End()
		if err != nil {
			return err
		}
		return a.Done(table.One("collection to rows", c.Collection, c.To, n))
	})
}
