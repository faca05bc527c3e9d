package query

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/vector"
)

// beamByHand is the rows a beam search keeps, from a set of rows by estimate:
// the best rows of which none has an unseen row on its list that would be
// among them. With lists that lead everywhere and a wide beam it is exact.
//
// Rows for which expands is false, given the place and the beam's estimates, are not expanded.
func beamByHand(
	s *Searcher, start []uint32, width int, expands func(i int, est func(i int) float32) bool,
) []uint32 {
	type row struct {
		id  uint32
		est float32
	}
	estimate := func(id uint32) float32 {
		var out [1]float32
		s.estimate(s.v.Sketch, []uint32{id}, out[:])
		return out[0]
	}
	seen, done := map[uint32]bool{}, map[uint32]bool{}
	var beam []row
	add := func(id uint32) {
		if !seen[id] {
			seen[id] = true
			beam = append(beam, row{id, estimate(id)})
		}
	}
	trim := func() {
		slices.SortStableFunc(beam, func(a, b row) int {
			switch {
			case a.est < b.est:
				return -1
			case a.est > b.est:
				return 1
			}
			return 0
		})
		beam = beam[:min(len(beam), width)]
	}
	for _, id := range start {
		add(id)
	}
	trim()
	nv := s.v.Neighbors
	for {
		var lists [][]uint32
		for i, r := range beam {
			if expands != nil && !expands(i, func(i int) float32 { return beam[i].est }) {
				break
			}
			if !done[r.id] && len(lists) < beamStep {
				done[r.id] = true
				lists = append(lists, nv.list(r.id, nv.K))
			}
		}
		if len(lists) == 0 {
			break
		}
		for _, list := range lists {
			for _, id := range list {
				add(id)
			}
		}
		trim()
	}
	var out []uint32
	for _, r := range beam {
		out = append(out, r.id)
	}
	return out
}

// A beam search keeps what the search by hand keeps, whatever the width and
// the rows it starts from.
func TestBeamFollowsLists(t *testing.T) {
	f := small()
	s := NewSearcher()
	for i := range 12 {
		p := Params{K: 10, Trees: 1, Sketch: true, R: 10, Beam: 10}
		if _, _, err := s.Search(t.Context(), f.v, f.queries.row(i), &p, nil); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{1, 5, 30, 200} {
			for _, start := range [][]uint32{{uint32(i)}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, nil} {
				want := beamByHand(s, start, width, nil)
				got := slices.Clone(s.follow(slices.Clone(start), width))
				// Equal estimates may stand in any order.
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Fatalf("query %d, width %d from %v: %v, want %v", i, width, start, got, want)
				}
			}
		}
	}
}

// A beam with a gap expands rows up to (1 + gap) times the squared distance, by estimate, of the k-th one, at
// least the tenth, or gap times the floor farther; of rows beyond it keeps the best R. The widest gap is as
// good as none.
func TestBeamGap(t *testing.T) {
	f := small()
	s, width := NewSearcher(), 60
	for i := range 12 {
		k := 5 + i%2*7
		place := max(k, 10)
		q := f.queries.row(i)
		start := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
		before := 0
		for _, gap := range []float32{1e-3, 0.05, 0.3, math.MaxFloat32} {
			floor := float32(i % 3 * 200)
			p := Params{K: k, Trees: 1, Sketch: true, R: 15, Beam: width, Gap: gap, GapFloor: floor}
			_, stats, err := s.Search(t.Context(), f.v, q, &p, nil)
			must(t, err)
			if stats.Sketched < before {
				t.Errorf("query %d: %d sketches with gap %g, %d with less", i, stats.Sketched, gap, before)
			}
			before = stats.Sketched
			toMean := vector.L2Squared(q, f.v.Rotation.Mean)
			got := slices.Clone(s.follow(slices.Clone(start), width))
			want := beamByHand(s, start, width, func(i int, est func(int) float32) bool {
				kth := max(0, est(place-1)+toMean)
				return i < place || est(i)+toMean <= kth+gap*max(kth, floor)
			})
			if got, want = got[:min(len(got), p.R)], want[:p.R]; !slices.Equal(got, want) {
				t.Fatalf("query %d, gap %g: %v, want %v", i, gap, got, want)
			}
		}
		p := Params{K: k, Trees: 1, Sketch: true, R: 15, Beam: width}
		_, stats, err := s.Search(t.Context(), f.v, q, &p, nil)
		must(t, err)
		if stats.Sketched != before {
			t.Errorf("query %d: %d sketches with the widest gap, %d without one", i, before, stats.Sketched)
		}
	}
	for _, gap := range []float32{-1, float32(math.NaN())} {
		p := Params{K: 5, Sketch: true, Beam: width, Gap: gap}
		_, _, err := s.Search(t.Context(), f.v, f.queries.row(0), &p, nil)
		if !errors.Is(err, ErrParams) {
			t.Errorf("gap %g: %v", gap, err)
		}
	}
}

