package forestbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/recall"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// ErrOptions is wrapped by the errors for options that no run can have.
var ErrOptions = errors.New("forestbench: bad option")

// rotatedSuffix marks a learner that splits on principal coordinates.
const rotatedSuffix = "-rot"

// Kinds lists the forests that Run measures: the learners, and the
// axis-aligned ones over rotated coordinates.
func Kinds() []string {
	return []string{
		string(forest.RP), string(forest.KD), string(forest.KDChrono), string(forest.PCATree),
		string(forest.RF), string(forest.KD) + rotatedSuffix, string(forest.KDChrono) + rotatedSuffix,
		string(forest.RF) + rotatedSuffix,
	}
}

// maxTrees bounds a forest: the sums of 16 bits hold no more trees' votes.
const maxTrees = 250

// Options of a run. Only K and the lists are required.
type Options struct {
	K      int      // neighbours wanted
	Kinds  []string // of Kinds
	Depths []int    // levels of a tree; those with more leaves than rows are left out
	// Trees is how many trees a forest has, at most, for the natural
	// classifier, and VoteTrees for voting and lookup, which need more; smaller
	// numbers are measured too. Zero means a number at which the learner
	// reaches high recall in a reasonable time: 24 to 40, and 48 to 160.
	Trees     int
	VoteTrees int
	// LabelsK is how many nearest rows are a training point's labels, 50 when
	// zero.
	LabelsK int
	// Rotate is the number of principal coordinates of rotated kinds, 64 when
	// zero.
	Rotate int
	// Rounds is how often every setting that is worth it is timed, 3 when
	// zero, at most: slow settings get fewer.
	Rounds  int
	Seed    uint64
	Workers int // goroutines of everything but the searches that are timed
	// Measured, if not nil, gets the points of each forest once all its settings are measured.
	Measured func(forest string, points []Point)
}

func (o Options) resolve(n int) (Options, error) {
	bad := func(format string, a ...any) (Options, error) {
		return o, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, a...))
	}
	if o.K < 1 || o.K > n {
		return bad("k is %d, want 1 to the %d rows", o.K, n)
	}
	for _, k := range o.Kinds {
		if !slices.Contains(Kinds(), k) {
			return bad("unknown forest %q (want some of %s)", k, strings.Join(Kinds(), ", "))
		}
	}
	for _, n := range []int{o.Trees, o.VoteTrees} {
		if n < 0 || n > maxTrees {
			return bad("%d trees, want 1 to %d", n, maxTrees)
		}
	}
	var depths []int
	for _, d := range o.Depths {
		if d < 1 || d > 20 {
			return bad("depth %d, want 1 to 20", d)
		}
		if 1<<d <= n {
			depths = append(depths, d)
		}
	}
	if len(depths) == 0 || len(o.Kinds) == 0 {
		return bad("no forest, or no depth at which %d rows fill the leaves", n)
	}
	o.Depths = depths
	for _, d := range []struct {
		field     *int
		otherwise int
	}{{&o.LabelsK, 50}, {&o.Rotate, 64}, {&o.Rounds, 3}} {
		if *d.field == 0 {
			*d.field = d.otherwise
		}
		if *d.field < 1 {
			return bad("a count is negative")
		}
	}
	o.Workers = par.Workers(o.Workers)
	return o, nil
}

// run is the state of a run.
type run struct {
	Options
	corpus   *corpus
	queries  [][]float32
	truth    *recall.Truth
	labels   *labels.Neighbors
	rotation *forest.Rotation
	rotated  *Matrix
	searcher *query.Searcher
	found    []vector.Neighbor
	rng      *rand.Rand
}

