package query

import (
	"encoding/binary"
	"math"

	"github.com/anndb/anndb/labels"
)

// Rows newer than the index have no leaf and no label list. Where they have sketches
// (View.Fresh), they compete with the forest's candidates for the R places that get an exact
// distance, so that a fresh row costs a few nanoseconds. Where they have none, each gets its
// exact distance.

// FitEncoder returns the encoder that wrote the sketches of a view, for rows that were added
// later. space holds rows of the view in the partition space, rows their numbers. Rest is
// computed from the row that determines it most precisely. O(rows · R · Dim).
func FitEncoder(v *View, space labels.Rows, rows []uint32) SketchEncoder {
	s := v.Sketch
	e := SketchEncoder{Width: s.Width, Signs: s.Signs, Steps: s.Steps, Centers: s.Centers}
	if s.Signs {
		return e
	}
	rotated, buf := make([]float32, v.Rotation.R), make([]float32, space.Dim())
	n := min(len(e.Steps), len(rotated))
	bare := make([]byte, s.Width)
	share, most := float32(1), float32(0)
	for i, row := range rows {
		x := space.Row(i, buf)
		v.Rotation.Apply(x, rotated)
		rest := restNorm(x, rotated[:n], v.Rotation.Mean)
		if rest <= most {
			continue
		}
		at := int(row) & (1<<s.Shift - 1) * s.Width
		e.Encode(bare, int(row), x, rotated, v.Rotation.Mean)
		norm := sketchNorm(s.Keep[row>>s.Shift][at : at+s.Width])
		most, share = rest, min(1, max(0, (norm-sketchNorm(bare))/rest))
	}
	e.Rest = share
	return e
}

// sketchNorm returns the value that a sketch stores as its norm.
func sketchNorm(sketch []byte) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(sketch[len(sketch)-4:]))
}

// freshSketched returns the number of fresh rows that are ranked by sketch.
func (s *Searcher) freshSketched() int {
	if s.v.Fresh == nil || !s.p.Sketch || s.p.Range {
		return 0
	}
	return s.v.FreshN
}

// thinFresh is thin over ids and the fresh rows that have sketches. It returns the kept ids;
// s.fresh holds the kept fresh rows. Few fresh rows have a better estimate than the worst of
// the best r ids, so only those take part in the selection.
func (s *Searcher) thinFresh(ids []uint32, r int) []uint32 {
	sk, fresh, n := s.v.Sketch, s.v.Fresh, s.v.FreshN
	ids = s.thin(ids, r)
	s.scores = grow(s.scores, len(ids)+n)
	s.estimate(sk, ids, s.scores)
	bound := float32(math.Inf(1))
	if len(ids) == r {
		bound = s.scores[0]
		for _, x := range s.scores[1:r] {
			bound = max(bound, x)
		}
	}
	for len(s.counting) < n {
		s.counting = append(s.counting, uint32(len(s.counting)))
	}
	s.stats.Sketched += n
	all, scores := append(s.merged[:0], ids...), s.scores[len(ids):]
	s.estimate(fresh, s.counting[:n], scores)
	kept := len(ids)
	for i, x := range scores[:n] {
		if x < bound {
			if row := uint32(s.v.N + i); !s.restricted() || s.allowed(row) {
				all = append(all, row)
				s.scores[kept] = x // kept <= i: the scores move to the front
				kept++
			}
		}
	}
	s.merged = all
	all = s.pick.best(all, s.scores, r)
	s.fresh = s.fresh[:0]
	ids = ids[:0]
	for _, id := range all {
		if int(id) < s.v.N {
			ids = append(ids, id)
		} else {
			s.fresh = append(s.fresh, id)
		}
	}
	return ids
}