// Wider beams find more, and rows that a filter leaves out are no answers.
func TestBeamRecall(t *testing.T) {
	f := small()
	s := NewSearcher()
	before := 0.0
	for _, beam := range []int{10, 40, 160} {
		hits := 0
		for i := range f.queries.n {
			q := f.queries.row(i)
			truth := search(t, f.v, q, Params{K: 10, Method: Flat})
			found, _, err := s.Search(t.Context(), f.v, q, &Params{K: 10, Trees: 1, Sketch: true, R: 10, Beam: beam}, nil)
			must(t, err)
			for _, h := range found {
				if slices.Contains(truth, h) {
					hits++
				}
			}
		}
		recall := float64(hits) / float64(10*f.queries.n)
		if recall < before-0.01 {
			t.Errorf("beam %d: recall %.3f after %.3f", beam, recall, before)
		}
		before = recall
	}
	if before < 0.9 {
		t.Errorf("widest beam: recall %.3f", before)
	}
	odd := roaring.New()
	for row := uint32(1); int(row) < f.v.N; row += 2 {
		odd.Add(row)
	}
	for _, h := range search(t, f.v, f.queries.row(0), Params{K: 10, Trees: 1, Sketch: true, R: 10, Beam: 40, Filter: odd}) {
		if h.ID%2 == 0 {
			t.Errorf("row %d is no answer", h.ID)
		}
	}
}

// Rows that only lists led to are explained by the list.
func TestExplainBeam(t *testing.T) {
	f := small()
	s := NewSearcher()
	p := Params{K: 10, Trees: 1, Sketch: true, R: 20, Beam: 60}
	seen := map[string]int{}
	for i := range 10 {
		q := f.queries.row(i)
		var hits []vector.Neighbor
		for _, h := range search(t, f.v, q, p) {
			if int(h.ID) < f.v.N {
				hits = append(hits, h)
			}
		}
		for _, h := range hits {
			e, err := searchExplained(s, f.v, q, &p, h.ID)
			must(t, err)
			seen[e.Source]++
			switch e.Source {
			case "forest":
				if !e.Elected || e.From != nil {
					t.Fatalf("%+v", e)
				}
			case "hop":
				nv := f.v.Neighbors
				if e.Elected || !slices.Contains(nv.list(*e.From, nv.K), h.ID) || e.Hop < 1 {
					t.Fatalf("%+v", e)
				}
			default:
				t.Fatalf("%+v", e)
			}
		}
	}
	if seen["hop"] == 0 || seen["forest"] == 0 {
		t.Errorf("sources %v", seen)
	}
}

// TestWiden: a beam that is widened takes back the best of the rows that it had no room for, or that were too
// far for its gap, each once.
func TestWiden(t *testing.T) {
	v, _, queries, curve := restrictedFixture(t)
	s := NewSearcher()
	p, _ := curve.Setting(0.95, 10)
	p.K, p.Gap = 10, math.MaxFloat32
	for i := range 40 {
		if _, _, err := s.Search(t.Context(), v, queries.row(i/2), &p, nil); err != nil {
			t.Fatal(err)
		}
		s.ctx, s.spills, s.stop = t.Context(), true, gap{}
		if i%2 == 1 {
			s.stop = gap{share: 0.1, depth: 6, keep: 7}
		}
		s.startBeam(s.gather(0), 8)
		from, left := 0, 0
		for _, width := range []int{8, 12, 100, 150} {
			if width > 8 {
				s.widen(width)
			}
			s.walk(from, width)
			s.trim()
			if from = width; s.stop.share > 0 {
				from, left = 0, left+width-s.beam.len()
			}
			end, rows := s.gapEnd(), map[uint32]bool{}
			all := slices.Clone(s.spilled)
			for at, key := range slices.Backward(s.beam.keys) {
				all = slices.Insert(all, 0, spot{key, s.beam.marks[at]})
			}
			last := uint64(0)
			for at, x := range all {
				if x.key < last {
					t.Fatalf("query %d, width %d: place %d is better than one before it", i, width, at)
				}
				if at < s.beam.len() {
					last = x.key
				}
				if rows[uint32(x.key)] || at < s.beam.len() && x.key < end && x.mark&followed == 0 {
					t.Fatalf("query %d, width %d: row %d twice or not expanded", i, width, uint32(x.key))
				}
				rows[uint32(x.key)] = true
			}
			seen := 0
			for _, epoch := range s.seen {
				if epoch == s.epoch {
					seen++
				}
			}
			if s.beam.len() != width && s.stop.share == 0 || len(rows) != seen {
				t.Fatalf("query %d: %d of %d places, %d rows of %d seen", i, s.beam.len(), width, len(rows), seen)
			}
			s.stop.share, s.stop.depth, s.stop.keep = 1.5*s.stop.share, s.stop.depth+width/10, s.stop.keep+width/10
		}
		if i%2 == 1 && left == 0 {
			t.Errorf("query %d: the gap had no effect", i)
		}
	}
}
