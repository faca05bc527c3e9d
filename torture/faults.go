package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/anndb/anndb/torture/internal/faultfs"
	"github.com/anndb/anndb/torture/internal/work"
)

// swept is an operation whose every call fails in turn, on a database that
// base has prepared; without base there is no file.
type swept struct {
	name  string
	base  []string
	steps []string
}

var sweeps = []swept{
	{"load", nil, []string{"open", "create", "batch", "batch", "batch"}},
	{"delete", []string{"create", "batch", "batch", work.Build}, []string{"batch", work.Drop}},
	{"rebuild", []string{"create", "batch", "batch", work.Build, "batch"}, []string{work.Build}},
	{"maintain", []string{"create", "batch", "batch", work.Build, "batch"}, []string{work.Maintain}},
	{"compact", []string{"create", "batch", work.Build, "batch"}, []string{work.Compact, "batch"}},
	{"reorder", []string{"create", "batch", "batch"}, []string{work.Reorder, "batch"}},
	{"backup", []string{"create", "batch", work.Build, "batch"}, []string{work.Backup}},
}

// failures are the targets with the ways in which they fail.
var failures = []struct {
	target faultfs.Target
	modes  []faultfs.Mode
}{
	{faultfs.Writes, []faultfs.Mode{faultfs.Once, faultfs.Dead, faultfs.Full}},
	{faultfs.Syncs, []faultfs.Mode{faultfs.Once, faultfs.Dead}},
	{faultfs.Truncates, []faultfs.Mode{faultfs.Once, faultfs.Full}},
	{faultfs.Entries, []faultfs.Mode{faultfs.Once, faultfs.Dead}},
}

// failingCalls fails every call of the file system that an operation makes, one
// after the other.
func failingCalls(ctx context.Context, e *env) (t totals, err error) {
	t.add("faults", 0)
	if err := failpointSweeps(ctx, e, &t); err != nil {
		return t, err
	}
	m, err := mountFaults(e)
	if err != nil {
		var skip skipError
		if errors.As(err, &skip) && t.counts["failpoints"] > 0 {
			t.skip("%v", err)
			return t, nil
		}
		return t, err
	}
	defer func() { err = errors.Join(err, m.end()) }()
	s := &sweeper{e: e, t: &t, script: work.Small(e.seed)}
	defer s.end()
	s.at, s.behind = m.at, m.dir
	for _, w := range sweeps {
		if err := s.prepare(ctx, w); err != nil {
			return t, fmt.Errorf("%s: %w", w.name, err)
		}
		for _, f := range failures {
			for _, mode := range f.modes {
				arm := func(n int) error { m.Arm(f.target, mode, n); return nil }
				disarm := func() (bool, error) { _, fired := m.Disarm(); return fired, nil }
				// Of a sample, every call of a short operation and some of a long one.
				n, err := s.sweep(ctx, e.pick(4, 0), fmt.Sprintf("%s/%s/%s", w.name, f.target, mode), arm, disarm)
				e.log.Printf("%s: %s %s: %d calls", w.name, f.target, mode, n)
				if err != nil {
					return t, fmt.Errorf("%s: %s %s, call %d: %w", w.name, f.target, mode, n, err)
				}
			}
		}
	}
	return t, nil
}

// sweeper runs one operation again and again, each time on a fresh copy of its
// base and with another call that fails.
type sweeper struct {
	e      *env
	t      *totals
	script work.Script
	at     string // where sessions find the databases
	behind string // where this process does
	binary string // of the sessions; empty is this one
	run    *session
	cases  int

	w     swept
	base  []byte
	ready int // batches in base
}

func (s *sweeper) end() {
	if s.run != nil {
		s.run.end()
		s.run = nil
	}
}

// session is a session that is alive.
func (s *sweeper) session(ctx context.Context) (*session, error) {
	if s.run != nil {
		return s.run, nil
	}
	var err error
	s.run, err = s.e.startSession(ctx, s.binary)
	return s.run, err
}

// prepare makes the base of an operation.
func (s *sweeper) prepare(ctx context.Context, w swept) error {
	s.w, s.base, s.ready = w, nil, 0
	if w.base == nil {
		return nil
	}
	dir, err := s.e.sub("base")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, w.name+".anndb")
	run, err := s.session(ctx)
	if err != nil {
		return err
	}
	if _, err := run.must(order{Do: "open", Path: path, Script: s.script, NoSync: true}); err != nil {
		return err
	}
	for _, step := range append(w.base, "close") {
		a, err := run.must(order{Do: step})
		if err != nil {
			return err
		}
		s.ready = max(s.ready, a.Batches)
	}
	s.base, err = os.ReadFile(path)
	return err
}

