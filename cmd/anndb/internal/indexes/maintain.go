package indexes

import (
	"errors"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Maintain brings indexes up to date.
type Maintain struct {
	command.InFile
	Share float64 `default:"0" want:"0 1"`
}

func (c *Maintain) Run(a *command.App) error {
	return c.With(a, false, func(d *db.DB) error {
		steps, err := d.Maintain(a.Ctx, c.Share, a.Run())
		a.Progress.End()
		t := table.New("collection", "index", "action", "rows", "seconds:2")
		for _, s := range steps {
			t.Add(s.Collection, s.Index, s.Action, s.Rows, s.Seconds)
		}
		if st, statsErr := d.Stats(); statsErr == nil {
			for _, x := range st.Indexes {
				if x.Error != "" {
					a.Note("index %q of %q stays as it is: %s", x.Name, x.Collection, command.Message(errors.New(x.Error)))
				}
			}
		}
		// The steps done stay done, whatever became of the next one.
		return errors.Join(a.Done(t), err)
	})
}
