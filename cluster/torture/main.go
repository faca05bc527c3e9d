// Command torture kills, pauses, cuts off and damages the processes of a cluster while clients write and
// read, moves and splits its shards, and checks what the clients were told.
//
//	go run ./torture [-seed S] [-rounds N] [-length D] [-faults LIST] [-folder DIR] [-race]
//	                 [-other PATH] [-list]
//	go run ./torture -load D [-folder DIR]
//
// The second form measures how long reads and writes at a fixed rate take while the cluster changes, each
// kind of change for the time D at least.
//
// One seed decides what each actor does. The exit code is 1 if something was lost or wrong; the folder of the
// processes is kept then.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	o := options{out: os.Stdout, nodes: 4, serverCount: 3, mount: true}
	flag.Uint64Var(&o.seed, "seed", 0, "decides what all actors do; 0 draws one")
	flag.IntVar(&o.rounds, "rounds", 10, "number of rounds")
	flag.DurationVar(&o.length, "length", 6*time.Second, "of a round, without its check")
	flag.StringVar(&o.folder, "folder", "", "an existing folder for the cluster's own; empty means the system's")
	only := flag.String("faults", "", "names of the faults to choose from, with commas; empty means all")
	flag.BoolVar(&o.race, "race", false, "build the processes with the race detector")
	flag.StringVar(&o.other, "other", "",
		"an anndb-cluster of another version, for half of the nodes and a gateway")
	flag.DurationVar(&o.load, "load", 0,
		"measure reads and writes for so long while each kind of change happens")
	list := flag.Bool("list", false, "print the faults instead")
	flag.Parse()
	if *list {
		for _, f := range faults {
			fmt.Printf("%-18s %s\n", f.name, f.doc)
		}
		return
	}
	if *only != "" {
		o.faults = strings.Split(*only, ",")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	if o.load > 0 {
		do = measure
	}
	if err := do(ctx, &o); err != nil {
		fmt.Println("torture: FAILED:", err)
		os.Exit(1)
	}
}

// run plays the rounds in a folder of its own, which it keeps if one fails.
func run(ctx context.Context, o *options) error {
	for _, name := range o.faults {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }) {
			return fmt.Errorf("there is no fault %q (-list prints them)", name)
		}
	}
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	for n := 1; n <= o.rounds && err == nil; n++ {
		if err = b.round(ctx, n); err != nil {
			err = fmt.Errorf("round %d: %w\nagain: go run ./torture -seed %d -rounds %d -length %v", n, err, o.seed, n,
				o.length)
		}
	}
	b.end()
	if err != nil {
		return fmt.Errorf("%w\nfiles and logs: %s", err, b.folder)
	}
	return os.RemoveAll(b.folder)
}
