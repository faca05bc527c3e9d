package query

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// Where a view has sketches and lists, beams are the best settings for all but the lowest
// recalls, and they need no general search: recall and time rise with the width, and the places
// of the true rows on a beam determine the recall of any number R of exact distances without
// another run. So a schedule of widths, each twice the previous one, is measured on a sample.
// Then the widths around each commonly requested recall are narrowed down, and the chosen
// settings are measured on all queries.
const (
	scheduleKeep  = 3    // times k, exact distances of the schedule's runs
	scheduleTop   = 64   // times k, or times 10 if k is less, the widest of the schedule
	widest        = 192  // times k, or times 10 if k is less, the widest of all in small collections
	widestRows    = 128  // rows per place of the widest in large ones, about a third of a scan
	beamsOfScan   = 16   // rows per place of the beam from which a scan is as fast
	narrowSteps   = 2    // widths measured to narrow down a recall
	narrowGap     = 1.08 // ratio of two widths that needs no width between them
	recallSteps   = 5    // widths tried on all queries until one has the recall
	timeRounds    = 2    // rounds per setting, where one is too short for the clock
	priceRounds   = 3    // rounds where a difference of two times counts
	slopeOver     = 1.8  // minimum ratio of the widths that define a slope
	confirmations = 2    // times that an alternative start must be faster
	variedAt      = 0.8  // recall at which alternative starts are tried
	variedGain    = 0.93 // share of the time at which one is chosen
	longRun       = 1e5  // microseconds of a run that needs no second round
	levelOut      = 0.85 // share of misses that a width four times as large leaves
	minSlope      = 0.3  // minimum slope of the share of misses over the width
	overshoot     = 0.7  // share of the misses that are allowed from which a narrower beam is tried
	steep         = 4    // times the cost of 0.95 from which more starts are tried
	enough        = 0.99 // recall of a point from which the widest beam is not measured
)

// widthRun is the approximate maximum time of the run of one width, on all goroutines.
const widthRun = 60 * time.Millisecond

// moreStarts are the numbers of leaves visited in addition to one per tree where the rows of
// two trees do not lead to all others, or not directly.
var moreStarts = [...]int{4, 16, 64, 256}

// startRecalls are the recalls at which they are tried.
var startRecalls = [...]float64{0.9, 0.95, 0.99}

// refined are the commonly requested recalls, most important first.
var refined = [...]float64{0.95, 0.9, 0.99, 0.98, 0.8, 0.97, 0.85, 0.995, 0.999}

// widthStep is a width of the schedule with its measurements on the sample.
type widthStep struct {
	p      Params
	stride int // stride of the queries that were run
	micros float64
	found  []float64 // recall by the number of rows that get exact distances
	first  []float64 // the same for the nearest row alone
	// candidates is the mean number of rows elected.
	candidates float64
	// together is by how much the variance of the recall exceeds what it were if each row were found or
	// missed by itself: the rows of hard queries are missed together.
	together float64
}

// most returns the recall with exact distances of the whole beam.
func (r *widthStep) most() float64 { return r.found[len(r.found)-1] }

// least returns the number of exact distances that a recall requires, at least k.
func (r *widthStep) least(recall float64, k int) (rows int, ok bool) {
	rows, _ = slices.BinarySearch(r.found, recall)
	return min(max(rows, k), r.p.Beam), rows < len(r.found)
}

// beams searches for the settings with a beam.
type beams struct {
	t        *tuner
	base     Params      // start of beams: trees, threshold, extra leaves
	schedule []widthStep // widths ascending
	gaps     gapTable
	limited  bool    // settings have a gap
	exact    float64 // time of an exact distance
	time     [3]float64
	// bias is the ratio of the share of missed rows on all queries to that on the sample.
	bias float64
	// other is set for another depth than the one that was asked for. Its settings are not measured
	// again on all queries: the cheapest of many settings is one of those that were lucky, so a
	// chosen one has a standard error more.
	other  bool
	points []Point
	twin   *beams // beams of the same start with a gap, nil if none were measured
}

