package lcifindex

import (
	"math"
	"testing"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/query/lcif"
)

// TestDetailCheck: a segment of a dense collection may have the limits of every value, and nothing
// beyond them.
func TestDetailCheck(t *testing.T) {
	const none = math.MaxInt32 - 1 // no limit that a test can reach
	for name, c := range map[string]struct {
		first    int
		set      func(d *detail, m *kind.Manifest, n int)
		min, max int
	}{
		"labels":            {0, func(d *detail, _ *kind.Manifest, n int) { d.Labels = n }, 1, none},
		"further labels":    {60, func(d *detail, _ *kind.Manifest, n int) { d.Labels = n }, 0, none},
		"features":          {0, func(d *detail, _ *kind.Manifest, n int) { d.Features = n }, 4, 4},
		"further features":  {60, func(d *detail, _ *kind.Manifest, n int) { d.Features = n }, 4, 4},
		"dimension":         {0, func(d *detail, m *kind.Manifest, n int) { d.Features, m.Dim = n, n }, 1, kind.MaxDim},
		"inverted index of": {0, func(d *detail, _ *kind.Manifest, n int) { d.Index = &postingsindex.Scalars{Cols: n} }, 0, 4},
	} {
		for n, ok := range map[int]bool{c.min - 1: false, c.min: true, c.max: true, c.max + 1: c.max == none} {
			d := &detail{Features: 4, Labels: 3}
			m := &kind.Manifest{Dim: 4, Options: &index.LCIF{Params: &lcif.Params{K: 1}}}
			c.set(d, m, n)
			if err := d.Check(m, &kind.Segment{First: c.first}); (err == nil) != ok {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
	bare := &kind.Manifest{Dim: 4, Options: &index.LCIF{}}
	if err := (&detail{Features: 4, Labels: 3}).Check(bare, &kind.Segment{}); err == nil {
		t.Error("a model without parameters is valid")
	}
}
