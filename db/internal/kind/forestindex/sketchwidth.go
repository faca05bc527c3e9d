package forestindex

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// The width of sketches is chosen by ranking what a beam meets near its end: the rows within two steps
// along the lists of nearest rows. The narrower the sketch, the more rows with the best estimates have to
// be looked at until they contain the nearest ones.

const (
	// widthRows is the number of rows whose neighbors are ranked.
	widthRows = 100
	// widthNear is the number of nearest rows that have to be among those with the best estimates,
	// widthShare the share of them.
	widthNear, widthShare = 10, 0.99
	// widerPays is the share of the time to which a wider sketch must reduce a search.
	widerPays = 0.9
)

// vicinity is a sample of rows with all that are within two steps of them, in an order of their own.
type vicinity struct {
	rows  *flatRows
	lists *labels.Neighbors // of the sample and of the rows one step away; others have empty ones
	pools [][]uint32        // the rows within two steps of sample i, without it
	at    []uint32          // sample i
}

// chooseWidth returns the width with the lowest estimated time of a search; a narrower one if wider ones
// are not much cheaper.
func (l *learned) chooseWidth(ctx context.Context, t *training, lists *labels.Neighbors) (int, error) {
	best := vector.PackedLine
	if l.whole == nil || lists == nil {
		return best, nil
	}
	near := newVicinity(t.corpus, lists)
	rotated := rotate(ctx, l.whole, near.rows)
	least := 0.0
	for width := best; width <= vector.MaxPackedWidth; width += vector.PackedLine {
		places := near.places(rotated, l.whole.Mean, width)
		if cost := searchNanos(width, places, near.rows.d); least == 0 || cost < widerPays*least {
			best, least = width, cost
		}
		if vector.PackedCoordinates(width) >= l.whole.R {
			break
		}
	}
	return best, ctx.Err()
}

func newVicinity(space labels.Rows, lists *labels.Neighbors) *vicinity {
	v := &vicinity{rows: &flatRows{d: space.Dim()}}
	place := make(map[uint32]uint32)
	add := func(row uint32) uint32 {
		at, ok := place[row]
		if !ok {
			at = uint32(v.rows.n)
			place[row] = at
			v.rows.data = append(v.rows.data, space.Row(int(row), make([]float32, v.rows.d))...)
			v.rows.n++
		}
		return at
	}
	listed := make(map[uint32][]uint32) // by place
	list := func(row uint32) []uint32 {
		at := add(row)
		if listed[at] == nil {
			for _, id := range lists.Row(int(row)) {
				listed[at] = append(listed[at], add(id))
			}
		}
		return listed[at]
	}
	for row := 0; row < space.Len(); row += max(1, space.Len()/widthRows) {
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
			id := at // stands for an empty place
			if ids := listed[at]; ids != nil {
				id = ids[i]
			}
			v.lists.IDs = append(v.lists.IDs, id)
		}
	}
	return v
}

// places returns how many rows with the best estimates contain the nearest ones.
func (v *vicinity) places(rotated *flatRows, mean []float32, width int) int {
	e := query.FitSketches(v.rows, rotated, mean, v.lists, width)
	sketches := make([]byte, v.rows.n*width)
	for i := range v.rows.n {
		e.Encode(sketches[i*width:], v.rows.Row(i, nil), rotated.Row(i, nil), mean)
	}
	view := e.View([][]byte{sketches}, 31)
	var places []int
	for i, pool := range v.pools {
		at := int(v.at[i])
		exact, estimates := make([]float32, len(pool)), make([]float32, len(pool))
		for j, id := range pool {
			exact[j] = vector.L2Squared(v.rows.Row(at, nil), v.rows.Row(int(id), nil))
		}
		view.Estimate(rotated.Row(at, nil), pool, estimates)
		byExact, byEstimate := order(exact), order(estimates)
		for _, j := range byExact[:min(widthNear, len(byExact))] {
			places = append(places, 1+slices.Index(byEstimate, j))
		}
	}
	if len(places) == 0 {
		return 0
	}
	slices.Sort(places)
	return places[int(widthShare*float64(len(places)-1))]
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

// searchNanos estimates the time of a search that has to look at a number of rows with the best estimates:
// it projects the query, compares ten sketches for each row, and computes the row's exact distance.
func searchNanos(width, rows, dim int) float64 {
	coordinates, lines := min(vector.PackedCoordinates(width), dim), width/vector.PackedLine
	const (
		sketchesEach = 10
		perSketch    = 4    // ns, and for each of its lines
		perRow       = 30   // ns
		perNumber    = 0.4  // ns for each coordinate of a row
		perProduct   = 0.05 // ns for each element of the rotation
	)
	each := float64(sketchesEach*perSketch*(1+lines)) + perRow + perNumber*float64(dim)
	return perProduct*float64(coordinates*dim) + float64(rows)*each
}
