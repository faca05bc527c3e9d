package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/work"
)

// killScript is the workload of a file that is killed: every other one is of
// rows that seal chunks.
func killScript(seed uint64) work.Script {
	if seed%2 == 0 {
		return work.Small(seed)
	}
	s := work.Default(seed)
	s.Dim, s.Keys, s.Changes = 1024, 200, 12
	return s
}

// killPlan is what happens besides batches.
var killPlan = work.Plan{
	Every: 3,
	Steps: []string{work.Build, work.Maintain, work.Compact, work.Maintain, work.Drop, work.Build, work.Reorder, work.Maintain},
}

// killChild works on a file for ever, with a concurrent reader: arguments are the
// path and the seed of the script. As a negative control, which a third argument
// requests, it acknowledges its third batch without having written it.
func killChild(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	d, err := db.Open(context.Background(), args[0], work.Options())
	if err != nil {
		return err
	}
	ctx := context.Background()
	s := killScript(seed)
	if err := s.Create(ctx, d); err != nil {
		return err
	}
	fmt.Println("ready")
	if len(args) > 2 {
		for n := range 3 {
			if n < 2 {
				if err := s.Apply(ctx, d, n); err != nil {
					return err
				}
			}
			fmt.Println("acked", n+1)
		}
		select {} // until it is killed
	}
	go func() {
		for {
			err := d.View(func(v *db.Snapshot) error {
				_, err := s.VerifySnapshot(ctx, v)
				return err
			})
			if err != nil {
				fmt.Println("error a reader found:", err)
				os.Exit(1)
			}
			time.Sleep(20 * time.Millisecond) // the writer is what is to be killed
		}
	}()
	return s.Run(ctx, d, killPlan, func(n int, step string) { fmt.Println("acked", n, step) })
}

// killDelay is the longest time between a moment and the kill.
const killDelay = 30 * time.Millisecond

// kill kills processes (SIGKILL) that write, build, maintain and compact, at
// random numbers of batches and steps, and looks at what they left: every
// acknowledged batch must be there, and of the next one all or nothing. A kill
// takes the process away, not the page cache: that a batch has reached the disk
// is for other layers.
func kill(ctx context.Context, e *env) (t totals, err error) {
	const file = 8 // kills before a new file is begun
	rng := e.rng()
	t.add("lost", 0)
	var path string
	var seed uint64
	known := 0
	for i := range e.pick(30, 2000) {
		if i%file == 0 {
			if path != "" {
				if err := os.RemoveAll(filepath.Dir(path)); err != nil {
					return t, err
				}
			}
			dir, err := e.sub(fmt.Sprint(i))
			if err != nil {
				return t, err
			}
			path, seed, known = filepath.Join(dir, "kill.anndb"), e.seed+uint64(i/file), 0
			t.add("files", 1)
		}
		m := newMoment(rng, i, killDelay)
		if i%file == 0 {
			m.acks = 0 // the file is just made
		}
		acked, steps, err := killOnce(ctx, e, m, path, fmt.Sprint(seed))
		if err != nil {
			return t, fmt.Errorf("kill %d (%v), script %d: %w", i, m, seed, err)
		}
		t.add("kills", 1)
		t.add("steps ended", steps)
		acked = max(acked, known)
		n, err := killScript(seed).Verify(ctx, path, acked, 1)
		if err != nil {
			t.add("lost", 1)
			return t, fmt.Errorf("after kill %d (%v), script %d: %w", i, m, seed, err)
		}
		t.add("batches acknowledged", acked-known)
		t.add("found beyond them", n-acked)
		known = n
		if (i+1)%100 == 0 {
			e.log.Printf("%d kills: %s", i+1, t)
		}
	}
	return t, killControl(ctx, e, &t)
}

// killControl is the negative control: a child that acknowledges a batch that it
// has not written must be found out.
func killControl(ctx context.Context, e *env, t *totals) error {
	dir, err := e.sub("control")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "kill.anndb")
	acked, _, err := killOnce(ctx, e, moment{acks: 3}, path, fmt.Sprint(e.seed), "control")
	if err != nil {
		return fmt.Errorf("negative control: %w", err)
	}
	if found, err := killScript(e.seed).Verify(ctx, path, acked, 1); err == nil {
		return fmt.Errorf("the negative control acknowledged %d batches and wrote one less; %d were found and nothing was missed", acked, found)
	}
	t.add("control caught", 1)
	return nil
}

// killOnce starts a child and kills it at a moment. It returns how many batches
// the child said to be durable, 0 if it said nothing, and how many steps it ended.
func killOnce(ctx context.Context, e *env, m moment, args ...string) (acked, steps int, err error) {
	ctx, cancel := context.WithTimeout(ctx, momentLimit)
	defer cancel()
	c := e.child(ctx, "kill", args...)
	reached := false
	err = lines(c, func(line string) error {
		var n int
		var step string
		k, _ := fmt.Sscanf(line, "acked %d %s", &n, &step)
		now := m.begins()
		switch {
		case line == "ready":
		case k == 0:
			return fmt.Errorf("line %q", line)
		default:
			acked = n
			if k == 2 {
				steps++
			}
			now = m.passed(k == 2)
		}
		if now && !reached {
			reached = true
			time.AfterFunc(m.delay, func() { _ = c.Process.Kill() })
		}
		return nil
	})
	if !reached && err == nil {
		err = fmt.Errorf("the child ended, or was ended after %v, with %d batches and %d steps acknowledged", momentLimit, acked, steps)
	}
	return acked, steps, err
}
