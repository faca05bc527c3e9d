package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/anndb/anndb/torture/internal/work"
)

// points are the failpoints inside bbolt, each with the gofail action that
// makes it fail; a point without a result can but panic.
var points = []struct{ name, action string }{
	{"beforeBucketPut", `panic("torture")`},
	{"beforeSyncDataPages", `panic("torture")`},
	{"beforeSyncMetaPage", `panic("torture")`},
	{"beforeWriteMetaError", `return("torture")`},
	{"lackOfDiskSpace", `return("torture")`},
	{"mapError", `return("torture")`},
	{"resizeFileError", `return("torture")`},
	{"unmapError", `return("torture")`},
}

// failpointSweeps builds this program with failpoints in bbolt and sweeps the
// operations with them.
func failpointSweeps(ctx context.Context, e *env, t *totals) error {
	binary, err := buildFailpoints(ctx, e)
	if err != nil {
		t.skip("failpoints: %v", err)
		return nil
	}
	dir, err := e.sub("failpoints")
	if err != nil {
		return err
	}
	before := t.counts["faults"]
	s := &sweeper{e: e, t: t, script: work.Small(e.seed), at: dir, behind: dir, binary: binary}
	defer s.end()
	for _, w := range sweeps {
		if err := s.prepare(ctx, w); err != nil {
			return fmt.Errorf("failpoints: %s: %w", w.name, err)
		}
		for _, p := range points {
			last := 0
			arm := func(n int) error {
				last = n
				_, err := s.run.must(order{Do: "fail", Mark: p.name, Term: term(n, p.action)})
				return err
			}
			disarm := func() (bool, error) {
				if s.run == nil {
					return true, nil // it died of the failpoint
				}
				a, err := s.run.must(order{Do: "fail", Mark: p.name})
				return a.Hits >= last, err
			}
			n, err := s.sweep(ctx, e.pick(1, 0), w.name+"/"+p.name, arm, disarm)
			e.log.Printf("%s: failpoint %s: %d calls", w.name, p.name, n)
			if err != nil {
				return fmt.Errorf("failpoint %s, %s, call %d: %w", p.name, w.name, n, err)
			}
		}
	}
	t.add("failpoints", t.counts["faults"]-before)
	return nil
}

// term is the gofail term that does the action at the nth time only.
func term(n int, action string) string {
	if n == 1 {
		return "1*" + action
	}
	return fmt.Sprintf("%d*off->1*%s", n-1, action)
}

// buildFailpoints copies bbolt, which must be in the module cache, turns its
// failpoints on, and builds this program with the copy. Nothing is written
// outside of the layer's directory.
func buildFailpoints(ctx context.Context, e *env) (binary string, err error) {
	dir, err := e.sub("gofail")
	if err != nil {
		return "", err
	}
	source, err := module(ctx)
	if err != nil {
		return "", err
	}
	from, err := moduleDir(ctx, "go.etcd.io/bbolt")
	if err != nil {
		return "", err
	}
	// The tool names the package of what it writes after the directory.
	bolt := filepath.Join(dir, "bbolt")
	if err := copyTree(from, bolt, nil); err != nil {
		return "", err
	}
	if err := goCommand(ctx, source, "tool", "gofail", "enable", bolt); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "torture")
	return binary, buildWith(ctx, source, dir, binary, map[string]string{"go.etcd.io/bbolt": bolt}, "-tags", "failpoints")
}
