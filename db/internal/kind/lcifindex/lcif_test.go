package lcifindex

import (
	"math"
	"testing"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query/lcif"
)

// TestDetailCheck: a manifest of a dense collection may have the limits of every value, and nothing
// beyond them.
func TestDetailCheck(t *testing.T) {
	check := func(change func(d *detail, m *kind.Manifest)) error {
		d := &detail{Features: 4, Labels: 3, Segments: []segment{{Object: 1, Rows: 60}}}
		m := &kind.Manifest{Dim: 4, Options: &index.LCIF{Params: &lcif.Params{K: 1}}, Own: d}
		m.Info.Rows = 60
		change(d, m)
		return d.Check(m, nil)
	}
	const none = math.MaxInt32 - 1 // no limit that a test can reach
	for name, c := range map[string]struct {
		set      func(d *detail, m *kind.Manifest, n int)
		min, max int
	}{
		"labels":             {func(d *detail, _ *kind.Manifest, n int) { d.Labels = n }, 1, none},
		"features":           {func(d *detail, _ *kind.Manifest, n int) { d.Features = n }, 4, 4},
		"dimension":          {func(d *detail, m *kind.Manifest, n int) { d.Features, m.Dim = n, n }, 1, kind.MaxDim},
		"rows of a segment":  {func(d *detail, _ *kind.Manifest, n int) { d.Segments[0].Rows = n }, 60, 60},
		"rows of the index":  {func(_ *detail, m *kind.Manifest, n int) { m.Info.Rows = n }, 60, 60},
		"deleted rows":       {func(d *detail, _ *kind.Manifest, n int) { d.Segments[0].Dead = n }, 0, 60},
		"rows learned from":  {func(d *detail, _ *kind.Manifest, n int) { d.Learned = n }, 0, none},
		"deleted rows of it": {func(d *detail, _ *kind.Manifest, n int) { d.LearnedDead = n }, 0, none},
	} {
		for n, ok := range map[int]bool{c.min - 1: false, c.min: true, c.max: true, c.max + 1: c.max == none} {
			if err := check(func(d *detail, m *kind.Manifest) { c.set(d, m, n) }); (err == nil) != ok {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
	if err := check(func(_ *detail, m *kind.Manifest) { m.Options = &index.LCIF{} }); err == nil {
		t.Error("a model without parameters is valid")
	}
}

// TestPatchFull: pairs are rewritten when half of them have changed, or when steps touch so many that
// the patch costs more than rewriting all, but never for few.
func TestPatchFull(t *testing.T) {
	for _, c := range []struct {
		changed, touched, base int
		full                   bool
	}{
		{patchLeast, patchLeast, 10, false},
		{patchLeast + 1, 0, 10, true},
		{50_000, 0, 100_000, false},
		{50_001, 0, 100_000, true},
		{20_000, 2000, 100_000, false}, // 20,000² = 2 · 2,000 · 100,000
		{20_001, 2000, 100_000, true},
	} {
		if full := patchFull(c.changed, c.touched, c.base); full != c.full {
			t.Errorf("%+v: %v", c, full)
		}
	}
}
