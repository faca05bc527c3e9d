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
	hitFlags
	K int `short:"k" default:"0" want:"0"`
}

func (c *Range) Run(a *command.App) error {
	s := Search{
		InCollection: c.InCollection, QueryFlags: c.QueryFlags, WhereFlag: c.WhereFlag, K: c.K,
		hitFlags: c.hitFlags, Radius: &c.Distance,
	}
	return s.Run(a)
}
