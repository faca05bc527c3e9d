package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/crash"
	"github.com/anndb/anndb/torture/internal/faultfs"
	"github.com/anndb/anndb/torture/internal/work"
)

// brief is a workload of at most three operations on a database of a few
// batches: bugs of crash consistency hardly ever need more (Mohan et al. 2018,
// CrashMonkey and ACE).
type brief struct {
	name  string
	fresh bool     // begins without a file
	base  []string // done before the record
	steps []string
	// unsynced makes the first fsync of the directory fail, and the step that
	// asks for it may fail with it.
	unsynced bool
}

// The third of these changes everything that a commit can: the others come
// with steps that replace files, share objects among generations, and remove
// them.
var briefs = []brief{
	{name: "create", fresh: true, steps: []string{"open", "create", "batch"}},
	{name: "update", base: []string{"create", "batch", "batch", "batch"}, steps: []string{"batch", "batch"}},
	{name: "build", base: []string{"create", "batch", "batch"}, steps: []string{work.Build, "batch"}},
	{name: "compact", base: []string{"create", "batch", "batch", work.Build, "batch"}, steps: []string{work.Compact, "batch"}},
	{name: "reorder", base: []string{"create", "batch", "batch"}, steps: []string{work.Reorder, "batch"}},
	{name: "maintain", base: []string{"create", "batch", "batch", work.Build, "batch"}, steps: []string{work.Maintain, "batch", work.Drop}},
	{
		name: "compact unsynced", base: []string{"create", "batch", "batch"},
		steps: []string{work.Compact, "close", "open", "batch"}, unsynced: true,
	},
	{
		name: "create unsynced", fresh: true,
		steps: []string{"open", "open", "create", "batch"}, unsynced: true,
	},
}

// fileName is what databases are called here.
const fileName = "a.anndb"

// crashStates records small workloads and opens what a disk may hold of them.
func crashStates(ctx context.Context, e *env) (t totals, err error) {
	m, err := mountFaults(e)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, m.end()) }()
	states, err := e.sub("states")
	if err != nil {
		return t, err
	}
	t.add("states", 0)
	for _, w := range briefs {
		x := crashed{brief: w, script: work.Small(e.seed), dir: states}
		if err := x.record(ctx, e, m); err != nil {
			return t, fmt.Errorf("%s: record: %w", w.name, err)
		}
		e.log.Printf("%s: %d operations recorded, %d fsyncs", w.name, len(x.ops), x.syncs())
		t.add("operations", len(x.ops))
		t.add("fsyncs", x.syncs())
		if err := x.try(ctx, e, e.pick(200, 10_000), &t); err != nil {
			return t, fmt.Errorf("%s: %w", w.name, err)
		}
		x.control(ctx, e, e.pick(8, 100), &t)
	}
	if t.counts["control_broken"] == 0 {
		return t, fmt.Errorf("the negative control (no fsync) broke none of %d states, so that whole ones prove nothing", t.counts["control_states"])
	}
	return t, nil
}

// crashed is a workload that has been recorded.
type crashed struct {
	brief
	script work.Script
	base   *crash.Disk
	before int // batches in base
	ops    []faultfs.Op
	dir    string // where states are made
}

// record makes the base and records the steps after it.
func (x *crashed) record(ctx context.Context, e *env, m *mounted) error {
	if err := empty(m.dir); err != nil {
		return err
	}
	path := filepath.Join(m.at, fileName)
	s, err := e.startSession(ctx, "")
	if err != nil {
		return err
	}
	defer s.end()
	open := order{Do: "open", Path: path, Script: x.script}
	if !x.fresh {
		if _, err := s.must(open); err != nil {
			return err
		}
		for _, step := range x.brief.base {
			if step == "batch" {
				x.before++
			}
			if _, err := s.must(order{Do: step}); err != nil {
				return err
			}
		}
	}
	names, err := m.Record()
	if err != nil {
		return err
	}
	if x.base, err = crash.Read(m.dir, names); err != nil {
		return err
	}
	if x.unsynced {
		m.Arm(faultfs.DirSyncs, faultfs.Once, 1)
		defer m.Disarm()
	}
	for i, step := range x.steps {
		o := order{Do: step}
		if step == "open" {
			o = open
		}
		o.Mark = strconv.Itoa(i)
		a, err := s.order(o)
		if err == nil && a.Err != "" && !(x.unsynced && i == 0) {
			err = fmt.Errorf("%s: %s", step, a.Err)
		}
		if err != nil {
			return err
		}
		if x.unsynced && i == 0 {
			if _, fired := m.Disarm(); !fired {
				return fmt.Errorf("%s does not sync the directory", step)
			}
		}
	}
	x.ops = m.Recorded()
	_, err = s.must(order{Do: "close"})
	return err
}

