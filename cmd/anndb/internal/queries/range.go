package queries

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
)

// Range finds all rows within a distance.
type Range struct {
	command.InCollection
	Distance float64 `arg:""`
	input.QueryFlags
	command.WhereFlag
}

func (c *Range) Run(a *command.App) error {
	s := Search{
		InCollection: c.InCollection, QueryFlags: c.QueryFlags, WhereFlag: c.WhereFlag, Radius: &c.Distance,
	}
	return s.Run(a)
}
