package forestindex

import (
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/forest"
)

// TestDetailCheck: a manifest may have the limits of every value, and nothing beyond them.
func TestDetailCheck(t *testing.T) {
	type stored struct {
		detail
		kind.Manifest
	}
	for name, c := range map[string]struct {
		set      func(x *stored, n int)
		min, max int
	}{
		"dimension":               {func(x *stored, n int) { x.Manifest.Dim = n }, 1, kind.MaxDim},
		"trees":                   {func(x *stored, n int) { x.Trees.Params.Trees = n }, 1, maxTrees},
		"depth":                   {func(x *stored, n int) { x.Trees.Params.Depth = n }, 1, maxDepth},
		"labels of a leaf":        {func(x *stored, n int) { x.Trees.Params.LabelsK = n }, 0, maxLeafNeighbors},
		"dimension of the forest": {func(x *stored, n int) { x.Trees.Dim = n }, 1, kind.MaxDim + 1},
		"direction width":         {func(x *stored, n int) { x.Trees.DirW = n }, 0, kind.MaxDim + 1},
		"rotation":                {func(x *stored, n int) { x.Rotation = n }, 0, kind.MaxDim + 1},
		"widest sketch":           {func(x *stored, n int) { x.SketchWidth, x.SketchSigns = n, n > 64 }, 0, 256},
		"sketch width":            {func(x *stored, n int) { x.SketchWidth = n }, 64, 64},
		"sketch shift":            {func(x *stored, n int) { x.SketchShift = uint(n) }, 0, 24},
		"neighbors":               {func(x *stored, n int) { x.NeighborK = n }, 0, maxListNeighbors},
		"weight of the rest":      {func(x *stored, n int) { x.SketchRest = float32(n) }, 0, 1},
		"centers":                 {func(x *stored, n int) { x.Centers, x.SketchSigns, x.SketchWidth, x.CenterStep = n, n > 0, 64, 1 }, 0, 1},
	} {
		for n, ok := range map[int]bool{c.min - 1: false, c.min: true, c.max: true, c.max + 1: false} {
			x := &stored{}
			x.Trees = treesManifest{Params: forest.Params{Trees: 2, Depth: 3, LabelsK: 8}, Dim: 4, Points: 60}
			x.Manifest.Dim = 4
			c.set(x, n)
			if err := x.detail.Check(&x.Manifest, &kind.Segment{Rows: 60}); (err == nil) != ok {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
}

// must ends a test that has got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
