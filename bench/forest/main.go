// Command forest measures the forests of the paper (Hyvönen, Jääsaari and Roos 2022, section 9) with every way
// of selecting candidates, without sketches and neighbor lists. Settings are chosen on the measured queries, as
// in the paper's tables.
//
//	go run ./bench/forest -set fashion-mnist -out bench/results/forest
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/bench/internal/forestbench"
	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

var (
	// targets are the recalls of the tables, paperTargets those at which the paper compares methods.
	targets      = []float64{0.8, 0.9, 0.95, 0.99}
	paperTargets = targets[:3]
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "forest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("forest", flag.ContinueOnError)
	data := flags.String("data", "../shared/data", "folder of the public data sets")
	name := flags.String("set", "fashion-mnist", "data set: "+strings.Join(vectors.Names(), ", "))
	rows := flags.Int("rows", 0, "number of rows, 0 for all")
	queries := flags.Int("queries", vectors.QueryRows, "number of queries")
	kinds := flags.String("kinds", strings.Join(forestbench.Kinds(), ","), "forests, with commas")
	k := flags.Int("k", 10, "neighbors")
	rounds := flags.Int("rounds", 3, "times that a setting is measured")
	out := flags.String("out", "", "folder for pictures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	set, err := vectors.Load(*data, *name)
	if err != nil {
		return err
	}
	m := &forestbench.Matrix{Data: set.Base, N: set.Rows(), D: set.Dim}
	if *rows > 0 && *rows < m.N {
		m.N, m.Data = *rows, set.Base[:*rows*set.Dim]
	}
	asked := slices.Collect(slices.Chunk(set.Test, set.Dim))
	printed := table.Output{W: w, Format: table.Markdown}
	begin := time.Now()
	points, err := forestbench.Run(ctx, m, set.Metric, asked[:min(*queries, len(asked))], forestbench.Options{
		K: *k, Kinds: strings.Split(*kinds, ","), Depths: []int{8, 10, 12, 13}, Rounds: *rounds,
		Measured: func(forest string, _ []forestbench.Point) {
			fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(begin).Seconds(), forest)
		},
	})
	if err != nil {
		return err
	}
	err = printed.Report(
		fastest(points).As("fastest", "Time of the fastest setting in µs, k = "+fmt.Sprint(*k)),
		verdicts(points).As("verdicts", "The paper's findings"))
	if err != nil || *out == "" {
		return err
	}
	return write(*out, points)
}

// fastest returns the time of the fastest setting of each forest and method for each target.
func fastest(points []forestbench.Point) *table.Table {
	columns := []string{"forest", "method"}
	for _, r := range targets {
		columns = append(columns, fmt.Sprintf("%.2f:1", r))
	}
	t := table.New(columns...)
	for _, f := range forestbench.Forests(points) {
		for _, m := range forestbench.Methods() {
			row := []any{f, m.String()}
			for _, r := range targets {
				if p, ok := forestbench.Best(points, f, m.String(), r); ok {
					row = append(row, p.Micros)
				} else {
					row = append(row, nil)
				}
			}
			t.Add(row...)
		}
	}
	return t
}

func verdicts(points []forestbench.Point) *table.Table {
	t := table.New("forest", "recall:2", "fastest", "slowest", "natural_fastest", "lookup_slowest")
	for _, v := range forestbench.Verdicts(points, paperTargets) {
		t.Add(v.Forest, v.Recall, v.Fastest, v.Slowest, v.NaturalFastest, v.LookupSlowest)
	}
	return t
}

// write stores a picture of each forest with a curve for each method, and one that compares the
// natural classifiers of all forests.
func write(dir string, points []forestbench.Point) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	natural := map[string][]plot.Point{}
	for _, f := range forestbench.Forests(points) {
		byMethod := map[string][]plot.Point{}
		for _, p := range points {
			if p.Forest == f {
				byMethod[p.Method] = append(byMethod[p.Method], plot.Point{X: p.Recall, Y: p.Micros})
			}
		}
		natural[f] = byMethod[query.Natural.String()]
		if err := draw(filepath.Join(dir, f+".svg"), f, byMethod); err != nil {
			return err
		}
	}
	return draw(filepath.Join(dir, "forests.svg"), "natural classifier by forest", natural)
}

// draw writes a picture with a curve of the best of each set of points. One in which no recall is high enough
// is left out.
func draw(path, title string, sets map[string][]plot.Point) error {
	var curves []plot.Series
	for name, points := range sets {
		curves = append(curves, plot.Series{Name: name, Group: name, Points: plot.Front(points)})
	}
	slices.SortFunc(curves, func(a, b plot.Series) int { return strings.Compare(a.Name, b.Name) })
	const leastRecall = 0.6
	chart := plot.RecallTime(title, leastRecall, curves...)
	err := create(path, func(w io.Writer) error { return chart.Write(w) })
	if errors.Is(err, plot.ErrEmpty) {
		return os.Remove(path)
	}
	return err
}

func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