// Run measures every forest of o.Kinds with every method on the queries, on
// one thread.
//
// Every forest is learned at several depths, with label tables for the natural
// classifier and with member lists for voting and lookup (see servesAt); every
// number of trees and threshold of a grid is tried on a sample of the queries; the
// settings near the front of that are then timed on all queries, those of all
// methods and depths in turn, in a new random order for every round, so that
// a busy spell of the machine hits all alike. A query's time is its median
// over the rounds, and a setting's time the mean over its queries.
//
// Errors: ErrOptions, the context's, and those of package labels, forest and
// query.
func Run(
	ctx context.Context, rows *Matrix, metric vector.Metric, queries [][]float32, o Options,
) ([]Point, error) {
	o, err := o.resolve(rows.N)
	if err != nil {
		return nil, err
	}
	r := &run{
		Options: o, corpus: newCorpus(rows, metric), queries: queries,
		searcher: query.NewSearcher(), rng: rand.New(rand.NewPCG(o.Seed, 0x62656e6368)),
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	var all []Point
	for _, kind := range o.Kinds {
		points, err := r.kind(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("forestbench: %s: %w", kind, err)
		}
		all = append(all, points...)
		if o.Measured != nil {
			o.Measured(kind, points)
		}
	}
	return all, nil
}

// prepare computes what all forests share: true answers, labels, rotation.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.truth, err = r.exact(ctx); err != nil {
		return err
	}
	r.labels, err = labels.ExactNeighbors(ctx, r.corpus.space, nil, r.LabelsK, r.Workers, nil)
	if err != nil {
		return fmt.Errorf("forestbench: %w", err)
	}
	if slices.ContainsFunc(r.Kinds, func(k string) bool { return strings.HasSuffix(k, rotatedSuffix) }) {
		r.rotation, r.rotated, err = r.corpus.rotate(ctx, r.Rotate, r.Seed, r.Workers)
	}
	return err
}

// exact answers all queries by scanning all rows.
func (r *run) exact(ctx context.Context) (*recall.Truth, error) {
	found := make([][]vector.Neighbor, len(r.queries))
	work := par.Work{N: len(r.queries), Workers: r.Workers}
	err := par.Items(ctx, work, func() func(i int) error {
		s := query.NewSearcher()
		p := query.Params{K: r.K, Method: query.Flat}
		return func(i int) (err error) {
			found[i], _, err = s.Search(ctx, &r.corpus.base, r.queries[i], &p, nil)
			return err
		}
	})
	if err != nil {
		return nil, fmt.Errorf("forestbench: true answers: %w", err)
	}
	t := new(recall.Truth)
	for _, hits := range found {
		rows := make([]uint32, len(hits))
		for i, h := range hits {
			rows[i] = h.ID
		}
		t.Add(rows, hits[len(hits)-1].Distance)
	}
	return t, nil
}

// setting is one way to search, and what is known of it.
type setting struct {
	view   *query.View
	depth  int
	params query.Params
	recall float64
	micros float64
	cands  float64
	rounds [][]float64 // µs of every query
}

// kind measures one forest at all depths.
func (r *run) kind(ctx context.Context, kind string) ([]Point, error) {
	var tried []*setting
	for _, members := range []bool{false, true} {
		for _, depth := range servesAt(r.Depths, r.corpus.space.N, members) {
			view, err := r.learn(ctx, kind, depth, members)
			if err != nil {
				return nil, err
			}
			s, err := r.screen(ctx, view)
			if err != nil {
				return nil, err
			}
			tried = append(tried, s...)
		}
	}
	var chosen []*setting
	for _, m := range Methods() {
		chosen = append(chosen, worthwhile(tried, m)...)
	}
	if err := r.time(ctx, chosen); err != nil {
		return nil, err
	}
	var points []Point
	for _, s := range chosen {
		points = append(points, Point{
			Forest: kind, Method: s.params.Method.String(), Depth: s.depth, Trees: s.params.Trees, Tau: s.params.Tau,
			Votes: s.params.Votes, Recall: s.recall, Micros: s.micros, Candidates: s.cands,
		})
	}
	return points, nil
}

