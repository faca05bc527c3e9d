// Command budget repeats the experiments of Liu and Tsang 2017 with budgeted
// trees on generated and real data, beside peers in the same run: liblinear
// (bench/peers/liblinear), a CART tree of its own and, for label sets, LCIF.
//
//	bench/peers/liblinear/build
//	go run ./bench/budget -data ../shared/data xor prune binary curve sets large bac exact
//
// xor is section 8.1.1, prune table 4, binary table 5, curve figure 5, sets table 8,
// large the widest sets there are, bac the training time of one classifier, exact what
// its approximation costs.
// Figures are percentages of wrong test rows, or example-based F1. README.md
// has what was measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/vector"
)

// settings are the command's flags.
type settings struct {
	data    string
	peers   string
	out     string
	only    *regexp.Regexp
	seeds   int
	first   int
	workers int
	folds   int
	inner   int
	noise   int
	quick   bool
	exact   bool

	budget   int
	cost     float64
	rounds   int
	peerCost float64
	without  *regexp.Regexp
	linear   *liblinear.Driver // nil without the peer
}

// errSkipped says that data or a peer is missing.
var errSkipped = errors.New("SKIPPED")

// usable says whether a data set was read, and scales it as is usual for it; of
// one that is to be skipped it says why.
func usable(x *vector.CSR, normalize func(*vector.CSR), err error) (bool, error) {
	switch {
	case errors.Is(err, errSkipped):
		fmt.Println(err)
		return false, nil
	case err != nil:
		return false, err
	}
	if normalize != nil {
		normalize(x)
	}
	return true, nil
}

func main() {
	var s settings
	flag.StringVar(&s.data, "data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	flag.StringVar(&s.peers, "peers", "bench/peers/bin", "directory of the built peers")
	flag.StringVar(&s.out, "out", "bench/out", "directory of the pictures")
	only := flag.String("only", "", "sets whose names match")
	without := flag.String("without", "^$", "systems of sets, curve and large to leave out")
	flag.IntVar(&s.seeds, "seeds", 10, "random divisions, folds or generated sets to take")
	flag.IntVar(&s.first, "first", 0, "number of the first of them")
	flag.IntVar(&s.workers, "workers", 1, "threads of training")
	flag.IntVar(&s.folds, "folds", 10, "divisions of the label sets")
	flag.IntVar(&s.inner, "inner", 5, "divisions of the training rows that parameters are chosen by in binary, curve and prune; 1: they are fixed")
	flag.IntVar(&s.noise, "noise", 0, "noise features of xor; 0: 200, 500, 1,000 and 2,000")
	flag.BoolVar(&s.quick, "quick", false, "coarse grids")
	flag.BoolVar(&s.exact, "exact", false, "algorithm 1 to its end in binary and curve, not its approximation by disjoint sets")
	flag.IntVar(&s.rounds, "rounds", 5, "worst-case analyses of large")
	flag.IntVar(&s.budget, "budget", 0, "B of the trees of large; 0: B and C are chosen")
	flag.Float64Var(&s.cost, "cost", 10, "C of the trees of large, with -budget, and of curve, with -inner 1")
	flag.Float64Var(&s.peerCost, "peer-cost", 0, "C of liblinear in large; 0: chosen")
	flag.Parse()
	s.only, s.without = regexp.MustCompile(*only), regexp.MustCompile(*without)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &s, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s *settings, names []string) (err error) {
	s.linear, err = liblinear.Start(ctx, s.peers)
	if errors.Is(err, liblinear.ErrMissing) {
		fmt.Fprintf(os.Stderr, "\n*** %v\n\n", err)
	} else if err != nil {
		return err
	} else {
		fmt.Println("peer:", s.linear.Version)
		defer func() { err = errors.Join(err, s.linear.Close()) }()
	}
	experiments := map[string]func(context.Context, *settings) error{
		"xor": runXOR, "binary": runBinary, "curve": runCurve, "prune": runPrune, "sets": runSets, "large": runLarge, "bac": runBAC, "exact": runExact,
	}
	for _, name := range names {
		f := experiments[name]
		if f == nil {
			return fmt.Errorf("no experiment is called %q", name)
		}
		if err := f(ctx, s); errors.Is(err, errSkipped) {
			fmt.Fprintf(os.Stderr, "\n*** %v\n\n", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}
