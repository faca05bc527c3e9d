package indexes

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/trees/budget"
)

// Tree shows a stored tree.
type Tree struct {
	command.InCollection
	Index    string   `arg:"" optional:""`
	DOT      bool     `name:"dot"`
	Nodes    int      `default:"15" want:"0"`
	Depth    int      `default:"6" want:"0"`
	Features int      `default:"5" want:"1"`
	Class    []string `placeholder:"LABEL" sep:"none"`
}

func (c *Tree) Run(a *command.App) error {
	return c.WithSnapshot(a, func(s *db.Snapshot) error {
		coll := s.Collection(c.Collection)
		index, err := c.tree(coll)
		if err != nil {
			return err
		}
		o := budget.PictureOptions{Features: c.Features, Nodes: c.Nodes, Depth: c.Depth}
		p, err := coll.TreePicture(index, &o, c.Class...)
		switch {
		case err != nil:
			return err
		case c.DOT:
			return p.WriteDOT(a.W)
		}
		return p.WriteText(a.W)
	})
}

// tree returns the index that the flags name, or else the default one if it is a tree, or the only tree.
func (c *Tree) tree(coll db.Collection) (string, error) {
	if c.Index != "" {
		return c.Index, nil
	}
	list, err := coll.Indexes()
	if err != nil {
		return "", err
	}
	trees := slices.DeleteFunc(list, func(i index.Info) bool { return !IsTree(i.Kind) })
	if i := slices.IndexFunc(trees, func(i index.Info) bool { return i.Default }); i >= 0 {
		return trees[i].Name, nil
	}
	switch len(trees) {
	case 0:
		return "", fmt.Errorf("collection %q has no tree: make one with anndb build --kind sbt, pt or at",
			c.Collection)
	case 1:
		return trees[0].Name, nil
	}
	return "", command.Usagef("collection %q has %d trees: name one", c.Collection, len(trees))
}
