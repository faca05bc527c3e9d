package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/work"
)

// writing is what a writer child does: it goes on with a script where the file
// ends, and says what has been acknowledged.
type writing struct {
	Path   string
	Script work.Script
	Plan   work.Plan
	NoSync bool
}

// writer is the child "write".
func writer(args []string) error {
	var w writing
	if err := json.Unmarshal([]byte(args[0]), &w); err != nil {
		return err
	}
	fmt.Println("ready")
	o := work.Options()
	if w.NoSync {
		o.NoSync = true
	}
	d, err := db.Open(context.Background(), w.Path, o)
	if err != nil {
		return err
	}
	return w.Script.Run(context.Background(), d, w.Plan, func(n int, step string) {
		if step == "" {
			fmt.Println("batch", n)
		} else {
			fmt.Println("step", step)
		}
	})
}

// written is a writer child that runs, and what it has said.
type written struct {
	cmd     *exec.Cmd
	reached chan struct{} // closed at the moment that was asked for
	done    chan error    // gets what became of it
	// Once doomed is set, an error of the child is no news.
	doomed atomic.Bool
	// What follows may be read after done.
	batches int // acknowledged, -1 if none was by this child
	steps   map[string]int
}

// write starts a writer child that tells when a moment has come.
func (e *env) write(ctx context.Context, w writing, at moment) (*written, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	out := &written{cmd: e.child(ctx, "write", string(text)), reached: make(chan struct{}), done: make(chan error, 1), batches: -1, steps: map[string]int{}}
	go func() {
		reached := false
		err := lines(out.cmd, func(line string) error {
			step, ok := strings.CutPrefix(line, "step ")
			now := at.begins()
			switch {
			case line == "ready":
			case ok:
				out.steps[step]++
				now = at.passed(true)
			default:
				if _, err := fmt.Sscanf(line, "batch %d", &out.batches); err != nil {
					return fmt.Errorf("line %q: %w", line, err)
				}
				now = at.passed(false)
			}
			if now && !reached {
				reached = true
				close(out.reached)
			}
			return nil
		})
		if out.doomed.Load() {
			err = nil
		}
		out.done <- err
	}()
	return out, nil
}
