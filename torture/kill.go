package main

import (
	"context"
	"errors"
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

// killChild works on a file for ever, with a reader beside it: arguments are
// the path and the seed of the script.
func killChild(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	d, err := db.Open(args[0], work.Options())
	if err != nil {
		return err
	}
	ctx := context.Background()
	s := killScript(seed)
	if err := s.Create(ctx, d); err != nil {
		return err
	}
	fmt.Println("ready")
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

// killWithin is how long after its start a child is killed at the latest.
const killWithin = 300 * time.Millisecond

// kill kills processes (SIGKILL) that write, build, maintain and compact, at
// random moments, and looks at what they left: every acknowledged batch must be
// there, and of the next one all or nothing. A kill takes the process away, not
// the page cache: that a batch has reached the disk is for other layers.
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
		acked, steps, err := killOnce(ctx, e, path, seed, time.Duration(rng.Int64N(int64(killWithin))))
		if err != nil {
			return t, fmt.Errorf("kill %d, script %d: %w", i, seed, err)
		}
		t.add("kills", 1)
		t.add("steps ended", steps)
		acked = max(acked, known)
		n, err := killScript(seed).Verify(ctx, path, acked, 1)
		if err != nil {
			t.add("lost", 1)
			return t, fmt.Errorf("after kill %d, script %d: %w", i, seed, err)
		}
		t.add("batches acknowledged", acked-known)
		t.add("found beyond them", n-acked)
		known = n
		if (i+1)%100 == 0 {
			e.log.Printf("%d kills: %s", i+1, t)
		}
	}
	return t, nil
}

// killOnce starts a child and kills it the given time after it is ready. It
// returns how many batches the child said to be durable, 0 if it said nothing,
// and how many steps it ended.
func killOnce(ctx context.Context, e *env, path string, seed uint64, after time.Duration) (acked, steps int, err error) {
	c := e.child(ctx, "kill", path, fmt.Sprint(seed))
	var timer *time.Timer
	err = lines(c, func(line string) error {
		var n int
		var step string
		switch k, _ := fmt.Sscanf(line, "acked %d %s", &n, &step); {
		case line == "ready":
			timer = time.AfterFunc(after, func() { _ = c.Process.Kill() })
		case k == 0:
			return fmt.Errorf("line %q", line)
		default:
			acked = n
			if k == 2 {
				steps++
			}
		}
		return nil
	})
	if timer == nil && err == nil {
		err = errors.New("the child did not start")
	}
	return acked, steps, err
}