func (x *crashed) syncs() (n int) {
	for _, op := range x.ops {
		if op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir {
			n++
		}
	}
	return n
}

// try opens n states at least: every prefix (of a sample, as many as half of n)
// and then random subsets.
func (x *crashed) try(ctx context.Context, e *env, n int, t *totals) error {
	rng := e.rng(x.name)
	sectors := []int{512, 4096}
	var prefixes []crash.State
	err := crash.Prefixes(x.base, x.ops, sectors, rng, func(s crash.State) error {
		prefixes = append(prefixes, s)
		return nil
	})
	if err != nil {
		return err
	}
	if !e.full && len(prefixes) > n/2 {
		rng.Shuffle(len(prefixes), func(i, j int) { prefixes[i], prefixes[j] = prefixes[j], prefixes[i] })
		prefixes = prefixes[:n/2]
	}
	t.add("prefixes", len(prefixes))
	for i := 0; i < max(n, len(prefixes)); i++ {
		s := crash.State{}
		if i < len(prefixes) {
			s = prefixes[i]
		} else {
			s = x.subset(sectors, rng)
			t.add("subsets", 1)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := x.open(ctx, s, t); err != nil {
			return fmt.Errorf("state %d, %s: %w", i, s.What, err)
		}
		t.add("states", 1)
	}
	return nil
}

// control is the negative control: states of a database that never called
// fsync. Some of them must be found broken.
func (x *crashed) control(ctx context.Context, e *env, n int, t *totals) {
	y := *x
	y.ops = slices.DeleteFunc(slices.Clone(x.ops), func(op faultfs.Op) bool {
		return op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir
	})
	rng := e.rng(x.name, "control")
	t.add("control_states", n)
	t.add("control_broken", 0)
	for range n {
		if y.open(ctx, y.subset([]int{512, 4096}, rng), &totals{}) != nil {
			t.add("control_broken", 1)
		}
	}
}

func (x *crashed) subset(sectors []int, rng *rand.Rand) crash.State {
	return crash.Subset(x.base, x.ops, sectors[rng.IntN(len(sectors))], rng)
}

// open makes a state and verifies it.
func (x *crashed) open(ctx context.Context, s crash.State, t *totals) error {
	// What had been acknowledged by then, and what may have been under way.
	acked, inFlight, built := x.before, 0, slices.Contains(x.brief.base, work.Build)
	done := 0
	for _, op := range x.ops[:s.Ops] {
		if op.Kind != faultfs.Mark {
			continue
		}
		switch x.steps[done] {
		case "batch":
			acked++
		case work.Build:
			built = true
		case work.Drop:
			built = false
		}
		done++
	}
	if done < len(x.steps) {
		switch x.steps[done] {
		case "batch":
			inFlight = 1
		case work.Drop:
			built = false
		}
	}
	if err := empty(x.dir); err != nil {
		return err
	}
	if err := s.Write(x.dir); err != nil {
		return err
	}
	o := work.Options()
	o.NoSync = true // nobody cuts the power of the state itself
	path := filepath.Join(x.dir, fileName)
	found, err := x.script.VerifyWith(ctx, path, o, acked, inFlight)
	if err != nil {
		return err
	}
	if found > acked {
		t.add("unacknowledged", 1)
	}
	if !built {
		return nil
	}
	d, err := db.Open(ctx, path, o)
	if err != nil {
		return err
	}
	return errors.Join(x.script.HasIndexes(d), d.Close())
}
