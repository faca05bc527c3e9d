package query

import (
	"context"
	"math"
	"time"

	"github.com/anndb/anndb/vector"
)

// meter measures settings on queries with known answers.
type meter struct {
	v       *View
	k       int
	queries [][]float32
	truth   [][]uint32
	s       *Searcher
	dst     []vector.Neighbor
	place   []uint32 // place of a row on the beam, from 1; all zero between queries
	found   []bool   // whether a row was found; all false between queries
}

// clockStep is the number of queries that are timed together: few enough that an interruption
// affects one of many times, enough to make the clock's cost negligible.
const clockStep = 20

// sample holds the measurements of one setting.
type sample struct {
	hits, possible int
	candidates     int
	queries        int
	micros         []float64 // per group of clockStep queries, the minimum of all rounds
	// ranks counts true rows by their place on a beam, best estimate first.
	ranks []int
	// first counts the nearest rows likewise.
	first []int
}

// run runs every stride-th query and adds its results to the sample.
func (m *meter) run(ctx context.Context, p Params, stride int, out *sample) error {
	p.K = m.k
	m.s.trial = true
	*out = sample{micros: out.micros, ranks: out.ranks[:0], first: out.first[:0]}
	for range p.Beam {
		out.ranks, out.first = append(out.ranks, 0), append(out.first, 0)
	}
	group, inGroup := 0, 0
	start := time.Now()
	flush := func() {
		t := float64(time.Since(start)) / 1e3 / float64(inGroup)
		if group == len(out.micros) {
			out.micros = append(out.micros, t)
		}
		out.micros[group] = min(out.micros[group], t)
		group, inGroup = group+1, 0
	}
	for i := 0; i < len(m.queries); i += stride {
		if inGroup == 0 {
			start = time.Now()
		}
		found, stats, err := m.s.Search(ctx, m.v, m.queries[i], &p, m.dst[:0])
		if err != nil {
			return err
		}
		m.dst = found
		want := m.truth[i][:min(m.k, len(m.truth[i]))]
		m.count(found, want, p.Beam > 0 && !p.Quant, out)
		out.possible += len(want)
		out.candidates += stats.Candidates
		out.queries++
		if inGroup++; inGroup == clockStep {
			flush()
		}
	}
	if inGroup > 0 {
		flush()
	}
	return nil
}

// count adds to the sample which of the true rows were found and, with a beam, their places on
// it. O(found + want + beam).
func (m *meter) count(found []vector.Neighbor, want []uint32, beam bool, out *sample) {
	if n := m.v.Rows.N; len(m.found) < n {
		m.found, m.place = make([]bool, n), make([]uint32, n)
	}
	for _, f := range found {
		m.found[f.ID] = true
	}
	var places []uint32
	if beam {
		places = m.s.hop
	}
	for i, id := range places {
		m.place[id] = uint32(i) + 1
	}
	for i, id := range want {
		if m.found[id] {
			out.hits++
		}
		at := m.place[id]
		if at == 0 && beam && m.found[id] {
			at = 1 // found by a scan of newer rows or of all rows
		}
		if at > 0 {
			out.ranks[at-1]++
			if i == 0 {
				out.first[at-1]++
			}
		}
	}
	for _, f := range found {
		m.found[f.ID] = false
	}
	for _, id := range places {
		m.place[id] = 0
	}
}

// point summarises a sample. Interrupted groups do not count: times above three times the
// minimum are replaced by the mean of the others.
func (s *sample) point(p Params) Point {
	least := math.Inf(1)
	for _, t := range s.micros {
		least = min(least, t)
	}
	sum, n := 0.0, 0
	for _, t := range s.micros {
		if t <= 3*least {
			sum += t
			n++
		}
	}
	return Point{
		Params:     p,
		Recall:     float64(s.hits) / float64(max(1, s.possible)),
		Micros:     sum / float64(max(1, n)),
		Candidates: float64(s.candidates) / float64(max(1, s.queries)),
	}
}

// byRank returns the recall by the number of rows, best estimate first, that get an exact
// distance, for all numbers up to a beam's width.
func (s *sample) byRank(width int) []float64 { return cumulated(s.ranks[:width], s.possible) }

// nearestByRank is byRank for the nearest row alone.
func (s *sample) nearestByRank(width int) []float64 { return cumulated(s.first[:width], s.queries) }

func cumulated(counts []int, all int) []float64 {
	out := make([]float64, len(counts)+1)
	hits := 0
	for i, n := range counts {
		hits += n
		out[i+1] = float64(hits) / float64(max(1, all))
	}
	return out
}