// beamPoints returns points with beams, measured on all queries, and the curves of other depths.
func (t *tuner) beamPoints(ctx context.Context) ([]Point, []Curve, error) {
	base := t.election(2, 1, 0, t.m.k)
	b := &beams{t: t, base: base, bias: 1}
	for _, step := range []func(context.Context) error{b.measureWidths, b.price, b.vary} {
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := b.measureRecalls(ctx, 0); err != nil {
		return nil, nil, err
	}
	var err error
	if b.gaps, err = b.measureGaps(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.addGapped(ctx, 0); err != nil {
		return nil, nil, err
	}
	starts, err := b.startMore(ctx)
	if err != nil {
		return nil, nil, err
	}
	points := settings(starts...)
	deep, err := t.deep(ctx, chosen(starts, points))
	return points, deep, err
}

// The measurement of Curve.ScanPlaces.
const (
	placesQueries  = 10
	placesRounds   = 3
	placesWidth    = 16 // times k, the width of the beam
	placesStep     = 8  // one row of so many is scanned
	fewestPlaces   = 8  // least and largest value
	mostScanPlaces = 64
)

// scanPlaces measures the time of a place on a beam as a number of sketches of a scan. The two take turns,
// so that other load on the machine affects both equally.
func (t *tuner) scanPlaces(ctx context.Context) (float64, error) {
	beam := Params{K: t.m.k, Trees: min(2, t.m.v.Forest.Trees), Sketch: true, Beam: placesWidth * t.m.k}
	beam.R = scheduleKeep * t.m.k
	scan := beam
	scan.Beam, scan.Filter = math.MaxInt32, roaring.New() // no beam is as wide
	if t.m.v.N < beamsOfScan*beam.Beam {
		return 0, nil
	}
	for row := 0; row < t.m.v.N; row += placesStep {
		scan.Filter.Add(uint32(row)) // the sketches of passing rows are rarely adjacent
	}
	var least [2]float64
	plain := NewSearcher() // which deleted rows and filters restrict
	for i := range min(placesQueries, len(t.m.queries)) {
		for j, of := range []struct {
			s *Searcher
			p *Params
		}{{t.m.lanes[0].s, &beam}, {plain, &scan}} {
			fastest := math.Inf(1)
			for range placesRounds {
				start := time.Now()
				if _, _, err := of.s.Search(ctx, t.m.v, t.m.queries[i], of.p, nil); err != nil {
					return 0, err
				}
				fastest = min(fastest, float64(time.Since(start)))
			}
			least[j] += fastest
		}
	}
	if least[0] <= 0 || least[1] <= 0 {
		return 0, nil // too short for the clock
	}
	ratio := least[0] / float64(beam.Beam) / (least[1] / float64(t.m.v.N/placesStep))
	return min(max(ratio, fewestPlaces), mostScanPlaces), nil
}

// startMore measures beams that start from more leaves, for the recalls at which they are faster, and for
// those that have no setting or cost many times what 0.95 does: wider beams do not help where the first rows
// do not lead to all others, more first rows may. It returns the beams of all starts that have settings, b
// first.
func (b *beams) startMore(ctx context.Context) ([]*beams, error) {
	starts := []*beams{b}
	for _, extra := range moreStarts {
		if b.t.elapsed() > patience*b.t.budget {
			break
		}
		more := *b
		more.base.Trees, more.base.Extra = b.t.m.v.Forest.Trees, extra
		more.schedule, more.points, more.twin = nil, nil, nil
		above, faster, err := b.outrunAbove(ctx, more.base)
		if err != nil {
			return nil, err
		}
		if !faster {
			var ok bool
			if above, ok = within(settings(starts...), steep); ok {
				break
			}
		}
		if err := more.measureWidths(ctx); err != nil {
			return nil, err
		}
		if err := more.measureRecalls(ctx, above); err != nil {
			return nil, err
		}
		known := gapless(starts)
		if !slices.ContainsFunc(more.points, func(p Point) bool { return !outdone(known, p) }) {
			break
		}
		if err := more.addGapped(ctx, above); err != nil {
			return nil, err
		}
		starts = append(starts, &more)
		if faster || b.level() || b.tooWide(b.schedule[len(b.schedule)-1].p.Beam) {
			b = &more // even more starts are compared with these
		}
	}
	return starts, nil
}

// deepStart is a start that is the fastest for recalls above one.
type deepStart struct {
	*beams
	above float64
}

// chosen returns the starts, fewest leaves first, of the cheapest of points for startRecalls. Where no beam
// has a recall, it is the last one.
func chosen(starts []*beams, points []Point) (out []deepStart) {
	measured := Curve{Points: points}
	above := 0.0
	for _, recall := range startRecalls {
		of := starts[len(starts)-1]
		if x := measured.cheapest(recall, climbs); x != nil {
			i := slices.IndexFunc(starts, func(b *beams) bool {
				return b.base.Trees == x.Params.Trees && b.base.Extra == x.Params.Extra
			})
			of = starts[max(0, i)]
		}
		if !slices.ContainsFunc(out, func(x deepStart) bool { return x.beams == of }) {
			out = append(out, deepStart{of, above})
		}
		above = recall
	}
	return out
}

// outrunAbove compares beams of another start at the widths of startRecalls. If they are clearly faster at
// one, it returns the recall before it.
func (b *beams) outrunAbove(ctx context.Context, base Params) (above float64, ok bool, err error) {
	for _, recall := range startRecalls {
		width := min(b.width(recall), float64(b.schedule[len(b.schedule)-1].p.Beam))
		as := b.setting(max(b.t.m.k, int(width)))
		p := as
		p.Trees, p.Extra = base.Trees, base.Extra
		ratio, err := b.confirmed(ctx, p, as, variedGain)
		if err != nil || ratio < variedGain {
			return above, err == nil, err
		}
		above = recall
	}
	return 0, false, nil
}

// within returns the highest of the refined recalls, at least 0.95, up to which each has a point that
// costs at most so many times what 0.95 does. ok is set if all of them have.
func within(points []Point, times float64) (recall float64, ok bool) {
	measured := Curve{Points: points}
	any := func(*Params) bool { return true }
	first := measured.cheapest(refined[0], any)
	if first == nil {
		return 0, false
	}
	recalls := slices.Clone(refined[:])
	slices.Sort(recalls)
	for _, r := range recalls {
		if r < refined[0] {
			continue
		}
		if x := measured.cheapest(r, any); x == nil || x.Micros > times*first.Micros {
			return recall, false
		}
		recall = r
	}
	return recall, true
}

// setting returns the base setting with a beam of the given width.
func (b *beams) setting(width int) Params {
	p := b.base
	b.resize(&p, width)
	p.R = min(width, scheduleKeep*b.t.m.k)
	return p
}

// add measures a width and inserts it into the schedule.
func (b *beams) add(ctx context.Context, width int) error {
	p, stride := b.setting(width), 1
	if len(b.schedule) > 2 {
		stride = b.t.affordable(b.micros(float64(width), p.R), widthRun*time.Duration(len(b.t.m.lanes)))
	}
	var s sample
	if err := b.t.run(ctx, p, stride, &s); err != nil {
		return err
	}
	is := s.point(p)
	r := widthStep{p: p, stride: stride, micros: is.Micros, found: s.byRank(width),
		first: s.nearestByRank(width), candidates: is.Candidates, together: s.together()}
	i, _ := slices.BinarySearchFunc(b.schedule, width, func(x widthStep, w int) int { return x.p.Beam - w })
	b.schedule = slices.Insert(b.schedule, i, r)
	b.fit()
	return nil
}

// measureWidths measures widths that double, until no row is missed or a run takes too long.
func (b *beams) measureWidths(ctx context.Context) error {
	b.schedule = b.schedule[:0]
	return b.widen(ctx, b.narrowest())
}

// widen is measureWidths from a width on.
func (b *beams) widen(ctx context.Context, width int) error {
	top := min(b.room()*scheduleTop*max(b.t.m.k, depths[1]), b.widest())
	for ; !b.widened(top); width *= 2 {
		if err := b.add(ctx, min(width, top)); err != nil {
			return err
		}
		b.t.advance(10 + 20*width/top)
	}
	return nil
}

// widened reports whether the schedule needs no wider beam than its widest.
func (b *beams) widened(top int) bool {
	if len(b.schedule) == 0 {
		return false
	}
	limit := b.t.budget
	if b.other {
		limit *= 2 // without a recall at this depth, none between it and the one before has a beam
	}
	late := len(b.schedule) > 3 && b.t.elapsed() > limit
	last := &b.schedule[len(b.schedule)-1]
	return last.most() >= reachedAll || last.p.Beam >= top || b.tooWide(last.p.Beam) ||
		b.other && b.tooWide(2*last.p.Beam) || late || b.level()
}

// widest returns the width of the widest beam.
func (b *beams) widest() int {
	return max(widest*max(b.t.m.k, depths[1]), b.t.m.v.N/widestRows)
}

// tooWide reports whether a beam costs about as much as a scan.
func (b *beams) tooWide(width int) bool { return width/b.room() >= b.t.m.v.N/beamsOfScan }

// level reports whether the last two widths found almost no additional rows.
func (b *beams) level() bool {
	n := len(b.schedule)
	return n > 2 && b.misses(b.schedule[n-1].most()) > levelOut*b.misses(b.schedule[n-3].most())
}

// affordsFew reports whether a run of a width takes too long to run all queries.
func (b *beams) affordsFew(width int) bool {
	p := b.setting(width)
	return b.t.affordable(b.micros(float64(width), p.R), affordableRun/2) > 1
}

// stride returns the stride of a sample that compares two settings.
func (b *beams) stride() int { return max(1, len(b.t.m.queries)/screenQueries) }

// price measures the cost of an exact distance, by two runs of one width.
func (b *beams) price(ctx context.Context) error {
	many := b.setting(2 * scheduleKeep * b.t.m.k)
	many.R = many.Beam
	few := many
	few.R = b.t.m.k
	var a, c sample
	for range priceRounds {
		if err := b.t.run(ctx, few, b.stride(), &a); err != nil {
			return err
		}
		if err := b.t.run(ctx, many, b.stride(), &c); err != nil {
			return err
		}
	}
	b.exact = max(0, (c.point(many).Micros-a.point(few).Micros)/float64(max(1, many.R-few.R)))
	// The clock is noisy, so the cost is limited to that of a place on the beam and its
	// distance together.
	b.exact = min(b.exact, c.point(many).Micros/float64(many.R)/2)
	b.fit()
	return nil
}

// vary tries alternative starts of a beam at a width that many queries will have, and rebuilds
// the schedule from one that is clearly faster at equal recall.
func (b *beams) vary(ctx context.Context) error {
	at := slices.IndexFunc(b.schedule, func(r widthStep) bool { return r.most() >= variedAt })
	if at < 0 {
		at = len(b.schedule) - 1
	}
	as := b.setting(b.schedule[at].p.Beam)
	best, gain := as, variedGain
	for _, change := range []func(p *Params){
		func(p *Params) { p.Trees = min(2*p.Trees, b.t.m.v.Forest.Trees) },
		func(p *Params) { p.Extra = 2 },
	} {
		p := as
		change(&p)
		if p.Trees == as.Trees && p.Extra == as.Extra {
			continue
		}
		if b.t.elapsed() > b.t.budget {
			break
		}
		ratio, err := b.confirmed(ctx, p, as, gain)
		if err != nil {
			return err
		}
		if ratio < gain {
			best, gain = p, ratio
		}
	}
	if best.Trees == as.Trees && best.Extra == as.Extra {
		return nil
	}
	b.base.Trees, b.base.Extra = best.Trees, best.Extra
	return b.measureWidths(ctx)
}

// confirmed returns the largest of several measurements of against, or the first of at least gain.
func (b *beams) confirmed(ctx context.Context, p, as Params, gain float64) (ratio float64, err error) {
	for range confirmations {
		r, err := b.against(ctx, p, as)
		if err != nil {
			return 0, err
		}
		if ratio = max(ratio, r); ratio >= gain {
			break
		}
	}
	return ratio, nil
}

// against returns the time of a setting as a share of another's at the same recall.
func (b *beams) against(ctx context.Context, p, as Params) (float64, error) {
	var is, was sample
	// Alternate, so that other load on the machine affects both equally.
	for range timeRounds {
		if err := b.t.run(ctx, as, b.stride(), &was); err != nil {
			return 0, err
		}
		if err := b.t.run(ctx, p, b.stride(), &is); err != nil {
			return 0, err
		}
	}
	same := b.ideal(was.byRank(as.Beam)[as.Beam]) / b.ideal(is.byRank(p.Beam)[p.Beam])
	return is.point(p).Micros / was.point(as).Micros * same, nil
}

// fit models the times of the schedule as c·width + a + b·sqrt(width) and the cost of the exact
// distances, by least squares of the relative error: one run is too noisy to compare neighbouring
// widths, all runs together are not. Terms with which a wider beam would not take longer, or a beam
// no time, are noise and left out. So is the part of the cost of an exact distance that exceeds half
// of what a row of some run takes.
func (b *beams) fit() {
	var timed []widthStep // the others were too short for the clock
	for _, r := range b.schedule {
		if r.micros > 0 {
			timed = append(timed, r)
			b.exact = min(b.exact, r.micros/float64(r.p.R)/2)
		}
	}
	for terms := min(3, len(timed)); terms > 0; terms-- {
		if b.fitTerms(timed, terms); b.rises() {
			return
		}
	}
	b.time = [3]float64{}
}

// fitTerms fits the first terms of the model to runs.
func (b *beams) fitTerms(runs []widthStep, terms int) {
	var m [3][4]float64
	for _, r := range runs {
		w := float64(r.p.Beam)
		x := [4]float64{w, 1, math.Sqrt(w), r.micros - b.exact*float64(r.p.R)}
		for i := range x {
			x[i] /= r.micros
		}
		for i := range 3 {
			for j := range 4 {
				m[i][j] += x[i] * x[j]
			}
		}
	}
	b.time = [3]float64{}
	for i := range terms {
		for j := i + 1; j < terms; j++ {
			f := m[j][i] / m[i][i]
			for c := range 4 {
				m[j][c] -= f * m[i][c]
			}
		}
	}
	for i := terms - 1; i >= 0; i-- {
		v := m[i][3]
		for j := i + 1; j < terms; j++ {
			v -= m[i][j] * b.time[j]
		}
		b.time[i] = v / m[i][i]
	}
}

// rises reports whether the modeled time is positive and does not fall over the widths of the schedule.
func (b *beams) rises() bool {
	least, most := float64(b.schedule[0].p.Beam), float64(b.schedule[len(b.schedule)-1].p.Beam)
	slope := func(width float64) float64 { return b.time[0] + b.time[2]/(2*math.Sqrt(width)) }
	return b.modeled(least) > 0 && slope(least) >= 0 && slope(most) >= 0
}

// modeled returns the modeled time of a width without exact distances.
func (b *beams) modeled(width float64) float64 {
	return b.time[0]*width + b.time[1] + b.time[2]*math.Sqrt(width)
}

// micros returns the expected time of a width with exact distances of rows rows.
func (b *beams) micros(width float64, rows int) float64 {
	first, last := &b.schedule[0], &b.schedule[len(b.schedule)-1]
	micros := b.modeled(max(width, float64(first.p.Beam))) + b.exact*float64(rows)
	if width > float64(last.p.Beam) {
		micros = max(micros, last.micros) // no width was measured there
	}
	return micros
}

// ideal returns the expected time of a recall, if every width were possible.
func (b *beams) ideal(recall float64) float64 {
	return b.micros(b.width(recall), scheduleKeep*b.t.m.k)
}

// width returns the width at which a whole beam has the recall. It interpolates linearly
// between the logarithms of width and share of misses of the two measured widths around it, or
// extrapolates from the nearest two.
func (b *beams) width(recall float64) float64 {
	i := slices.IndexFunc(b.schedule, func(r widthStep) bool { return r.most() >= recall })
	if i < 0 {
		i = len(b.schedule) - 1
	}
	i = max(i, min(1, len(b.schedule)-1))
	last := &b.schedule[i]
	return float64(last.p.Beam) * math.Pow(b.misses(last.most())/b.misses(recall), 1/b.slope(i))
}

// slope returns how fast the share of misses falls with the width up to widthStep i, as the exponent
// of a power, over sufficiently different widths.
func (b *beams) slope(i int) float64 {
	lo, hi := 0, b.schedule[i]
	for i > lo+1 && float64(b.schedule[lo+1].p.Beam) <= float64(hi.p.Beam)/slopeOver {
		lo++
	}
	if i == 0 {
		return 1
	}
	return b.slopeBetween(&b.schedule[lo], &hi)
}

// slopeBetween returns the slope between a width and a wider one, the least slope if it is not wider.
func (b *beams) slopeBetween(from, to *widthStep) float64 {
	if to.p.Beam <= from.p.Beam {
		return minSlope
	}
	fall := math.Log(b.misses(from.most()) / b.misses(to.most()))
	return max(minSlope, fall/math.Log(float64(to.p.Beam)/float64(from.p.Beam)))
}

// misses returns 1 - recall, at least the share of half a row among all requested rows.
func (b *beams) misses(recall float64) float64 {
	return max(1-recall, 0.5/float64(b.t.m.k*len(b.t.m.queries)))
}

// margin returns the standard error of a recall that was measured with a step's queries if settings are
// for another depth, else zero: then they are measured on all queries. For the nearest row alone, of which
// 1,000 queries say least, it is errorsOfMargin of them: with one, 0.979 was delivered for 0.99. For other
// depths that would cost too much: on GloVe, where depth 100 is measured on 100 queries, a search among half
// of the rows took three times as long.
func (b *beams) margin(recall float64, r *widthStep) float64 {
	if !b.other {
		return 0
	}
	requested := float64(b.t.m.k*len(b.t.m.queries)) / float64(r.stride)
	m := math.Sqrt(r.together * recall * (1 - recall) / requested)
	if b.t.m.k == 1 {
		return errorsOfMargin * m
	}
	return m
}

// choose returns the cheapest setting of a recall on the sample, and the widthStep that it is
// derived from.
func (b *beams) choose(recall float64) (p Params, from int) {
	best := math.Inf(1)
	from = -1
	for i := range b.schedule {
		r := &b.schedule[i]
		rows, reached := r.least(recall+b.margin(recall, r), b.t.m.k)
		if !reached {
			continue
		}
		if micros := b.micros(float64(r.p.Beam), rows); micros < best {
			best, p, from = micros, r.p, i
			p.R = rows
		}
	}
	last := len(b.schedule) - 1
	if top := &b.schedule[last]; from < 0 && b.other && top.most() >= recall {
		// The widest beam has the recall, if without the margin.
		p, from = top.p, last
		p.R, _ = top.least(top.most(), b.t.m.k)
	}
	return p, from
}

// between returns a width at which a recall is expected. ok is false if the ratio of the measured widths
// around it is at most gap squared, or the recall is beyond the schedule.
func (b *beams) between(recall, gap float64) (width int, ok bool) {
	i := slices.IndexFunc(b.schedule, func(r widthStep) bool { return r.most() >= recall })
	if i < 1 {
		return 0, false
	}
	lo, hi := b.schedule[i-1].p.Beam, b.schedule[i].p.Beam
	least, most := float64(lo)*gap, float64(hi)/gap
	if least > most {
		return 0, false
	}
	width = int(math.Ceil(min(max(b.width(recall), least), most)))
	return width, width > lo && width < hi
}

// measureRecalls measures settings for the commonly requested recalls beyond above, and the
// narrowest and the widest beam.
func (b *beams) measureRecalls(ctx context.Context, above float64) error {
	began := b.t.elapsed()
	ends := []widthStep{b.schedule[0], b.schedule[len(b.schedule)-1]}
	for i, recall := range refined {
		b.t.advance(30 + 60*i/len(refined))
		if recall <= above {
			continue
		}
		late := b.t.elapsed()-began > 2*b.t.budget
		want := 1 - (1-recall)/b.bias
		for range narrowSteps {
			width, ok := b.between(want, narrowGap)
			if !ok || late || b.affordsFew(width) {
				break
			}
			if err := b.add(ctx, width); err != nil {
				return err
			}
		}
		p, from := b.choose(want)
		if width := b.width(want); from < 0 || b.affordsFew(p.Beam) && width < float64(p.Beam) {
			// No measured width has the recall, or widths near it would cost as much as points.
			if from < 0 && (width > float64(b.widest()) || b.tooWide(int(width)) || b.level()) {
				continue
			}
			if from < 0 {
				from = len(b.schedule) - 1
			}
			rows := max(p.R, 2*scheduleKeep*b.t.m.k) // a negligible cost compared with such a beam
			p = b.setting(int(math.Ceil(width)))
			p.R = min(rows, p.Beam)
		}
		if late && b.affordsFew(p.Beam) || b.known(p, recall) {
			continue
		}
		if err := b.measureRecall(ctx, p, from, recall); err != nil {
			return err
		}
	}
	top := ends[1]
	rows, _ := top.least(top.most(), b.t.m.k)
	last := top.p
	last.R = rows
	if wide := b.widest(); top.most() < refined[len(refined)-1] && !b.level() && !b.tooWide(wide) {
		last = b.setting(wide)
		last.R *= 2
	}
	for _, p := range []Params{ends[0].p, last} {
		if top.most() <= above || slices.ContainsFunc(b.points, func(x Point) bool {
			return x.Params.Beam >= p.Beam && x.Params.R >= p.R || p.Beam == last.Beam && x.Recall >= enough
		}) {
			continue
		}
		if err := b.point(ctx, p, b.micros(float64(p.Beam), p.R), new(sample)); err != nil {
			return err
		}
	}
	return nil
}

// known adds a point for a recall if the schedule has a run of the setting's width on all queries, by
// which its recall is known, and reports whether it has.
func (b *beams) known(p Params, recall float64) bool {
	i := slices.IndexFunc(b.schedule, func(r widthStep) bool { return r.p.Beam == p.Beam && r.stride == 1 })
	if i < 0 {
		return false
	}
	r := &b.schedule[i]
	rows, reached := r.least(recall, b.t.m.k)
	if !reached {
		return false
	}
	p.R = rows
	b.points = append(b.points, Point{
		Params: p, Recall: r.found[rows], Micros: b.micros(float64(p.Beam), rows), Candidates: r.candidates,
	})
	return true
}

// measureRecall measures a setting on all queries. Then it adjusts the setting until it has the
// recall: by the number of exact distances that the places of the true rows require, or by a
// wider beam.
func (b *beams) measureRecall(ctx context.Context, p Params, from int, recall float64) error {
	last, slope := b.schedule[from], b.slope(from)
	for step := range recallSteps {
		if slices.ContainsFunc(b.points, func(x Point) bool {
			return x.Recall >= recall && x.Params.Beam <= p.Beam && x.Params.R <= p.R
		}) {
			return nil // a point for another recall has it
		}
		stride := b.t.affordable(b.micros(float64(p.Beam), p.R), affordableRun)
		var s sample
		if err := b.t.run(ctx, p, stride, &s); err != nil {
			return err
		}
		all := widthStep{p: p, stride: stride, micros: s.point(p).Micros, found: s.byRank(p.Beam)}
		if step == 0 && last.stride != stride {
			b.compare(&all, &last)
		}
		rows, reached := all.least(recall, b.t.m.k)
		narrower := math.Ceil(float64(p.Beam) *
			math.Pow(b.misses(all.most())/b.misses(recall), 1/max(slope, b.slopeBetween(&last, &all))))
		far := b.affordsFew(p.Beam) || b.misses(all.most()) < overshoot*b.misses(recall)
		if reached && step+1 < recallSteps && far && narrower*narrowGap < float64(p.Beam) {
			// No measured width was near enough to show that a narrower beam suffices, or the sample
			// was harder than all queries are.
			b.points = append(b.points, s.point(p))
			last = all
			b.resize(&p, max(int(narrower), b.t.m.k))
			p.R = min(p.R, p.Beam)
			continue
		}
		top := b.widest()
		if reached || step+1 == recallSteps || p.Beam >= top {
			if long := all.micros*float64(s.queries) > longRun; reached && rows != p.R &&
				!(long && rows < p.R) {
				p.R, s = rows, sample{}
			}
			return b.point(ctx, p, all.micros, &s)
		}
		if step > 0 {
			slope = min(slope, b.slopeBetween(&last, &all))
		}
		last = all
		// The slope falls with the width.
		wider := min(max(math.Pow(b.misses(all.most())/b.misses(recall), 1.2/slope), 1.02), 2)
		b.resize(&p, min(max(p.Beam+1, int(math.Ceil(float64(p.Beam)*wider))), top))
		p.R = min(p.Beam, max(p.R+1, int(math.Ceil(float64(p.R)*wider))))
	}
	return nil
}

// point measures a setting on all queries for a point of the curve. s holds the measurements so
// far.
func (b *beams) point(ctx context.Context, p Params, micros float64, s *sample) error {
	stride := b.t.affordable(micros, affordableRun)
	rounds := timeRounds
	if micros*float64(len(b.t.m.queries)) > longRun {
		rounds = 1
	}
	if s.queries > 0 {
		rounds--
	}
	for range rounds {
		if err := b.t.run(ctx, p, stride, s); err != nil {
			return err
		}
	}
	b.points = append(b.points, s.point(p))
	return nil
}

// compare computes the bias between the sample and all queries over all numbers of exact
// distances that one width allows.
func (b *beams) compare(all, part *widthStep) {
	var x, y float64
	for rows := b.t.m.k; rows < min(len(all.found), len(part.found)); rows++ {
		x += 1 - all.found[rows]
		y += 1 - part.found[rows]
	}
	if y > 0 {
		b.bias = min(max(x/y, 0.7), 1.4)
	}
}
