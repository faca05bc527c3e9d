package postings

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Partition is the paper's pair of inverted indexes over two disjoint sets of
// rows (Feremans 2020, definition 12 and Algorithm 7). A row is in the TAAT
// part if one of its values ranks among the M highest of its feature, the
// smaller row number first among equals.
//
// Rows stand beside their values, not in roaring bitmaps: those would take 2.0
// to 2.3 bytes for the 4 (delicious, rcv1), but six to nine times as long to go
// through. Blocks, the lists of the compact structures, have the containers of
// a roaring bitmap where they do pay: 16-bit row numbers, and columns for what
// is dense.
type Partition struct {
	M int
	// TAAT lists descend by value, then ascend by row.
	TAAT Lists
	// DAAT lists ascend by row; Max[j] is the highest value of list j, zero if
	// it is empty.
	DAAT Lists
	Max  []float32
	// TAATRows counts the rows of the TAAT part; the others are the DAAT part.
	TAATRows int
}

// cancelEvery is how many features or rows a build handles between looks at
// its context.
const cancelEvery = 1 << 12

func buildPartition(ctx context.Context, rows, byFeature *vector.CSR, m int) (*Partition, error) {
	p := &Partition{M: m, Max: make([]float32, rows.Cols)}
	first := make([]bool, rows.Rows()) // row is in the TAAT part
	var scratch []Posting
	for j := range rows.Cols {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		scratch = appendColumn(scratch[:0], byFeature, j)
		if m < len(scratch) {
			if m == 0 {
				continue
			}
			slices.SortFunc(scratch, byValue)
			scratch = scratch[:m]
		}
		for _, e := range scratch {
			first[e.Row] = true
		}
	}
	for _, f := range first {
		if f {
			p.TAATRows++
		}
	}
	p.TAAT.Ptr = make([]uint64, rows.Cols+1)
	p.DAAT.Ptr = make([]uint64, rows.Cols+1)
	for j := range rows.Cols {
		if j%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		scratch = appendColumn(scratch[:0], byFeature, j)
		from := len(p.TAAT.Entries)
		for _, e := range scratch {
			if first[e.Row] {
				p.TAAT.Entries = append(p.TAAT.Entries, e)
			} else {
				p.DAAT.Entries = append(p.DAAT.Entries, e)
				p.Max[j] = max(p.Max[j], e.Value)
			}
		}
		slices.SortFunc(p.TAAT.Entries[from:], byValue)
		p.TAAT.Ptr[j+1] = uint64(len(p.TAAT.Entries))
		p.DAAT.Ptr[j+1] = uint64(len(p.DAAT.Entries))
	}
	return p, nil
}

// appendColumn appends the postings of feature j, ascending by row. Entries
// that are zero are in no list: they add nothing to a score.
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
