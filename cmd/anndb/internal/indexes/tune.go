package indexes

import (
	"math"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
)

// Tune tunes a label model and shows all that was measured.
type Tune struct {
	command.InCollection
	Index    string `arg:"" optional:"" default:"labels"`
	Kind     string `enum:"lcif,sbt,pt,at" default:"lcif" placeholder:"KIND"`
	Seed     uint64 `default:"0"`
	Settings int    `default:"10"`

	tuneFlags `embed:""`
	treeFlags `embed:"" group:"Budgeted trees:"`
	gridFlags `embed:"" group:"Budgeted trees:"`

	Threshold *float64 `group:"Budgeted trees:" placeholder:"M"`
}

// tree is the tree to tune, over so many features.
func (c *Tune) tree(features int) treeBuild {
	return treeBuild{c.Kind, c.treeFlags, c.gridFlags, c.tuneFlags, c.Threshold, features}
}

func (c *Tune) Run(a *command.App) error {
	switch {
	case c.Settings < 0:
		return command.Usagef("--settings must not be negative")
	case IsTree(c.Kind) && c.tuneFlags.lcifOnly():
		return command.Usagef("--objective, --paper, --feature-share and --neighbors go with --kind lcif")
	case !IsTree(c.Kind) && (c.treeFlags != treeFlags{} || c.gridFlags.given() || c.Threshold != nil):
		return command.Usagef("--budget, --cost, --rounds, --min-positive, --raw, --budgets, --costs, " +
			"--threshold and " +
			"--thresholds go with --kind sbt, pt and at")
	}
	var o db.IndexOptions
	var err error
	if IsTree(c.Kind) {
		// Wrong flags are found before the file is opened.
		_, err = c.tree(1).index(c.Seed)
	} else {
		var model db.LCIF
		model, err = modelFlags{}.lcif(c.tuneFlags)
		model.Seed = c.Seed
		o = &model
	}
	if err != nil {
		return err
	}
	n := c.Settings
	if n == 0 {
		n = math.MaxInt
	}
	return c.With(a, false, func(d *db.DB) error {
		if IsTree(c.Kind) {
			info, err := d.Collection(c.Collection).Info()
			if err != nil {
				return err
			}
			if o, err = c.tree(max(1, info.Dim, info.Features)).index(c.Seed); err != nil {
				return err
			}
		}
		return build(a, d, c.Collection, c.Index, o, n)
	})
}
