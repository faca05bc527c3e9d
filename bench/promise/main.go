// Command promise measures whether a search delivers the recall that it is asked for: for
// several numbers of neighbors, under filters, after deletions, for texts with vectors, and for queries unlike
// the rows. It prints a line per cell, and fails if one is short by more than 1.645 standard errors, or slower
// than 1.1 times an exact scan.
//
//	go run ./bench/promise -data ../shared/data -sets fashion-mnist
//	go run ./bench/promise -data ../shared/data -sets equal,lengths,lengths-ip,few-200,few-3000,wordnet -only '^all$'
//	go run ./bench/promise -data ../shared/data -sets wordnet-examples,glove-100d-mixed
//	go run ./bench/promise -data ../shared/data -sets own-100k -histories -only 'in turn'
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
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
)

var errShort = errors.New("recalls are short, or searches slower than an exact scan")

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
	sets := flag.String("sets", "fashion-mnist", "data sets, with commas: equal, lengths, few-N, or one of those of bench/dense, with -cosine, -ip or -mixed after it")
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
	failed := 0
	for name := range strings.SplitSeq(*sets, ",") {
		s, err := load(*data, name)
		if err != nil {
			return err
		}
		b := &bench{set: s, path: filepath.Join(*dir, name+".anndb"), only: pattern, queries: *queries}
		if name == unlikeSet {
			for i, part := range []string{"rows", "queries"} {
				if b.texts[i], err = texts(*data, part); err != nil {
					return err
				}
			}
		}
		measure := b.run
		switch {
		case *histories:
			measure = b.histories
		case *sweep:
			measure = b.sweep
		}
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		failed += b.short + b.slow
	}
	if failed > 0 {
		return fmt.Errorf("%w: %d cells", errShort, failed)
	}
	return nil
}