// sweep makes the first call fail, then the second, until the operation ends
// without having met the failure. most, if not zero, bounds how many it tries,
// at a growing distance. It returns the number of the last call it tried.
func (s *sweeper) sweep(ctx context.Context, most int, name string, arm func(n int) error, disarm func() (bool, error)) (int, error) {
	rng := s.e.rng(name)
	n, stride := 1, 1
	for tried := 0; ; tried++ {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		fired, err := s.one(ctx, func() error { return arm(n) }, disarm)
		if err != nil || !fired {
			return n, err
		}
		s.t.add("faults", 1)
		if most > 0 && tried >= most/2 {
			stride *= 2
		}
		n += 1 + rng.IntN(stride)
	}
}

// one runs the operation with a failure armed and looks at what came of it.
func (s *sweeper) one(ctx context.Context, arm func() error, disarm func() (bool, error)) (fired bool, err error) {
	s.cases++
	name := fmt.Sprint(s.cases)
	behind := filepath.Join(s.behind, name)
	if err := os.Mkdir(behind, 0o700); err != nil {
		return false, err
	}
	defer os.RemoveAll(behind) // the layer's directory goes in the end anyway
	if s.base != nil {
		if err := os.WriteFile(filepath.Join(behind, fileName), s.base, 0o600); err != nil {
			return false, err
		}
	}
	run, err := s.session(ctx)
	if err != nil {
		return false, err
	}
	open := order{Do: "open", Path: filepath.Join(s.at, name, fileName), Script: s.script}
	isOpen := false
	if s.w.steps[0] != "open" {
		if _, err := run.must(open); err != nil {
			return false, err
		}
		isOpen = true
	}
	if err := arm(); err != nil {
		return false, err
	}
	acked, inFlight := s.ready, 0
	var failed string // what failed, with its error
	for _, step := range s.w.steps {
		o := order{Do: step}
		if step == "open" {
			o = open
		}
		a, err := run.order(o)
		if errors.Is(err, errDied) && s.binary != "" {
			// A failpoint that panics takes the process along where bbolt calls
			// it outside of what can be recovered.
			s.end()
			s.t.add("died", 1)
			_, _ = disarm() // it died with the process
			_, err := s.verify(ctx, behind, acked, 1)
			return true, err
		}
		if err != nil {
			return false, err
		}
		if a.Err == "" {
			acked = max(acked, a.Batches)
			isOpen = true
			continue
		}
		// A failpoint's own error is no error of the system.
		if failed = step + ": " + a.Err; !a.Typed && s.binary == "" {
			return false, fmt.Errorf("%s: the error wraps nothing that is documented", failed)
		}
		if step == "batch" {
			inFlight = 1
		}
		break
	}
	if fired, err = disarm(); err != nil {
		return fired, err
	}
	switch {
	case failed == "" && fired:
		s.t.add("absorbed", 1)
	case failed != "" && !fired:
		return fired, fmt.Errorf("%s, and nothing was made to fail", failed)
	case failed != "":
		s.t.add("errors", 1)
		if strings.Contains(failed, "reopen to learn its outcome") {
			s.t.add("state_unknown", 1)
		}
	}
	if isOpen {
		if err := s.look(run, acked, inFlight); err != nil {
			return fired, fmt.Errorf("after %q, on the same handle: %w", failed, err)
		}
	}
	if _, err := s.verify(ctx, behind, acked, inFlight); err != nil {
		return fired, fmt.Errorf("after %q: %w", failed, err)
	}
	return fired, s.backup(ctx, behind, acked)
}

// verify verifies the file as a process finds it that comes after.
func (s *sweeper) verify(ctx context.Context, behind string, acked, inFlight int) (int, error) {
	o := work.Options()
	o.NoSync = true // nothing more is going to fail
	return s.script.VerifyWith(ctx, filepath.Join(behind, fileName), o, acked, inFlight)
}

// look asks the handle that has seen the failure, and closes it.
func (s *sweeper) look(run *session, acked, inFlight int) error {
	a, err := run.must(order{Do: "look"})
	if err != nil {
		return err
	}
	if a.Batches < acked || a.Batches > acked+inFlight {
		return fmt.Errorf("%d batches were acknowledged, the handle has %d", acked, a.Batches)
	}
	_, err = run.must(order{Do: "close"})
	return err
}

// backup verifies a backup, if one has its final name.
func (s *sweeper) backup(ctx context.Context, behind string, acked int) error {
	path := work.BackupPath(filepath.Join(behind, fileName))
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := s.script.Verify(ctx, path, acked, 0); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}
