package query

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// meter measures settings on queries with known answers.
type meter struct {
	v       *View
	k       int
	queries [][]float32
	truth   [][]uint32
	lanes   []*lane
}

// atDepth returns the meter of k neighbors, on the queries of which so many are known.
func (m meter) atDepth(k int) meter {
	of := meter{v: m.v, k: k, lanes: m.lanes}
	for i, truth := range m.truth {
		if len(truth) >= k {
			of.queries, of.truth = append(of.queries, m.queries[i]), append(of.truth, truth)
		}
	}
	return of
}

// lane is what one goroutine of a meter needs.
type lane struct {
	s     *Searcher
	dst   []vector.Neighbor
	place []uint32 // place of a row on the beam, from 1; all zero between queries
	found []bool   // whether a row was found; all false between queries
	sum   sample   // of the queries of this lane, without times
}

// maxLanes bounds the goroutines that measure: more of them compete for memory, which changes the
// ratio of the times of narrow and wide beams.
const maxLanes = 4

// newLanes returns the lanes of so many workers, see par.Workers.
func newLanes(workers int) []*lane {
	out := make([]*lane, min(par.Workers(workers), maxLanes))
	for i := range out {
		out[i] = &lane{s: NewSearcher()}
		out[i].s.trial = true
	}
	return out
}

// clockStep is the number of queries that are timed together: few enough that an interruption
// affects one of many times, enough to make the clock's cost negligible.
const clockStep = 20

// sample holds the measurements of one setting.
type sample struct {
	hits, possible int
	squares        int // sum over queries of the squared number of hits
	candidates     int
	queries        int
	micros         []float64 // per group of clockStep queries, the minimum of all rounds
	work           []float64 // per group, the mean number of sketches and rows compared without widening
	// ranks counts true rows by their place on a beam, best estimate first, as far as there are any.
	ranks []int
	// first counts the nearest rows likewise.
	first []int
}

// reset empties a sample, but keeps the times.
func (s *sample) reset() {
	*s = sample{micros: s.micros, work: s.work, ranks: s.ranks[:0], first: s.first[:0]}
}

// places makes room for counts of so many places. A beam may have more than Params.Beam.
func (s *sample) places(n int) {
	for len(s.ranks) < n {
		s.ranks, s.first = append(s.ranks, 0), append(s.first, 0)
	}
}

// hit adds a query that has found so many of its nearest rows.
func (s *sample) hit(hits, possible int) {
	s.hits += hits
	s.squares += hits * hits
	s.possible += possible
	s.queries++
}

// add adds what another sample of the same beam has counted.
func (s *sample) add(o *sample) {
	s.hits += o.hits
	s.squares += o.squares
	s.possible += o.possible
	s.candidates += o.candidates
	s.queries += o.queries
	s.places(len(o.ranks))
	for i := range o.ranks {
		s.ranks[i] += o.ranks[i]
		s.first[i] += o.first[i]
	}
}

// run runs every stride-th query, on as many goroutines as there are lanes, and adds its results to
// the sample.
func (m *meter) run(ctx context.Context, p Params, stride int, out *sample) error {
	p.K = m.k
	out.reset()
	groups := (len(m.queries) + stride*clockStep - 1) / (stride * clockStep)
	for len(out.micros) < groups {
		out.micros, out.work = append(out.micros, math.Inf(1)), append(out.work, 0)
	}
	var started atomic.Int32
	err := par.Ranges(ctx, par.Work{N: groups, Workers: len(m.lanes)}, func() func(lo, hi int) error {
		l := m.lanes[started.Add(1)-1]
		l.sum.reset()
		return func(group, _ int) error {
			micros, work, err := m.group(ctx, l, p, group*clockStep*stride, stride)
			out.micros[group], out.work[group] = min(out.micros[group], micros), work
			return err
		}
	})
	for _, l := range m.lanes[:started.Load()] {
		out.add(&l.sum)
	}
	return err
}

