// Command dense measures anndb's dense search beside other libraries, on the
// same rows and the same queries, in turn on one thread; bench/README.md has
// the rules.
//
//	go run ./bench/dense -data ../shared/data
//	go run ./bench/dense -data ../shared/data -sets fashion-mnist -systems 'anndb*,hnswlib*'
//	go run ./bench/dense -sets generated-10k,generated-100k,generated-1m -scale
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/bench/internal/vectors"
)

// config is the command line.
type config struct {
	data, cache, drivers, out string
	sets, systems, phases     []string
	rebuild                   []string
	threads                   []int
	targets                   []float64
	rounds, core              int
	batch, first, scaling     bool
	filters                   bool
	begin                     time.Time
}

func (c *config) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(c.begin).Seconds(), fmt.Sprintf(format, args...))
}

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "dense:", err)
		os.Exit(1)
	}
}

func command() error {
	c := &config{begin: time.Now()}
	var sets, list, phases, rebuild, threads, levels string
	var serve bool
	flag.StringVar(&c.data, "data", "../shared/data", "folder of the public data sets")
	flag.StringVar(&c.cache, "cache", filepath.Join(os.TempDir(), "anndb-bench"), "folder for raw rows, indexes and what was measured of them; some GB")
	flag.StringVar(&c.drivers, "peers", "bench/peers/bin", "folder of the peers' drivers; bench/peers/build makes them")
	flag.StringVar(&c.out, "out", "bench/results", "folder for tables and plots")
	flag.StringVar(&sets, "sets", "fashion-mnist", "data sets, with commas: "+strings.Join(vectors.Names(), ", ")+", or all")
	flag.StringVar(&list, "systems", "", "systems, with commas, * at the end for any ending; all when empty")
	flag.StringVar(&phases, "phases", "build,choose,curve,measure", "what to do: build indexes that are missing, choose settings on validation queries, measure the plot's curves on test queries, measure the chosen settings on test queries")
	flag.StringVar(&rebuild, "rebuild", "", "systems whose index and settings are made again, like -systems")
	flag.StringVar(&threads, "threads", "2", "numbers of threads of builds to time, with commas")
	flag.StringVar(&levels, "recalls", "0.8,0.9,0.95,0.99,0.999", "target recalls")
	flag.IntVar(&c.rounds, "rounds", 5, "passes over the test queries; medians are reported")
	flag.IntVar(&c.core, "core", 1, "core that queries run on")
	flag.BoolVar(&c.batch, "batch", true, "measure batches on one and two threads")
	flag.BoolVar(&c.first, "first", true, "measure the time from open to the first answer")
	flag.BoolVar(&c.scaling, "scale", false, "after all, draw time against rows from the reports of "+strings.Join(scaleSets, ", "))
	flag.BoolVar(&c.filters, "filters", false, "measure searches with filters instead of those without")
	flag.BoolVar(&serve, "serve", false, "serve anndb to a measuring process (internal)")
	flag.Parse()
	if serve {
		return child.Serve(&engine{}, c.core, os.Stdin, os.Stdout)
	}
	c.sets, c.systems, c.phases, c.rebuild = split(sets), split(list), split(phases), split(rebuild)
	if sets == "all" {
		c.sets = vectors.Names()
	}
	for _, t := range split(threads) {
		n, err := strconv.Atoi(t)
		if err != nil {
			return fmt.Errorf("-threads: %w", err)
		}
		c.threads = append(c.threads, n)
	}
	for _, t := range split(levels) {
		r, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return fmt.Errorf("-recalls: %w", err)
		}
		c.targets = append(c.targets, r)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.peers(ctx); err != nil {
		return err
	}
	for _, name := range c.sets {
		if err := c.run(ctx, name); err != nil {
			return err
		}
	}
	if c.scaling {
		return c.scale(0.95)
	}
	return nil
}

func split(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(w string) bool { return w == "" })
}

// peers builds the drivers where there are none at all.
func (c *config) peers(ctx context.Context) error {
	if _, err := os.Stat(c.drivers); err == nil || !slices.Contains(c.phases, "build") {
		return nil
	}
	script := filepath.Join(filepath.Dir(c.drivers), "build")
	if _, err := os.Stat(script); err != nil {
		c.say("no drivers in %s and no %s: peers will be SKIPPED", c.drivers, script)
		return nil
	}
	c.say("building the peers' drivers by %s", script)
	cmd := exec.CommandContext(ctx, script)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// run does the phases for one set.
func (c *config) run(ctx context.Context, name string) error {
	l, err := newLab(c, name)
	if err != nil {
		return err
	}
	all := systems(l.set)
	if c.filters {
		all = filteredSystems(l.set)
	}
	list := pick(all, c.systems)
	if len(c.rebuild) > 0 {
		for _, s := range pick(list, c.rebuild) {
			for _, path := range []string{l.madePath(&s), l.trialPath(&s), l.curvePath(&s)} {
				if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
		}
	}
	if list, err = c.prepare(ctx, l, list); err != nil {
		return err
	}
	if !slices.Contains(c.phases, "measure") {
		return nil
	}
	if c.filters {
		return l.filtered(ctx, list, c)
	}
	rep, err := l.measure(ctx, list, c)
	if err != nil {
		return err
	}
	return rep.write(c)
}

// prepare builds indexes and chooses settings. Systems whose driver is missing
// are left out, loudly.
func (c *config) prepare(ctx context.Context, l *lab, list []system) ([]system, error) {
	var out []system
	for _, s := range list {
		if _, err := l.argv(s.driver); errors.Is(err, errDriver) {
			c.say("%s: %s SKIPPED: %v", l.set.Name, s.name, err)
			continue
		} else if err != nil {
			return nil, err
		}
		if slices.Contains(c.phases, "build") {
			if err := l.builds(ctx, &s, c.threads); err != nil {
				return nil, err
			}
		}
		if slices.Contains(c.phases, "choose") && !c.filters {
			if err := l.tries(ctx, &s, "valid", l.trialPath(&s)); err != nil {
				return nil, err
			}
		}
		if slices.Contains(c.phases, "curve") && !c.filters {
			if err := l.tries(ctx, &s, "test", l.curvePath(&s)); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// tries measures all settings of a system on a slot of queries and keeps the
// trials in a file, unless that was done since its index was built.
func (l *lab) tries(ctx context.Context, s *system, slot, path string) error {
	index, err := os.Stat(l.indexPath(s))
	if err != nil {
		return err
	}
	if done, err := os.Stat(path); err == nil && done.ModTime().After(index.ModTime()) {
		return nil
	}
	p, err := l.open(ctx, s)
	if err != nil {
		return err
	}
	trials, err := l.try(p, s, slot)
	if err := errors.Join(err, p.stop()); err != nil {
		return err
	}
	last := trials[len(trials)-1]
	l.say("%s: %s: %d settings on %s queries, %s gives %.4f in %.1f µs", l.set.Name, s.name, len(trials), slot, last.Setting, last.Recall, last.Micros)
	return save(path, trials)
}
