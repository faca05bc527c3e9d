package arrays

import (
	"cmp"
	"slices"

	"github.com/anndb/anndb/codec"
)

// Run is the blocks [From, To) of a section of an object. If both are zero, it is all blocks of
// the section. It is part of manifests.
type Run struct {
	Object   uint64
	From, To uint32
}

// Whole reports whether the run is all blocks of the section.
func (r Run) Whole() bool { return r.From == 0 && r.To == 0 }

// MaxRun bounds the block numbers that a run may claim before any of them is read.
const MaxRun = 1 << 24

// ValidRuns reports whether every block occurs at most once in a section, so that there are no
// more runs than blocks, and whether a run of all blocks is the only run.
func ValidRuns(all map[codec.Kind][]Run) bool {
	for _, runs := range all {
		sorted := slices.Clone(runs)
		slices.SortFunc(sorted, func(a, b Run) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.From, b.From))
		})
		for i, r := range sorted {
			switch {
			case r.Whole() && len(runs) > 1, !r.Whole() && r.From >= r.To, r.To > MaxRun:
				return false
			case i > 0 && sorted[i-1].Object == r.Object && sorted[i-1].To > r.From:
				return false
			}
		}
	}
	return true
}

// Located lists the locations of the n blocks of a section, one run per block.
func Located(runs []Run, n int) []Run {
	var out []Run
	for _, r := range runs {
		if r.Whole() {
			r.To = uint32(n - len(out))
		}
		for at := r.From; at < r.To; at++ {
			out = append(out, Run{r.Object, at, at + 1})
		}
	}
	return out
}

// Joined merges adjacent blocks into runs.
func Joined(blocks []Run) []Run {
	var out []Run
	for _, b := range blocks {
		if last := len(out) - 1; last >= 0 && out[last].Object == b.Object && out[last].To == b.From {
			out[last].To = b.To
			continue
		}
		out = append(out, b)
	}
	return out
}
