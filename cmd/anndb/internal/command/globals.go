package command

import (
	"cmp"
	"time"

	"github.com/anndb/anndb/internal/table"
)

// Globals are the flags of all commands.
type Globals struct {
	JSON    bool
	Format  string        `enum:"${formats}" default:"" placeholder:"FORMAT" without:"json"`
	Quiet   bool          `short:"q"`
	Workers int           `default:"0" want:"0"`
	Wait    time.Duration `default:"0" want:"0s" placeholder:"TIME"`
}

// OutputFormat is how results are written.
func (g Globals) OutputFormat() table.Format {
	if g.JSON {
		return table.JSON
	}
	return table.Format(cmp.Or(g.Format, string(table.Text)))
}

// Over returns the flags with those of other where they are not given.
func (g Globals) Over(other Globals) Globals {
	if !g.JSON && g.Format == "" {
		g.JSON, g.Format = other.JSON, other.Format
	}
	g.Quiet = g.Quiet || other.Quiet
	g.Workers, g.Wait = cmp.Or(g.Workers, other.Workers), cmp.Or(g.Wait, other.Wait)
	return g
}
