package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/anndb/anndb/torture/internal/damage"
)

// damagePages damages every page of a database of 20 MB, each case in a
// process of its own. The sample takes cases at even steps of the list.
func damagePages(ctx context.Context, e *env) (t totals, err error) {
	b, cases, pages, err := damage.NewBench(e.dir, e.seed, func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, e.self, append([]string{"child", "damage"}, args...)...)
	})
	if err != nil {
		return t, err
	}
	t.add("pages", pages)
	if n := e.pick(60, len(cases)); n < len(cases) {
		some := make([]damage.Case, n)
		first := e.rng().IntN(len(cases) / n)
		for i := range some {
			some[i] = cases[first+i*(len(cases)-first)/n]
		}
		cases = some
	}
	regions := map[string]map[string]int{}
	var bad []string
	done, begin := 0, time.Now()
	err = b.Try(ctx, cases, runtime.GOMAXPROCS(0), func(c damage.Case, v damage.Verdict) {
		t.add(v.Outcome, 1)
		if regions[c.Region] == nil {
			regions[c.Region] = map[string]int{}
		}
		regions[c.Region][v.Outcome]++
		if v.Outcome != damage.Right && v.Outcome != damage.OpenError && v.Outcome != damage.UseError {
			e.log.Printf("%v: %s: %s", c, v.Outcome, v.Detail)
			if len(bad) < 10 {
				bad = append(bad, fmt.Sprintf("%v: %s", c, v.Outcome))
			}
		}
		if done++; done%500 == 0 {
			e.log.Printf("%d of %d cases after %v", done, len(cases), time.Since(begin).Round(time.Second))
		}
	})
	for _, region := range slices.Sorted(maps.Keys(regions)) {
		e.log.Printf("%-24s %v", region, regions[region])
	}
	for _, o := range []string{damage.Wrong, damage.Died, damage.Hung} {
		t.add(o, 0)
	}
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("%d cases, such as %q", len(bad), bad)
	}
	return t, err
}
