package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
)

// section is one table of a result with several.
type section struct {
	key   string // its name in JSON
	title string // the line above it, for people
	table *table.Table
}

// report writes tables one below the other, and as one object in JSON, so
// that a program reads one value from one command. Tables without rows are
// left out for people.
func (a *app) report(sections ...section) error {
	if a.format == table.JSON {
		return a.reportJSON(sections)
	}
	first := true
	for _, s := range sections {
		if s.table.Len() == 0 {
			continue
		}
		if !first {
			fmt.Fprintln(a.out)
		}
		first = false
		if s.title != "" {
			a.title("%s", s.title)
		}
		if err := a.table(s.table); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) reportJSON(sections []section) error {
	var b bytes.Buffer
	b.WriteString("{")
	for i, s := range sections {
		if i > 0 {
			b.WriteString(",")
		}
		key, err := json.Marshal(s.key)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s: ", key)
		if err := s.table.Write(&b, table.JSON); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("\n}\n")
	_, err := a.out.Write(b.Bytes())
	return err
}

// size is a number of bytes as people read it.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for f >= unit && i < 3 {
		f /= unit
		i++
	}
	return fmt.Sprintf("%.1f %s", f, []string{"KiB", "MiB", "GiB", "TiB"}[i])
}
