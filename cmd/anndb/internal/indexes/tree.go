package indexes

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/trees/budget"
)

// Tree shows a stored tree.
type Tree struct {
	command.InCollection
	Index string `arg:"" optional:""`
	Out   string `default:"txt" placeholder:"FILE"`
	command.ForceFlag
	Nodes    int      `default:"15" want:"0"`
	Depth    int      `default:"6" want:"0"`
	Features int      `default:"5" want:"1"`
	Class    []string `placeholder:"LABEL" sep:"none"`
}

// treeFormats are the ways to write a picture of a tree.
var treeFormats = map[string]func(*budget.Picture, io.Writer) error{
	"txt": (*budget.Picture).WriteText,
	"dot": (*budget.Picture).WriteDOT,
}

func (c *Tree) Run(a *command.App) error {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Out), "."))
	standard := format == ""
	if standard {
		format = c.Out
	}
	write := treeFormats[format]
	if write == nil {
		return command.Usagef("--out %q (want a name that ends in .dot or .txt, or one of these words)",
			c.Out)
	}
	out := c.Out
	if standard {
		out = command.Standard
	}
	mode, err := c.Allow(c.File, out)
	if err != nil {
		return err
	}
	var p *budget.Picture
	err = c.WithSnapshot(a, func(s *db.Snapshot) error {
		coll := s.Collection(c.Collection)
		index, err := c.tree(coll)
		if err != nil {
			return err
		}
		o := budget.PictureOptions{Features: c.Features, Nodes: c.Nodes, Depth: c.Depth}
		p, err = coll.TreePicture(index, &o, c.Class...)
		return err
	})
	if err != nil {
		return err
	}
	if standard {
		return write(p, a.W)
	}
	if err := command.WriteFile(c.Out, mode, func(w io.Writer) error { return write(p, w) }); err != nil {
		return fmt.Errorf("draw %s: %w", c.Out, err)
	}
	hidden := func(n budget.PictureNode) bool { return n.Leaf() || n.Hidden > 0 }
	shown := len(slices.DeleteFunc(slices.Clone(p.Nodes), hidden))
	return a.Done(table.One("picture decisions hidden", c.Out, shown, p.Hidden))
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
