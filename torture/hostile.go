package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/anndb/anndb/torture/internal/hostile"
)

// hostileMemory is what a call on a mutant may need beyond those on sound files.
const hostileMemory = 512 << 20

// hostileFiles makes files with right checksums that nothing of ours wrote, and
// every call on them, in processes with limits. Half of the mutants meet a build
// without assembly, whose bounds checks tell what kernels would have touched.
func hostileFiles(ctx context.Context, e *env) (t totals, err error) {
	sound, err := e.sub("sound")
	if err != nil {
		return t, err
	}
	if err := hostile.Make(ctx, sound); err != nil {
		return t, err
	}
	programs := []string{e.self}
	plain := filepath.Join(e.dir, "torture-purego")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "purego", "-o", plain, "github.com/anndb/anndb/torture").CombinedOutput()
	if err != nil {
		t.skip("no build without assembly: %v: %.200s", err, out)
	} else {
		programs = append(programs, plain)
	}
	for _, kind := range []string{"mutants", "died", "hung", "memory", "caught", "panics", "wrong"} {
		t.add(kind, 0)
	}
	n := e.pick(240, 20_000) / len(programs)
	runs := make([]*hostileRun, len(programs))
	var wg sync.WaitGroup
	for i, program := range programs {
		r := &hostileRun{e: e, program: program, task: hostile.Task{Sound: sound, Seed: e.seed, From: i * n, To: (i + 1) * n}}
		runs[i] = r
		wg.Go(func() { r.err = r.run(ctx, filepath.Base(program)) })
	}
	wg.Wait()
	var bad []string
	for _, r := range runs {
		for _, name := range r.found.names {
			t.add(name, r.found.counts[name])
		}
		bad = append(bad, r.bad...)
		err = errors.Join(err, r.err)
	}
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("%d cases, such as %q", len(bad), bad[:min(len(bad), 5)])
	}
	return t, err
}

// hostileRun is the mutants that one program meets.
type hostileRun struct {
	e       *env
	program string
	task    hostile.Task
	found   totals
	bad     []string
	err     error
	first   int // number of the first mutant
}

// run starts a process, and another one where that has ended too early.
func (r *hostileRun) run(ctx context.Context, name string) (err error) {
	if r.task.Dir, err = r.e.sub("mutants-" + name); err != nil {
		return err
	}
	first, to := r.task.From, r.task.To
	r.first = first
	r.task.From, r.task.To = -1, 0
	var held uint64
	if _, err := r.process(ctx, &held); err != nil {
		return fmt.Errorf("%s: sound files: %w", name, err)
	}
	if len(r.bad) > 0 {
		return fmt.Errorf("%s: sound files: %q", name, r.bad)
	}
	r.task.Limit = held + hostileMemory
	r.e.log.Printf("%s: sound files need %d MiB", name, held>>20)
	for r.task.From, r.task.To = first, to; r.task.From < to; {
		last, err := r.process(ctx, &held)
		if err != nil {
			return err
		}
		r.task.From = last + 1
	}
	r.found.add("mutants", to-first)
	return ctx.Err()
}

// process runs mutants until all are done or one ends it, and returns the number
// of the last.
func (r *hostileRun) process(ctx context.Context, held *uint64) (last int, err error) {
	task, err := json.Marshal(r.task)
	if err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, r.program, "child", "hostile", string(task))
	c.Stderr = r.e.log.Writer()
	mutant, explained, done := "", false, false
	last = r.task.From - 1
	err = lines(c, func(line string) error {
		what, rest, _ := strings.Cut(line, " ")
		switch what {
		case "making":
			mutant = rest + ", while it was made"
			if _, err := fmt.Sscan(rest, &last); err != nil {
				return err
			}
			if done := last - r.first + 1; done%500 == 0 {
				r.e.log.Printf("%d mutants", done)
			}
		case "mutant":
			mutant = rest
		case "did":
			var answered, compared, errs int
			if _, err := fmt.Sscan(rest, &answered, &compared, &errs); err != nil {
				return err
			}
			r.found.add("searches answered", answered)
			r.found.add("hits compared", compared)
			r.found.add("errors", errs)
		case "held":
			done = true
			_, err := fmt.Sscan(rest, held)
			return err
		default:
			explained = explained || what == "hang" || what == "memory"
			r.note(map[string]string{"hang": "hung", "panic": "panics"}[what], what, mutant, rest)
		}
		return nil
	})
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return last, ctx.Err()
	case done:
		return r.task.To - 1, err
	case last < r.task.From || err != nil && !errors.As(err, &exit):
		return last, fmt.Errorf("a child ended early: %w", errors.Join(err, errors.New(mutant)))
	case !explained:
		r.note("died", "died", mutant, fmt.Sprint(err))
	}
	return last, nil
}

// note takes down what a mutant has done.
func (r *hostileRun) note(count, what, mutant, how string) {
	if count == "" {
		count = what
	}
	r.found.add(count, 1)
	text := fmt.Sprintf("%s: mutant %s: %s", what, mutant, how)
	r.e.log.Print(text)
	r.bad = append(r.bad, text)
}
