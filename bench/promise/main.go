// Command promise measures whether a search delivers the recall that it is asked for: for
// several numbers of neighbors, under filters, and after deletions. It prints a line per
// scenario and number of neighbors, and fails if a cell is more than 0.01 short.
//
//	go run ./bench/promise -data ../shared/data -sets fashion-mnist
//	go run ./bench/promise -data ../shared/data -sets glove-100d -histories
//	go run ./bench/promise -data ../shared/data -sets fashion-mnist -queries 100 -sweep
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/vector"
)

// load reads a data set. The endings -cosine and -ip select another metric than that of the set.
func load(data, name string) (*vectors.Set, error) {
	base, cosine := strings.CutSuffix(name, "-cosine")
	base, product := strings.CutSuffix(base, "-ip")
	if !cosine && !product || slices.Contains(vectors.Names(), name) {
		return vectors.Load(data, name)
	}
	s, err := vectors.Load(data, base)
	if err != nil {
		return nil, err
	}
	s.Name, s.Metric = name, vector.Cosine
	if product {
		s.Metric = vector.InnerProduct
		return s, nil
	}
	for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
		vectors.Normalise(rows, s.Dim)
	}
	return s, nil
}

// slack is the amount by which a delivered recall may be below the one that was asked for.
const slack = 0.01

var (
	errShort = errors.New("a delivered recall is short")

	ks      = []int{1, 10, 50, 100, 500}
	recalls = []float64{0.8, 0.9, 0.95, 0.99}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "promise:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	data := flag.String("data", "../shared/data", "folder of the public data sets")
	sets := flag.String("sets", "fashion-mnist", "data sets, with commas; -cosine or -ip after a name selects the metric: "+strings.Join(vectors.Names(), ", "))
	queries := flag.Int("queries", 2*vectors.QueryRows, "number of queries")
	only := flag.String("only", "", "regular expression of the scenarios to measure; all if empty")
	histories := flag.Bool("histories", false, "measure collections that have grown, and streams of changes, instead")
	sweep := flag.Bool("sweep", false, "measure the time over the selectivity of filters, next to fixed ways to search, instead")
	dir := flag.String("dir", "", "folder for the databases; a temporary one if empty")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "promise"); err != nil {
			return err
		}
		defer os.RemoveAll(*dir)
	}
	short := 0
	for name := range strings.SplitSeq(*sets, ",") {
		s, err := load(*data, name)
		if err != nil {
			return err
		}
		b := &bench{set: s, path: filepath.Join(*dir, name+".anndb"), only: pattern, queries: *queries}
		measure := b.run
		switch {
		case *histories:
			measure = b.histories
		case *sweep:
			measure = b.sweep
		}
		n, err := measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		short += n
	}
	if short > 0 {
		return fmt.Errorf("%w: %d cells", errShort, short)
	}
	return nil
}
