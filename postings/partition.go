package postings

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Partition is the paper's pair of inverted indexes over two disjoint sets of rows (Feremans
// 2020, definition 12 and Algorithm 7). A row is in the TAAT part if one of its values ranks
// among the M highest of its feature; ties prefer the smaller row number.
//
// The rows of a list are a roaring bitmap, so lists of both parts ascend by row. The paper's
// TAAT lists descend by value, but its searches read complete lists and a score has one addend
// of each list, so the order does not matter.
type Partition struct {
	M int
	// Feature holds the features that any row has, ascending: list i of both parts is that of
	// Feature[i].
	Feature    []uint32
	TAAT, DAAT RowSets
	// Max[i] is the highest value of DAAT list i, zero if it is empty.
	Max []float32
	// TAATRows counts the rows of the TAAT part; the others are the DAAT part.
	TAATRows int
}

// cancelEvery is the number of features or rows between a build's checks of its context.
const cancelEvery = 1 << 12

func buildPartition(ctx context.Context, rows int, byFeature *vector.CSR, m int) (*Partition, error) {
	p := &Partition{M: m}
	first, err := p.choose(ctx, rows, byFeature)
	if err != nil {
		return nil, err
	}
	p.TAAT, p.DAAT = newRowSets(), newRowSets()
	var all []Posting
	var parts [2][]Posting
	for j := range byFeature.Rows() {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if all = appendColumn(all[:0], byFeature, j); len(all) == 0 {
			continue
		}
		parts[0], parts[1] = parts[0][:0], parts[1][:0]
		var most float32
		for _, e := range all {
			if first[e.Row] {
				parts[0] = append(parts[0], e)
			} else {
				parts[1] = append(parts[1], e)
				most = max(most, e.Value)
			}
		}
		p.Feature, p.Max = append(p.Feature, uint32(j)), append(p.Max, most)
		p.TAAT.add(parts[0])
		p.DAAT.add(parts[1])
	}
	return p, nil
}

// choose selects the rows of the TAAT part among n rows and counts them.
func (p *Partition) choose(ctx context.Context, n int, byFeature *vector.CSR) ([]bool, error) {
	first := make([]bool, n)
	var scratch []Posting
	for j := range byFeature.Rows() {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		scratch = appendColumn(scratch[:0], byFeature, j)
		if p.M < len(scratch) {
			if p.M == 0 {
				break
			}
			slices.SortFunc(scratch, byValue)
			scratch = scratch[:p.M]
		}
		for _, e := range scratch {
			if !first[e.Row] {
				first[e.Row] = true
				p.TAATRows++
			}
		}
	}
	return first, nil
}

// find returns the number of a feature's lists; the search starts at from.
func (p *Partition) find(feature uint32, from int) (list int, ok bool) {
	lo, step := from, 1 // all before lo are lower than feature
	for lo+step <= len(p.Feature) && p.Feature[lo+step-1] < feature {
		lo += step
		step *= 2
	}
	hi := min(lo+step, len(p.Feature))
	i, ok := slices.BinarySearch(p.Feature[lo:hi], feature)
	return lo + i, ok
}

// partTerm is a term of the query that has lists in a partition.
type partTerm struct {
	list   int
	weight float32
}

// partition resolves the terms of the query, which ascend by feature.
func (s *Searcher) partition(p *Partition) []partTerm {
	s.parted = s.parted[:0]
	at, ok := 0, false
	for _, t := range s.terms {
		if at, ok = p.find(t.feature, at); ok {
			s.parted = append(s.parted, partTerm{at, t.weight})
		}
	}
	return s.parted
}

// Bytes returns the memory of the partition: its size on disk.
func (p *Partition) Bytes() int {
	return 4*len(p.Feature) + 4*len(p.Max) + p.TAAT.bytes() + p.DAAT.bytes()
}

func (p *Partition) validate(rows, features int) error {
	if p.M < 0 || p.TAATRows < 0 || p.TAATRows > rows {
		return fmt.Errorf("%w: m %d, %d rows of %d in the TAAT part", ErrInvalid, p.M, p.TAATRows, rows)
	}
	lists := len(p.Feature)
	if len(p.Max) != lists {
		return fmt.Errorf("%w: %d highest values for %d features", ErrInvalid, len(p.Max), lists)
	}
	for i, f := range p.Feature {
		if int(f) >= features || i > 0 && f <= p.Feature[i-1] {
			return fmt.Errorf("%w: list %d is of feature %d of %d", ErrInvalid, i, f, features)
		}
		if x := float64(p.Max[i]); !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: the highest value of list %d is %g", ErrInvalid, i, x)
		}
	}
	if err := p.TAAT.validate(lists, rows); err != nil {
		return fmt.Errorf("TAAT part: %w", err)
	}
	if err := p.DAAT.validate(lists, rows); err != nil {
		return fmt.Errorf("DAAT part: %w", err)
	}
	return nil
}

// appendColumn appends the postings of feature j, ascending by row. It omits zero entries,
// which add nothing to a score.
func appendColumn(dst []Posting, byFeature *vector.CSR, j int) []Posting {
	for e := byFeature.Ptr[j]; e < byFeature.Ptr[j+1]; e++ {
		if v := valueAt(byFeature, e); v > 0 {
			dst = append(dst, Posting{byFeature.Index[e], v})
		}
	}
	return dst
}

func byValue(a, b Posting) int {
	if c := cmp.Compare(b.Value, a.Value); c != 0 {
		return c
	}
	return cmp.Compare(a.Row, b.Row)
}
