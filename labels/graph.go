package labels

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// graph is the state of ApproximateNeighbors. A row is identified by its place in the leaves of
// the first tree, so that a row's candidates share cache lines and pages. order and place
// translate between places and row numbers.
//
// The pool of a row is its current neighbor list: keys of distance and place, ascending. Only
// the goroutine that works on a row writes its pool. Other goroutines read the row's head, a
// copy made between rounds.
type graph struct {
	rows, reduced *matrix
	n, k          int
	leaf, pooled  int
	o             ApproximateOptions
	order, place  []uint32
	norms         []float32
	code          []byte // width bytes per row, by place, as vector.SketchScores reads them
	width         int
	unit          float32 // unit of the codes
	pool          []uint64
	head          []uint32 // 2·depth per row: its nearest rows, then rows that list it
	listed        []uint8  // number of rows in the second half of a head
	depth         int
	firstDepth    int // depth in the first round
	progress      func(done, total int)
	done, steps   int
}

// fresh marks a place in a pool or head that no round has yet expanded for this row (the "new"
// flag of NN-descent).
const fresh = 1 << 31

// key orders by distance, then place. Distances are not negative, so their bit patterns have
// the order of their values.
func key(d float32, place uint32) uint64 {
	return uint64(math.Float32bits(max(0, d)))<<32 | uint64(place)
}

func distanceOf(key uint64) float32 { return math.Float32frombits(uint32(key >> 32)) }
func placeOf(key uint64) uint32     { return uint32(key) &^ fresh }

func (g *graph) poolOf(p int) []uint64 { return g.pool[p*g.pooled : (p+1)*g.pooled] }

// scratch is one goroutine's memory.
type scratch struct {
	seen   []uint64 // one bit per row; all zero between rows
	keys   []uint64
	merged []uint64
	places []uint32
	scores []float32
	query  []int16
	rows   []float32
	norms  []float32
	dots   []float32
	table  []unsafe.Pointer
	best   *vector.TopK
	list   []vector.Neighbor
	moved  int
}

