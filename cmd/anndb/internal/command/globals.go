package command

import (
	"cmp"
	"time"

	"github.com/anndb/anndb/internal/table"
)

// Globals are the flags of all commands.
type Globals struct {
	JSON    bool          `help:"Write results, and errors, as JSON."`
	Format  string        `help:"How to write results: table, vertical (one value a line), markdown, csv, json or jsonl (an object a line); table if not given." enum:",table,vertical,markdown,csv,json,jsonl" default:"" placeholder:"FORMAT"`
	Quiet   bool          `short:"q" help:"Show no progress, no summaries, and no results of commands that write."`
	Workers int           `help:"Goroutines for parallel work; 0 for all processors." default:"0"`
	Wait    time.Duration `help:"How long to wait for a file that another process uses, such as 30s; 1s if not given." default:"0" placeholder:"TIME"`
}

// Verify refuses values that make no sense.
func (g Globals) Verify() error {
	switch {
	case g.JSON && g.Format != "" && g.Format != string(table.JSON):
		return Usagef("--json and --format %s exclude each other", g.Format)
	case g.Workers < 0:
		return Usagef("--workers must not be negative")
	case g.Wait < 0:
		return Usagef("--wait must not be negative")
	}
	return nil
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
