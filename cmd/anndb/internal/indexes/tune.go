package indexes

import (
	"cmp"
	"math"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/optionflags"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/trees/budget"
)

// labelModel is the name of a label model whose command names none.
const labelModel = "labels"

// Tune tunes a label model, or the fusion of searches, and shows all that was measured.
type Tune struct {
	command.InCollection
	Index    string `arg:"" optional:"" default:"labels"`
	Kind     string `enum:"lcif,sbt,pt,at,auto-labels" default:"lcif" placeholder:"KIND"`
	Settings int    `default:"10" want:"0"`

	pairFlags `embed:"" group:"Searches of texts and vectors:"`
	kong.Plugins
	flags *optionflags.Set
}

// Prepare makes the flags of the options.
func (c *Tune) Prepare() {
	c.flags, c.Plugins = optionflags.New(
		optionflags.Source{Options: &index.LCIF{}, Kinds: kindLCIF, Without: []string{"Params", "Cut"}},
		optionflags.Source{Options: &index.Trees{}, Kinds: treeKinds, Group: "Budgeted trees:"},
		optionflags.Source{Options: &index.Auto{}, Kinds: kindAuto, Group: "Label models, several kinds together:"},
	)
}

func (c *Tune) Run(a *command.App) error {
	if c.Pairs != "" {
		if c.flags.Any() || c.Index != labelModel {
			return command.Usagef("--pairs tunes searches: " +
				"it goes without the name and the flags of a label model")
		}
		return c.tunePairs(a, c.InCollection)
	}
	o, err := filled(c.flags, c.Kind)
	if err != nil {
		return err
	}
	trees, isTrees := o.(*index.Trees)
	if isTrees && trees.Grid == nil {
		trees.Grid = &budget.Grid{}
	}
	if err := o.Check(-1); err != nil {
		return refused(o, err)
	}
	return c.With(a, false, func(d *db.DB) error {
		if isTrees {
			info, err := d.Collection(c.Collection).Info()
			if err != nil {
				return err
			}
			completeGrid(trees, max(1, info.Dim, info.Features))
		}
		return build(a, d, c.Collection, c.Index, o, cmp.Or(c.Settings, math.MaxInt))
	})
}

// completeGrid fills in the usual values of what is neither given nor has values to choose from, for so
// many features.
func completeGrid(o *index.Trees, features int) {
	usual, g := budget.DefaultGrid(budget.Kind(o.Kind), features), o.Grid
	if len(g.Budgets) == 0 && o.Budget == 0 {
		g.Budgets = usual.Budgets
	}
	if len(g.Costs) == 0 && o.Params.BAC.C == 0 {
		g.Costs = usual.Costs
	}
	if len(g.Positives) == 0 && o.Params.MinPositive == 0 {
		g.Positives = usual.Positives
	}
	if len(g.Thresholds) == 0 && o.Params.Threshold == 0 {
		g.Thresholds = usual.Thresholds
	}
}
