package forestindex

import (
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/forest"
)

// TestDetailCheck: a manifest may have the limits of every value, and nothing beyond them.
func TestDetailCheck(t *testing.T) {
	check := func(change func(d *detail, m *kind.Manifest)) error {
		d := &detail{Trees: treesManifest{Params: forest.Params{Trees: 2, Depth: 3, LabelsK: 8}, Dim: 4}}
		m := &kind.Manifest{Dim: 4, Options: &Options{Trees: 2, Depth: 3}, Own: d}
		m.Info.Rows = 60
		change(d, m)
		return d.Check(m)
	}
	for name, c := range map[string]struct {
		set      func(d *detail, m *kind.Manifest, n int)
		min, max int
	}{
		"dimension": {func(_ *detail, m *kind.Manifest, n int) { m.Dim = n }, 1, kind.MaxDim},
		"trees": {func(d *detail, m *kind.Manifest, n int) {
			d.Trees.Params.Trees, m.Options.(*Options).Trees = n, n
		}, 1, maxTrees},
		"depth": {func(d *detail, m *kind.Manifest, n int) {
			d.Trees.Params.Depth, m.Options.(*Options).Depth = n, n
		}, 0, maxDepth},
		"trees of the options":    {func(_ *detail, m *kind.Manifest, n int) { m.Options.(*Options).Trees = n }, 2, 2},
		"depth of the options":    {func(_ *detail, m *kind.Manifest, n int) { m.Options.(*Options).Depth = n }, 3, 3},
		"labels of a leaf":        {func(d *detail, _ *kind.Manifest, n int) { d.Trees.Params.LabelsK = n }, 0, maxLabelsK},
		"dimension of the forest": {func(d *detail, _ *kind.Manifest, n int) { d.Trees.Dim = n }, 1, kind.MaxDim + 1},
		"direction width":         {func(d *detail, _ *kind.Manifest, n int) { d.Trees.DirW = n }, 0, kind.MaxDim + 1},
		"rotation":                {func(d *detail, _ *kind.Manifest, n int) { d.Rotation = n }, 0, kind.MaxDim + 1},
		"sketch width":            {func(d *detail, _ *kind.Manifest, n int) { d.SketchWidth = n }, 0, 4096},
		"sketch shift":            {func(d *detail, _ *kind.Manifest, n int) { d.SketchShift = uint(n) }, 0, 24},
		"neighbors":               {func(d *detail, _ *kind.Manifest, n int) { d.NeighborK = n }, 0, 1 << 16},
		"neighbor shift":          {func(d *detail, _ *kind.Manifest, n int) { d.NeighborShift = uint(n) }, 0, 24},
		"8-bit shift":             {func(d *detail, _ *kind.Manifest, n int) { d.QuantShift = uint(n) }, 0, 24},
		"list shift":              {func(d *detail, _ *kind.Manifest, n int) { d.ListShift = uint(n) }, 0, 24},
		"rows grown from":         {func(d *detail, _ *kind.Manifest, n int) { d.Grown = n }, 0, 60},
		"deleted rows":            {func(d *detail, _ *kind.Manifest, n int) { d.GrownDead = n }, 0, 60},
	} {
		for n, ok := range map[int]bool{c.min - 1: false, c.min: true, c.max: true, c.max + 1: false} {
			if err := check(func(d *detail, m *kind.Manifest) { c.set(d, m, n) }); (err == nil) != ok {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
}
