package file

import (
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// watch writes a line of figures about the file at every interval, until the
// caller interrupts. It takes no lock: writers continue, and their steps are seen.
func (c *Stats) watch(a *command.App) error {
	for i := 1; ; i++ {
		t := table.New("time", "size", "free", "generation", "rows", "indexes", "fresh", "segments", "note")
		st, err := db.Peek(a.Ctx, c.File)
		switch {
		case a.Ctx.Err() != nil:
			return nil // which is how a watch ends
		case errors.Is(err, db.ErrLocked):
			t.Add(time.Now().Format(time.TimeOnly), nil, nil, nil, nil, nil, nil, nil, "written to all the time")
		case err != nil:
			return command.Explain(c.File, err)
		default:
			rows, fresh, segments := 0, 0, 0
			for _, x := range st.Collections {
				rows += x.Live
			}
			for _, x := range st.Indexes {
				fresh += x.Fresh
				segments += x.Segments
			}
			t.Add(time.Now().Format(time.TimeOnly), table.Size(st.FileBytes), table.Size(st.FreeBytes),
				st.Generation, rows, len(st.Indexes), fresh, segments, "")
		}
		if err := a.Print(t); err != nil {
			return fmt.Errorf("stats: %w", err)
		}
		if i == c.Times {
			return nil
		}
		select {
		case <-a.Ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}
