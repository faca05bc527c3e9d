package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/anndb/anndb/bench/internal/vectors"
)

// cell is one system at one target recall, measured on the test queries.
type cell struct {
	Setting string
	Recall  float64
	// Micros is the mean time of a query, P50 and P99 are of single queries;
	// all three are medians over the passes.
	Micros, P50, P99 float64
	// Allocs are allocations a query, negative where nobody counts.
	Allocs float64
	// Work is what the system says it did for a query.
	Work string
}

// line is what a table says of one system.
type line struct {
	System string
	Note   string
	// About is the library's version and compile-time facts.
	About string
	Build made
	// Disk is the index's file, Resident the memory of the process that serves
	// from it, Own the part of that which is no file's page and which the system
	// cannot drop and read again, all in bytes; First the seconds from open to the
	// first answer in a new process, the file in the page cache.
	Disk          int64
	Resident, Own float64
	First         float64
	// One and Two are queries a second of a batch on one and on two threads, at
	// the setting for recall 0.95.
	One, Two float64
	Cells    map[string]cell
	// Curve is every setting tried, on the test queries. Nothing is chosen
	// by it.
	Curve []trial
}

// at is the key of a target in line.Cells.
func at(target float64) string { return strconv.FormatFloat(target, 'g', -1, 64) }

// runner is a system that is being measured.
type runner struct {
	*system
	p       *process
	trials  []trial
	chosen  map[string]string
	samples map[string]*samples
	line    *line
}

type samples struct {
	micros, p50, p99 []float64
	allocs           float64
	work             string
	ids              []uint32
}

// report is all that was measured on one set.
type report struct {
	Set   string
	Rows  int
	Dim   int
	Lines []*line
}

// measure runs the systems, interleaved: in every round each system answers all
// test queries at each target, first without a clock, so that caches hold what
// it needs and not what the system before it needed, then with one.
func (l *lab) measure(ctx context.Context, list []system, o *config) (rep *report, err error) {
	var running []*runner
	defer func() {
		for _, r := range running {
			err = errors.Join(err, r.p.stop())
		}
	}()
	for i := range list {
		s := &list[i]
		r := &runner{system: s, chosen: map[string]string{}, samples: map[string]*samples{}}
		if e := load(l.trialPath(s), &r.trials); e != nil {
			l.say("%s: %s has no settings chosen: SKIPPED", l.set.Name, s.name)
			continue
		}
		r.line = &line{System: s.name, Note: s.note, Cells: map[string]cell{}}
		if e := load(l.madePath(s), &r.line.Build); e != nil {
			return nil, e
		}
		st, e := os.Stat(l.indexPath(s))
		if e != nil {
			return nil, e
		}
		r.line.Disk = st.Size()
		if r.p, e = l.open(ctx, s); e != nil {
			return nil, e
		}
		running = append(running, r)
		if r.line.About, e = r.p.ask("info"); e != nil {
			return nil, e
		}
		for _, t := range o.targets {
			if setting, ok := s.choose(r.trials, t); ok {
				r.chosen[at(t)] = setting
				r.samples[at(t)] = &samples{}
			}
		}
	}
	if err := l.rounds(running, o); err != nil {
		return nil, err
	}
	rep = &report{Set: l.set.Name, Rows: l.set.Rows(), Dim: l.set.Dim}
	for _, r := range running {
		if e := l.fill(ctx, r, o); e != nil {
			return nil, e
		}
		rep.Lines = append(rep.Lines, r.line)
	}
	return rep, nil
}

func (l *lab) rounds(running []*runner, o *config) error {
	for round := range o.rounds {
		for _, t := range o.targets {
			for _, r := range running {
				setting, ok := r.chosen[at(t)]
				if !ok {
					continue
				}
				x := r.samples[at(t)]
				// The clock does not care for caches when a query takes long.
				warm := 1
				if len(x.micros) > 0 && x.micros[0] > 300 {
					warm = 0
				}
				got, err := r.p.run("test", k, 1, warm, r.limit, setting)
				if err != nil {
					return err
				}
				x.micros = append(x.micros, got.means()...)
				x.p50 = append(x.p50, quantile(got.ns[0], 0.50))
				x.p99 = append(x.p99, quantile(got.ns[0], 0.99))
				x.allocs, x.work, x.ids = got.allocs, got.work, got.ids
			}
		}
		l.say("%s: round %d of %d", l.set.Name, round+1, o.rounds)
	}
	return nil
}

// fill computes a system's line, and measures what is not measured in rounds.
func (l *lab) fill(ctx context.Context, r *runner, o *config) error {
	for _, t := range o.targets {
		x, ok := r.samples[at(t)]
		if !ok {
			continue
		}
		r.line.Cells[at(t)] = cell{
			Setting: r.chosen[at(t)], Recall: recall(l.set, l.truths["test"], l.set.Test, x.ids),
			Micros: median(x.micros), P50: median(x.p50), P99: median(x.p99), Allocs: x.allocs, Work: x.work,
		}
	}
	var err error
	if r.line.Resident, _, err = r.p.value("rss", "rss"); err != nil {
		return err
	}
	if r.line.Own, _, err = r.p.value("own", "rss"); err != nil {
		return err
	}
	setting, ok := r.chosen[at(0.95)]
	if !ok {
		return nil
	}
	// A curve of an older index is not this index's.
	if curve, e := os.Stat(l.curvePath(r.system)); e == nil {
		if made, e := os.Stat(l.indexPath(r.system)); e == nil && curve.ModTime().After(made.ModTime()) {
			if err := load(l.curvePath(r.system), &r.line.Curve); err != nil {
				return err
			}
		}
	}
	if o.batch && r.limit == 0 {
		if r.line.One, r.line.Two, err = l.throughput(r, setting, o.rounds); err != nil {
			return err
		}
	}
	if o.first {
		r.line.First, err = l.firstAnswer(ctx, r.system, setting, o.rounds)
	}
	return err
}

// throughput is queries a second of a batch on one and two threads, medians of
// alternating passes after one that is not counted.
func (l *lab) throughput(r *runner, setting string, rounds int) (one, two float64, err error) {
	var qps [2][]float64
	for round := range rounds + 1 {
		for i, threads := range []string{"1", "2"} {
			s, _, err := r.p.value("seconds", "batch", "test", strconv.Itoa(k), threads, setting)
			if err != nil {
				return 0, 0, err
			}
			if round > 0 {
				qps[i] = append(qps[i], vectors.QueryRows/s)
			}
		}
	}
	return median(qps[0]), median(qps[1]), nil
}

// firstAnswer is the median time from open to the first answer, each time in
// a new process.
func (l *lab) firstAnswer(ctx context.Context, s *system, setting string, rounds int) (float64, error) {
	var all []float64
	for range rounds {
		p, err := l.child(ctx, s)
		if err != nil {
			return 0, err
		}
		took, _, err := p.value("seconds", "first", l.indexPath(s), "test", strconv.Itoa(k), s.build, "--", setting)
		if err := errors.Join(err, p.stop()); err != nil {
			return 0, fmt.Errorf("first answer: %w", err)
		}
		all = append(all, took)
	}
	return median(all), nil
}
