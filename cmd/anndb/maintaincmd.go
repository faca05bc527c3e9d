package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// maintainCmd brings indexes up to date.
type maintainCmd struct {
	inFile
	Share float64 `help:"Leave an index alone until this share of its rows has changed." default:"0"`
}

// Run executes the command.
func (c *maintainCmd) Run(a *app) error {
	if !(c.Share >= 0 && c.Share <= 1) {
		return usagef("--share %g (want 0 to 1)", c.Share)
	}
	return c.with(a, false, func(d *db.DB) error {
		o := db.MaintainOptions{Share: c.Share}
		steps, err := d.Maintain(db.WithProgress(a.ctx, a.building), &o)
		a.progress.End()
		t := table.New("collection", "index", "action", "rows", "seconds:2")
		for _, s := range steps {
			t.Add(s.Collection, s.Index, s.Action, s.Rows, s.Seconds)
		}
		if st, statsErr := d.Stats(); statsErr == nil {
			for _, x := range st.Indexes {
				if x.Error != "" {
					a.note("index %q of %q stays as it is: %s", x.Name, x.Collection, message(errors.New(x.Error)))
				}
			}
		}
		// The steps done stay done, whatever became of the next one.
		return errors.Join(a.Print(t), err)
	})
}

// watch writes a line of figures about the file at every interval, until the
// caller interrupts. It takes no lock: writers continue, and their steps are seen.
func (c *statsCmd) watch(a *app) error {
	for i := 1; ; i++ {
		t := table.New("time", "size", "free", "generation", "rows", "indexes", "fresh", "segments", "note")
		st, err := db.Peek(a.ctx, c.File)
		switch {
		case a.ctx.Err() != nil:
			return nil // which is how a watch ends
		case errors.Is(err, db.ErrBusy):
			t.Add(time.Now().Format(time.TimeOnly), nil, nil, nil, nil, nil, nil, nil, "written to all the time")
		case err != nil:
			return explain(c.File, err)
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
		case <-a.ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}
