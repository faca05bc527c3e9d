package forestindex

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// The code of sketches is chosen by how well it ranks the rows that a beam visits last: those within two
// steps along the lists of nearest rows. The worse a code, the more rows with the best estimates a search
// must compare exactly until these rows contain the nearest ones.

const (
	// codeRows is the number of rows whose neighbors are ranked.
	codeRows = 200
	// codeNear is the number of nearest rows whose ranks by the estimates are collected. A code is judged
	// by the mean of the worst of these ranks, the share codeTail of them.
	codeNear, codeTail = 10, 0.02
	// A search reads about sketchesRead sketches for a row that it compares exactly. An access to
	// either costs as much as reading accessBytes more.
	sketchesRead = 6
	accessBytes  = 64
)

// vicinity is a sample of rows with all rows within two steps of them, numbered from 0.
type vicinity struct {
	rows  *flatRows
	lists *labels.Neighbors // of the sample and of the rows one step away; those of others are empty
	pools [][]uint32        // the rows within two steps of sampled row i, without that row
	at    []uint32          // the number of sampled row i
	from  []uint32          // the row number of row i in the collection
}

// cheapest returns the code, principal coordinates, or signs with or without centers, with which a search is
// expected to read the fewest bytes of sketches, centers and rows: as many rows as the worst rank, and the
// sketches next to them.
func (v *vicinity) cheapest(ctx context.Context, r *forest.Rotation, c *query.Centers) query.SketchEncoder {
	rotated := rotate(ctx, r, v.rows)
	codes := []query.SketchEncoder{query.FitSketches(v.rows, rotated, r.Mean, v.lists)}
	for width := vector.SignLine; width <= vector.MaxSignWidth; width += vector.SignLine {
		codes = append(codes, signs(width, nil), signs(width, c))
	}
	var best query.SketchEncoder
	least, centers := math.Inf(1), v.centersRead()*float64(accessBytes+v.rows.d)
	for _, e := range codes {
		sketch := float64(accessBytes + e.Width)
		if e.Centers != nil {
			sketch += centers
		}
		each := sketchesRead*sketch + float64(accessBytes+4*v.rows.d)
		if cost := float64(v.worstRank(ctx, e, rotated, r.Mean)) * each; cost < least {
			best, least = e, cost
		}
	}
	return best
}

// centersRead returns the number of centers that a search reads for each sketch.
func (v *vicinity) centersRead() float64 {
	groups, rows := 0, 0
	for _, pool := range v.pools {
		of := make(map[int]bool)
		for _, id := range pool {
			of[query.CenterGroup(v.from[id])] = true
		}
		groups, rows = groups+len(of), rows+len(pool)
	}
	return float64(groups) / float64(max(1, rows))
}

func newVicinity(space subset, lists *labels.Neighbors) *vicinity {
	v := &vicinity{rows: &flatRows{d: space.Dim()}}
	numbers := make(map[uint32]uint32)
	add := func(row uint32) uint32 {
		at, ok := numbers[row]
		if !ok {
			at = uint32(v.rows.n)
			numbers[row] = at
			v.rows.data = append(v.rows.data, space.Row(int(row), make([]float32, v.rows.d))...)
			v.from = append(v.from, space.id(int(row)))
			v.rows.n++
		}
		return at
	}
	listed := make(map[uint32][]uint32) // by number
	list := func(row uint32) []uint32 {
		at := add(row)
		if listed[at] == nil {
			for _, id := range lists.Row(int(row)) {
				listed[at] = append(listed[at], add(id))
			}
		}
		return listed[at]
	}
	for row := 0; row < space.Len(); row += max(1, space.Len()/codeRows) {
		at := add(uint32(row))
		pool := slices.Clone(list(uint32(row)))
		for _, id := range lists.Row(row) {
			pool = append(pool, list(id)...)
		}
		slices.Sort(pool)
		pool = slices.DeleteFunc(slices.Compact(pool), func(id uint32) bool { return id == at })
		v.at, v.pools = append(v.at, at), append(v.pools, pool)
	}
	v.lists = &labels.Neighbors{N: v.rows.n, K: lists.K}
	for at := range uint32(v.rows.n) {
		for i := range lists.K {
			id := at // the row itself marks an empty entry
			if ids := listed[at]; ids != nil {
				id = ids[i]
			}
			v.lists.IDs = append(v.lists.IDs, id)
		}
	}
	return v
}

// worstRank returns the mean rank by estimates of the nearest rows that the code ranks worst.
func (v *vicinity) worstRank(
	ctx context.Context, e query.SketchEncoder, rotated *flatRows, mean []float32,
) int {
	sketches := make([]byte, v.rows.n*e.Width)
	// The caller checks for cancellation.
	_ = par.Each(ctx, par.Work{N: v.rows.n, Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		e.Encode(sketches[i*e.Width:], int(v.from[i]), v.rows.Row(i, nil), rotated.Row(i, nil), mean)
		return nil
	})
	view := e.View([][]byte{sketches}, 31)
	var ranks []int
	for i, pool := range v.pools {
		at := int(v.at[i])
		exact, estimates := make([]float32, len(pool)), make([]float32, len(pool))
		ids := make([]uint32, len(pool))
		for j, id := range pool {
			ids[j] = v.from[id]
			exact[j] = vector.L2Squared(v.rows.Row(at, nil), v.rows.Row(int(id), nil))
		}
		view.Estimate(v.rows.Row(at, nil), rotated.Row(at, nil), mean, pool, ids, estimates)
		byExact, byEstimate := order(exact), order(estimates)
		for _, j := range byExact[:min(codeNear, len(byExact))] {
			ranks = append(ranks, 1+slices.Index(byEstimate, j))
		}
	}
	if len(ranks) == 0 {
		return 0
	}
	slices.Sort(ranks)
	sum, worst := 0, ranks[int((1-codeTail)*float64(len(ranks))):]
	for _, rank := range worst {
		sum += rank
	}
	return sum / len(worst)
}

// order returns the positions of x by value.
func order(x []float32) []int {
	out := make([]int, len(x))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return out
}
