package labels

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Counts that follow additions and deletions through patches are those of the
// rows that are left, counted afresh, and so are their powers; a base that has
// taken its patch in goes on alike.
func TestPatchedFollowsChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, l := rapid.IntRange(1, 24).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "m"), rapid.IntRange(1, 4).Draw(t, "l")
		x, y := drawFeatures(t, n, m), mustSets(t, drawSets(t, "label", n, l), l)
		// Features and labels come up one after the other.
		of := func(rows []int, upTo int) *FeatureLabels {
			c := mustCount(t, SelectRows(x, rows), y.Select(rows), 1)
			m, l := min(m, upTo), min(l, upTo)
			for f := m; f < c.Features(); f++ {
				if row, _ := c.row(f); len(row) > 0 || c.Square[f] != (Uint128{}) {
					m = f + 1
				}
			}
			for j, rows := range c.Rows {
				if rows > 0 {
					l = max(l, j+1)
				}
			}
			c.Ptr, c.Square, c.Rows = c.Ptr[:m+1], c.Square[:m], c.Rows[:l]
			return c
		}
		var in []int
		for i := range n / 2 {
			in = append(in, i)
		}
		first := of(in, 0)
		p := &Patched{Base: first, Patch: &FeatureLabels{Ptr: make([]uint64, first.Features()+1), Square: first.Square, Rows: first.Rows}}
		for round := range rapid.IntRange(1, 5).Draw(t, "rounds") {
			var add, sub, left []int
			for i := range n {
				member := slices.Contains(in, i)
				switch change := rapid.IntRange(0, 3).Draw(t, "change") == 0; {
				case change && member:
					sub = append(sub, i)
				case change:
					add = append(add, i)
					left = append(left, i)
				case member:
					left = append(left, i)
				}
			}
			in = left
			patch, err := p.Change(of(add, round), of(sub, 0), round%3)
			must(t, err)
			p = &Patched{p.Base, patch}
			want := of(in, 0)
			// Shapes only grow.
			for want.Features() < patch.Features() {
				want.Ptr, want.Square = append(want.Ptr, uint64(len(want.Label))), append(want.Square, Uint128{})
			}
			for want.Labels() < patch.Labels() {
				want.Rows = append(want.Rows, 0)
			}
			whole := p.Whole()
			for _, s := range []*FeatureLabels{whole, want} {
				s.Label, s.Sum = append([]uint32{}, s.Label...), append([]int64{}, s.Sum...)
			}
			if !reflect.DeepEqual(whole, want) {
				t.Fatalf("whole: %+v, want %+v", whole, want)
			}
			for f := range patch.Features() {
				pairs, sums := patch.row(f)
				for i, j := range pairs {
					base, had := p.Base.row(f)
					if at, ok := slices.BinarySearch(base, j); ok && had[at] == sums[i] || !ok && sums[i] == 0 {
						t.Fatalf("feature %d, label %d: patched without need", f, j)
					}
				}
			}
			samePowers(t, p, want, rapid.SampledFrom([]float64{0.5, 1, 1.7, 2, 6}).Draw(t, "beta"))
			if rapid.Bool().Draw(t, "take in") {
				p = &Patched{whole, &FeatureLabels{Ptr: make([]uint64, whole.Features()+1), Square: whole.Square, Rows: whole.Rows}}
			}
		}
		// What is not there cannot be taken away.
		if c := of([]int{0}, 0); len(c.Label) > 0 && len(in) == 0 {
			if _, err := p.Change(of(nil, 0), c, 1); !errors.Is(err, ErrInput) {
				t.Fatalf("taken away twice: %v", err)
			}
		}
	})
}

// samePowers compares the powers of patched counts with those of whole ones.
func samePowers(t *rapid.T, p *Patched, want *FeatureLabels, beta float64) {
	a, err1 := p.Patch.Powers(beta)
	b, err2 := want.Powers(beta)
	must(t, errors.Join(err1, err2))
	a.Parts = []Pairs{p.Base.pairs(a.Beta), a.Parts[0]}
	for _, m := range append(a.Parts, b.Parts...) {
		must(t, m.Validate(want.Labels()))
	}
	for f := range want.Features() {
		for l := range want.Labels() {
			if x, y := a.At(f, l), b.At(f, l); x != y {
				t.Fatalf("feature %d, label %d to the %g: %g, want %g", f, l, beta, x, y)
			}
		}
	}
}
