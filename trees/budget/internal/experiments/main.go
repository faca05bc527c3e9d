// Command experiments repeats the paper's experiments with budgeted trees on
// generated and real data, beside linear support vector machines of its own:
//
//	go run ./trees/budget/internal/experiments -data ../shared/data xor binary sets
//
// xor is section 8.1.1, binary tables 4 and 5, curve figure 5, sets table 8, large the
// widest sets there are.
// Figures are percentages of wrong test rows, or example-based F1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
)

// settings are the command's flags.
type settings struct {
	data    string
	only    *regexp.Regexp
	seeds   int
	workers int
	folds   int
	quick   bool
	wide    bool

	budget   int
	cost     float64
	balanced bool
}

// errSkipped says that data is missing.
var errSkipped = errors.New("SKIPPED")

func main() {
	var s settings
	flag.StringVar(&s.data, "data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	only := flag.String("only", "", "sets whose names match")
	flag.IntVar(&s.seeds, "seeds", 5, "random divisions or generated sets")
	flag.IntVar(&s.workers, "workers", 1, "threads of training")
	flag.IntVar(&s.folds, "folds", 10, "divisions of the label sets")
	flag.BoolVar(&s.quick, "quick", false, "a coarse grid of budgets and costs")
	flag.BoolVar(&s.wide, "wide", false, "also budgets of 30 and 100 % of the features")
	flag.IntVar(&s.budget, "budget", 50, "B of large")
	flag.Float64Var(&s.cost, "cost", 10, "C of large")
	flag.BoolVar(&s.balanced, "balanced", false, "balanced costs in large")
	flag.Parse()
	s.only = regexp.MustCompile(*only)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := map[string]func(context.Context, settings) error{
		"xor": runXOR, "binary": runBinary, "curve": runCurve, "sets": runSets, "large": runLarge,
	}
	for _, name := range flag.Args() {
		f := run[name]
		if f == nil {
			fmt.Fprintf(os.Stderr, "experiments: no experiment is called %q\n", name)
			os.Exit(2)
		}
		err := f(ctx, s)
		if errors.Is(err, errSkipped) {
			fmt.Fprintln(os.Stderr, err)
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "experiments:", err)
			os.Exit(1)
		}
	}
}
