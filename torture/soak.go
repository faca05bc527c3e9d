package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anndb/anndb/torture/internal/soak"
)

// soakDay is the number of minutes of a day, soakPace what one takes: half an
// hour for all of them.
const (
	soakDay  = 1440
	soakPace = 1250 * time.Millisecond
)

// soakChild lives through a day: arguments are the path, the seed, the minutes
// and the pace. It prints a line for every sample, and the counts at the end.
func soakChild(args []string) error {
	seed, err1 := strconv.ParseUint(args[1], 10, 64)
	minutes, err2 := strconv.Atoi(args[2])
	pace, err3 := time.ParseDuration(args[3])
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	day := soak.New(args[0], seed)
	day.Minutes, day.Pace = minutes, pace
	out := json.NewEncoder(os.Stdout)
	day.Sampled = func(s soak.Sample) {
		fmt.Print("sample ")
		_ = out.Encode(s) // standard output that is gone ends the process anyway
	}
	err := day.Run(ctx)
	fmt.Print("counts ")
	_ = out.Encode(day.Counts())
	return err
}

// soakOneDay is 24 hours' worth of operations in half an hour. What the process
// takes of the machine must level off. The table of samples is written to
// soak.csv beside the scratch directory, for it outlives the run.
func soakOneDay(ctx context.Context, e *env) (t totals, err error) {
	if !e.full {
		return t, skipped("a day takes half an hour; it is run with -scale full")
	}
	var samples []soak.Sample
	counts := map[string]int{}
	c := e.child(ctx, "soak", filepath.Join(e.dir, "soak.anndb"), fmt.Sprint(e.seed), fmt.Sprint(soakDay), soakPace.String())
	err = lines(c, func(line string) error {
		kind, data, _ := strings.Cut(line, " ")
		if kind == "counts" {
			return json.Unmarshal([]byte(data), &counts)
		}
		var s soak.Sample
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		samples = append(samples, s)
		if len(samples)%15 == 1 {
			e.log.Print(s.CSV())
		}
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && len(counts) == 0 {
		err = errors.New("the child did not come to the day's end")
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.add(name, counts[name])
	}
	table := soak.Header + "\n"
	for _, s := range samples {
		table += s.CSV() + "\n"
	}
	name := filepath.Join(filepath.Dir(filepath.Dir(e.dir)), "soak.csv")
	if e := os.WriteFile(name, []byte(table), 0o600); e != nil && err == nil {
		err = e
	}
	e.log.Printf("%d samples in %s", len(samples), name)
	t.add("samples", len(samples))
	if err == nil {
		err = soak.Levels(samples)
	}
	return t, err
}