func resize(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// mark marks a place.
func (s *scratch) mark(p uint32) { s.seen[p/64] |= 1 << (p % 64) }

// forget clears the word of a marked place.
func (s *scratch) forget(p uint32) { s.seen[p/64] = 0 }

// insert merges s.keys, none of which is in the pool, into the pool and keeps the best keys.
func (s *scratch) insert(pool []uint64) {
	slices.Sort(s.keys)
	if cap(s.merged) < len(pool) {
		s.merged = make([]uint64, len(pool))
	}
	merged := s.merged[:len(pool)]
	i, j := 0, 0
	for at := range merged {
		if j < len(s.keys) && s.keys[j] < pool[i] {
			merged[at] = s.keys[j]
			j++
		} else {
			merged[at] = pool[i]
			i++
		}
	}
	copy(pool, merged)
	s.moved += j
}

// encode rounds the leading reduced coordinates to bytes. As in the sketches of queries, the
// norm in a code is that of the rounded coordinates. The squared length outside them counts
// half only, because neighbours are similar in those coordinates, too.
func (g *graph) encode(ctx context.Context) {
	coords := min(g.reduced.d, g.width-4)
	var peak float32
	for i := range g.n {
		for _, v := range g.reduced.row(i)[:coords] {
			peak = max(peak, v, -v)
		}
	}
	if g.unit = peak / 127; !(g.unit > 0) {
		g.unit = 1
	}
	g.code = make([]byte, g.n*g.width)
	g.norms = make([]float32, g.n)
	g.each(ctx, g.n, 256, func(_ *scratch, lo, hi int) {
		for p := lo; p < hi; p++ {
			row := int(g.order[p])
			dst := g.code[p*g.width : (p+1)*g.width]
			var sum, outside float32
			for j, v := range g.reduced.row(row)[:coords] {
				y := float32(math.RoundToEven(float64(v / g.unit)))
				dst[j] = byte(int8(y))
				y *= g.unit
				sum += y * y
			}
			if g.o.Outside != nil {
				outside = outsidePart * g.o.Outside[row]
			}
			g.norms[p] = g.reduced.norms[row] + outside
			binary.LittleEndian.PutUint32(dst[g.width-4:], math.Float32bits(sum+outside))
		}
	})
}

// joinLeaves compares all pairs of every leaf.
func (g *graph) joinLeaves(ctx context.Context, t *partition, first bool) {
	d := g.reduced.d
	g.each(ctx, len(t.ends), 1, func(s *scratch, leaf, _ int) {
		rows := t.leaf(leaf)
		m := len(rows)
		s.rows, s.dots, s.norms = resize(s.rows, m*d), resize(s.dots, m*m), resize(s.norms, m)
		s.places = s.places[:0]
		for i, row := range rows {
			copy(s.rows[i*d:], g.reduced.row(int(row)))
			p := g.place[row]
			s.places = append(s.places, p)
			s.norms[i] = g.norms[p]
		}
		vector.DotTile(s.rows, m, s.rows, m, d, s.dots)
		for i, p := range s.places {
			pool := g.poolOf(int(p))
			own, norms := s.dots[i*m+i], s.norms[:m]
			s.keys = s.keys[:0]
			if first {
				for j, dot := range s.dots[i*m : (i+1)*m] {
					if j != i {
						s.keys = append(s.keys, key(norms[j]+own-2*dot, s.places[j]|fresh))
					}
				}
				slices.Sort(s.keys)
				copy(pool, s.keys) // a leaf has more rows than a pool
				continue
			}
			worst := distanceOf(pool[len(pool)-1])
			for j, dot := range s.dots[i*m : (i+1)*m] {
				if d := norms[j] + own - 2*dot; d < worst && j != i {
					s.keys = append(s.keys, key(d, s.places[j]|fresh))
				}
			}
			s.withoutKnown(g.n, pool)
			s.insert(pool)
		}
	})
}

// withoutKnown removes from s.keys the places that the pool already contains.
func (s *scratch) withoutKnown(n int, pool []uint64) {
	if len(s.keys) == 0 {
		return
	}
	s.prepare(n)
	for _, x := range pool {
		s.mark(placeOf(x))
	}
	s.keys = slices.DeleteFunc(s.keys,
		func(x uint64) bool { return s.seen[placeOf(x)/64]>>(placeOf(x)%64)&1 != 0 })
	for _, x := range pool {
		s.forget(placeOf(x))
	}
}

func (s *scratch) prepare(n int) {
	if s.seen == nil {
		s.seen = make([]uint64, (n+63)/64)
	}
}

// heads copies the nearest depth places of every pool into its head. To each head it adds up to
// depth of the rows that have the row among those places, nearest first.
func (g *graph) heads(ctx context.Context, depth int) {
	depth = min(depth, g.pooled)
	if depth != g.depth {
		g.depth = depth
		g.head = make([]uint32, g.n*2*depth)
		g.listed = make([]uint8, g.n)
	}
	clear(g.listed)
	g.each(ctx, g.n, 256, func(_ *scratch, lo, hi int) {
		for p := lo; p < hi; p++ {
			head := g.head[p*2*depth:][:depth]
			for j, x := range g.poolOf(p)[:depth] {
				head[j] = uint32(x)
				g.pool[p*g.pooled+j] = x &^ fresh
			}
		}
	})
	for j := range depth {
		if ctx.Err() != nil {
			return
		}
		for p := range g.n {
			x := g.head[p*2*depth+j]
			to := int(x &^ fresh)
			if c := int(g.listed[to]); c < depth {
				g.head[to*2*depth+depth+c] = uint32(p) | x&fresh
				g.listed[to]++
			}
		}
	}
}

// headOf returns the head of a row.
func (g *graph) headOf(p uint32) []uint32 {
	at := int(p) * 2 * g.depth
	return g.head[at : at+g.depth+int(g.listed[p])]
}

// collect puts the neighbours of p's neighbours that are not in its pool, and the rows that
// list p, into s.places. It omits pairs that an earlier round compared.
func (g *graph) collect(s *scratch, p uint32) {
	s.prepare(g.n)
	s.mark(p)
	pool := g.poolOf(int(p))
	for _, x := range pool {
		s.mark(placeOf(x))
	}
	own := g.headOf(p)
	if most := len(own) * (1 + 2*g.depth); cap(s.places) < most {
		s.places = make([]uint32, most)
	}
	// The branch on whether a place is new is unpredictable, so the place is always written and
	// counted by its bit.
	places, seen, m := s.places[:cap(s.places)], s.seen, 0
	take := func(id, isNew uint32) {
		w, at := &seen[id/64], id%64
		places[m] = id
		m += int(isNew &^ uint32(*w>>at))
		*w |= uint64(isNew) << at
	}
	for _, a := range own {
		take(a&^fresh, a>>31)
		for _, b := range g.headOf(a &^ fresh) {
			take(b&^fresh, (a|b)>>31)
		}
	}
	s.places = places[:m]
	s.forget(p)
	for _, x := range pool {
		s.forget(placeOf(x))
	}
	for _, id := range s.places {
		s.forget(id)
	}
}

// estimate scores s.places against p. The coordinates of p keep three more bits than the codes.
func (g *graph) estimate(s *scratch, p uint32) {
	const finer = 8
	if s.query == nil {
		s.query = make([]int16, g.width)
		s.table = []unsafe.Pointer{unsafe.Pointer(unsafe.SliceData(g.code))}
	}
	x := g.reduced.row(int(g.order[p]))
	x = x[:min(len(x), g.width-4)]
	for j, v := range x {
		s.query[j] = int16(math.RoundToEven(float64(v * finer / g.unit)))
	}
	s.scores = resize(s.scores, len(s.places))
	vector.SketchScores(s.query, 2*g.unit*g.unit/finer, s.table, 31, g.width, s.places, s.scores)
}

// joinEstimates runs a round on estimated distances.
func (g *graph) joinEstimates(ctx context.Context) {
	g.each(ctx, g.n, 64, func(s *scratch, lo, hi int) {
		for p := lo; p < hi; p++ {
			pool := g.poolOf(p)
			g.collect(s, uint32(p))
			g.estimate(s, uint32(p))
			own := g.reduced.norms[g.order[p]]
			worst := distanceOf(pool[len(pool)-1])
			s.keys = s.keys[:0]
			for j, e := range s.scores {
				if e += own; e < worst {
					s.keys = append(s.keys, key(e, s.places[j]|fresh))
				}
			}
			s.insert(pool)
		}
	})
}

// distance returns the squared distance of the rows at two places.
func (g *graph) distance(a, b uint32) float32 {
	return vector.L2Squared(g.rows.row(int(g.order[a])), g.rows.row(int(g.order[b])))
}

// measure puts the exact distances of s.places from p into s.keys.
func (g *graph) measure(s *scratch, p uint32) {
	s.keys = s.keys[:0]
	for _, b := range s.places {
		s.keys = append(s.keys, key(g.distance(p, b), b|fresh))
	}
}

// rescore replaces the estimates in the pools by exact distances.
func (g *graph) rescore(ctx context.Context) {
	g.each(ctx, g.n, 64, func(s *scratch, lo, hi int) {
		for p := lo; p < hi; p++ {
			pool := g.poolOf(p)
			s.places = s.places[:0]
			for _, x := range pool {
				s.places = append(s.places, placeOf(x))
			}
			g.measure(s, uint32(p))
			slices.Sort(s.keys)
			copy(pool, s.keys)
		}
	})
}

// joinExact runs a round on exact distances of the keep rows of best estimate. It returns the number of rows
// inserted into pools.
func (g *graph) joinExact(ctx context.Context, keep int) int {
	var moved atomic.Int64
	g.each(ctx, g.n, 64, func(s *scratch, lo, hi int) {
		if s.best == nil {
			s.best = vector.NewTopK(keep)
		}
		s.moved = 0
		for p := lo; p < hi; p++ {
			pool := g.poolOf(p)
			g.collect(s, uint32(p))
			g.estimate(s, uint32(p))
			s.best.Reset(keep)
			limit := s.best.Threshold()
			for j, e := range s.scores {
				if e <= limit {
					s.best.Push(s.places[j], e)
					limit = s.best.Threshold()
				}
			}
			s.list = s.best.Append(s.list[:0])
			s.places = s.places[:0]
			for _, x := range s.list {
				s.places = append(s.places, x.ID)
			}
			slices.Sort(s.places) // memory order
			g.measure(s, uint32(p))
			s.insert(pool)
		}
		moved.Add(int64(s.moved))
	})
	return int(moved.Load())
}