// servesAt are the depths worth learning: the natural classifier wants leaves
// of few rows, voting and lookup want larger ones. Depths with more than 64
// rows a leaf are left out for the one and with fewer than 8 for the others,
// unless that leaves nothing.
func servesAt(depths []int, n int, members bool) []int {
	var out []int
	for _, d := range depths {
		if leaf := n >> d; members && leaf >= 8 || !members && leaf <= 64 {
			out = append(out, d)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case members:
		return []int{slices.Min(depths)}
	}
	return []int{slices.Max(depths)}
}

// trees is how many trees a forest gets.
func (r *run) trees(kind forest.Kind, members bool) int {
	asked, natural, voters := r.Trees, 40, 120
	switch kind {
	case forest.KDChrono:
		return 1 // it draws nothing: all its trees are the same
	case forest.KD:
		voters = 160
	case forest.PCATree:
		natural, voters = 30, 80
	case forest.RF:
		natural, voters = 24, 48
	}
	if members {
		asked, natural = r.VoteTrees, voters
	}
	if asked > 0 {
		return asked
	}
	return natural
}

// params are those of a forest of a kind.
func (r *run) params(kind string, depth int, members bool) forest.Params {
	name := strings.TrimSuffix(kind, rotatedSuffix)
	p := forest.Params{Kind: forest.Kind(name), Depth: depth, Seed: r.Seed, Members: members, Natural: !members}
	p.Trees = r.trees(p.Kind, members)
	return p
}

// space returns the rows that forests of a kind are grown on, and the rotation that made them, nil for none.
func (r *run) space(kind string) (*Matrix, *forest.Rotation) {
	if strings.HasSuffix(kind, rotatedSuffix) {
		return r.rotated, r.rotation
	}
	return r.corpus.space, nil
}

// learn grows a forest of a kind and puts the corpus behind it.
func (r *run) learn(ctx context.Context, kind string, depth int, members bool) (*query.View, error) {
	rows, rotation := r.space(kind)
	f, err := forest.Learn(ctx, rows, rows.N, r.labels, r.params(kind, depth, members), r.Workers, nil)
	if err != nil {
		return nil, err
	}
	return r.corpus.view(f, rotation)
}

const (
	// leastRecall is the recall below which nobody cares about a setting.
	leastRecall = 0.6
	// enough is the recall above which more trees can only cost time.
	enough = 0.9995
	// screenQueries is how many queries a setting is tried on first.
	screenQueries = 100
)

// screen tries the numbers of trees and the thresholds of the methods that
// the forest serves. A higher threshold finds less, so the thresholds of one
// number of trees end where the recall falls below leastRecall.
func (r *run) screen(ctx context.Context, view *query.View) ([]*setting, error) {
	var out []*setting
	f := view.Forest
	sample := min(screenQueries, len(r.queries))
	for _, m := range Methods() {
		if f.Params.Members != (m == query.Voting || m == query.Lookup) {
			continue
		}
		for _, trees := range prefixes(f.Trees) {
			best := 0.0
			for _, p := range thresholds(f, m, trees) {
				s := &setting{view: view, depth: f.Depth, params: p}
				s.params.K, s.params.NoWiden = r.K, true
				laps, err := r.ask(ctx, s, sample)
				if err != nil {
					return nil, err
				}
				if s.recall < leastRecall {
					break
				}
				s.micros = trimmedMean(laps)
				best = max(best, s.recall)
				out = append(out, s)
			}
			if best > enough {
				break
			}
		}
	}
	return out, nil
}

// trimmedMean is the mean of the lower four fifths, which a thread that was
// made to wait does not spoil.
func trimmedMean(x []float64) float64 {
	slices.Sort(x)
	x = x[:max(1, len(x)*4/5)]
	return mean(x)
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// prefixes are the numbers of trees to try: all small ones, then steps of a
// quarter to a third.
func prefixes(trees int) []int {
	var out []int
	for n := 1; n < trees; n = max(n+1, n*5/4) {
		out = append(out, n)
	}
	return append(out, trees)
}

// thresholds are the parameters to try for a method and a number of trees, by
// rising threshold. The lowest thresholds are methods of their own:
// natural-zero and lookup.
func thresholds(f *forest.Forest, m query.Method, trees int) []query.Params {
	p := query.Params{Method: m, Trees: trees}
	switch m {
	case query.Natural:
		var out []query.Params
		for sum := 2; ; sum = max(sum+1, sum*7/5) {
			// Between two sums, so that rounding decides nothing.
			p.Tau = (float64(sum) - 0.5) / (float64(trees) * f.MeanLeaf())
			if p.Tau >= 1 {
				return out
			}
			out = append(out, p)
		}
	case query.Voting:
		var out []query.Params
		for v := 2; v <= trees; v = max(v+1, v*5/4) {
			p.Votes = v
			out = append(out, p)
		}
		return out
	}
	return []query.Params{p}
}

// worthwhile are the settings of a method that may turn out to be on its
// front: within narrow bands of recall the cheapest two, unless something
// with a better recall is clearly cheaper.
func worthwhile(tried []*setting, m query.Method) []*setting {
	const slack = 1.2 // what a single pass over few queries may be off by
	var own []*setting
	for _, s := range tried {
		if s.params.Method == m {
			own = append(own, s)
		}
	}
	slices.SortFunc(own, func(a, b *setting) int { return cmp.Compare(a.micros, b.micros) })
	band := func(recall float64) int {
		if recall < 0.97 {
			return int(recall * 50)
		}
		return 1000 + int(recall*200)
	}
	taken := map[int]int{}
	var out []*setting
	for _, s := range own {
		b := band(s.recall)
		beaten := slices.ContainsFunc(out, func(x *setting) bool {
			return x.recall >= s.recall && x.micros*slack < s.micros
		})
		if taken[b] < 2 && !beaten {
			taken[b]++
			out = append(out, s)
		}
	}
	return out
}

// settingBudget is the time after which a slow setting gets no more rounds.
const settingBudget = time.Second

// time measures settings on all queries, round by round.
func (r *run) time(ctx context.Context, settings []*setting) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	spent := make([]time.Duration, len(settings))
	for range r.Rounds {
		for _, i := range r.rng.Perm(len(settings)) {
			if spent[i] > settingBudget {
				continue
			}
			start := time.Now()
			laps, err := r.ask(ctx, settings[i], len(r.queries))
			if err != nil {
				return err
			}
			spent[i] += time.Since(start)
			settings[i].rounds = append(settings[i].rounds, laps)
		}
	}
	for _, s := range settings {
		s.micros = meanOfMedians(s.rounds)
		s.rounds = nil
	}
	return nil
}

// meanOfMedians is the mean over queries of the median over rounds.
func meanOfMedians(rounds [][]float64) float64 {
	medians := make([]float64, len(rounds[0]))
	times := make([]float64, len(rounds))
	for i := range medians {
		for n, laps := range rounds {
			times[n] = laps[i]
		}
		slices.Sort(times)
		medians[i] = times[(len(times)-1)/2]
	}
	return mean(medians)
}

// ask searches for the first n queries, notes the recall and the mean number
// of candidates, and returns what every query took in µs. Judging the answers
// is not timed.
func (r *run) ask(ctx context.Context, s *setting, n int) ([]float64, error) {
	laps := make([]float64, n)
	right, elected := 0, 0
	for i, q := range r.queries[:n] {
		start := time.Now()
		found, stats, err := r.searcher.Search(ctx, s.view, q, &s.params, r.found[:0])
		laps[i] = float64(time.Since(start).Nanoseconds()) / 1e3
		if err != nil {
			return nil, err
		}
		r.found = found
		elected += stats.Candidates
		for _, h := range found {
			if r.truth.Right(i, h.ID, h.Distance) {
				right++
			}
		}
	}
	s.recall = float64(right) / float64(n*r.K)
	s.cands = float64(elected) / float64(n)
	return laps, nil
}