// group runs every stride-th query from one on, clockStep in all, and returns the mean time and work of one.
func (m *meter) group(ctx context.Context, l *lane, p Params, from, stride int) (
	micros, work float64, err error) {
	to := min(len(m.queries), from+clockStep*stride)
	start := time.Now()
	n := 0
	for i := from; i < to; i += stride {
		found, stats, err := l.s.Search(ctx, m.v, m.queries[i], &p, l.dst[:0])
		if err != nil {
			return 0, 0, err
		}
		l.dst = found
		want := m.truth[i][:min(m.k, len(m.truth[i]))]
		l.count(m.v.Rows.N, found, want, p.Beam > 0)
		l.sum.candidates += stats.Candidates
		n++
		work++
		if stats.Widened == 0 { // widening is rare, and mostly because rows on the way are held out
			work += float64(stats.Sketched + stats.Exact)
		}
	}
	return float64(time.Since(start)) / 1e3 / float64(n), work / float64(n), nil
}

// count adds to the sum which of the true rows were found and, with a beam, their places on it, of n rows
// in all. O(found + want + beam).
func (l *lane) count(n int, found []vector.Neighbor, want []uint32, beam bool) {
	if len(l.found) < n {
		l.found, l.place = make([]bool, n), make([]uint32, n)
	}
	for _, f := range found {
		l.found[f.ID] = true
	}
	var places []uint32
	if beam {
		places = l.s.hop
	}
	for i, id := range places {
		l.place[id] = uint32(i) + 1
	}
	hits := 0
	for i, id := range want {
		if l.found[id] {
			hits++
		}
		at := l.place[id]
		if at == 0 && beam && l.found[id] {
			at = 1 // found by a scan of newer rows or of all rows
		}
		if at > 0 {
			l.sum.places(int(at))
			l.sum.ranks[at-1]++
			if i == 0 {
				l.sum.first[at-1]++
			}
		}
	}
	l.sum.hit(hits, len(want))
	for _, f := range found {
		l.found[f.ID] = false
	}
	for _, id := range places {
		l.place[id] = 0
	}
}

// point summarises a sample. Interrupted groups do not count: those that took three times as long as another
// one for as much work are replaced by the mean of the others for their work.
func (s *sample) point(p Params) Point {
	least := math.Inf(1)
	for i, t := range s.micros {
		least = min(least, t/s.work[i])
	}
	sum, work, all := 0.0, 0.0, 0.0
	for i, t := range s.micros {
		all += s.work[i]
		if t <= 3*least*s.work[i] {
			sum += t
			work += s.work[i]
		}
	}
	return Point{
		Params:     p,
		Recall:     s.recall(),
		Micros:     sum * all / max(1, work*float64(len(s.micros))),
		Candidates: float64(s.candidates) / float64(max(1, s.queries)),
	}
}

// recall returns the share of the true rows that were found.
func (s *sample) recall() float64 { return float64(s.hits) / float64(max(1, s.possible)) }

// errorsOfMargin is the margin of a recall in standard errors: a normal variable is 1.645 deviations
// below its mean in 5 % of cases.
const errorsOfMargin = 1.645

// variance returns the variance of the recall as the mean of the queries' recalls.
func (s *sample) variance() float64 {
	if s.possible == 0 {
		return 0
	}
	n, possible := float64(s.queries), float64(s.possible)
	mean := float64(s.hits) / n
	return max(0, float64(s.squares)/n-mean*mean) * n / (possible * possible)
}

// together returns the ratio, at least 1, of the variance to that of rows that are found independently.
func (s *sample) together() float64 {
	alone := s.recall() * (1 - s.recall()) / float64(max(1, s.possible))
	if alone == 0 {
		return 1
	}
	return max(1, s.variance()/alone)
}

// byRank returns the recall by the number of rows, best estimate first, that get an exact
// distance, for all numbers up to a beam's width.
func (s *sample) byRank(width int) []float64 { return cumulated(s.ranks, width, s.possible) }

// nearestByRank is byRank for the nearest row alone.
func (s *sample) nearestByRank(width int) []float64 { return cumulated(s.first, width, s.queries) }

func cumulated(counts []int, width, all int) []float64 {
	out := make([]float64, width+1)
	hits := 0
	for i := range width {
		if i < len(counts) {
			hits += counts[i]
		}
		out[i+1] = float64(hits) / float64(max(1, all))
	}
	return out
}
