package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/internal/plot"
)

// write puts a report into the out folder: the table as Markdown, everything
// as JSON, the curves as SVG; the table also goes to standard output.
func (r *report) write(c *config) error {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	base := filepath.Join(c.out, r.Set)
	if err := save(base+".json", r); err != nil {
		return err
	}
	var text strings.Builder
	r.table(&text, c.targets)
	fmt.Print(text.String())
	if err := os.WriteFile(base+".md", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return r.plot(base + ".svg")
}

// table is the report as Markdown.
func (r *report) table(w io.Writer, targets []float64) {
	fmt.Fprintf(w, "%s: %d rows, dimension %d, k = %d\n\nµs a query at recall (recall on the test queries)\n\n| system |", r.Set, r.Rows, r.Dim, k)
	for _, t := range targets {
		fmt.Fprintf(w, " %g |", t)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---:|", len(targets)))
	for _, l := range r.Lines {
		fmt.Fprintf(w, "| %s |", l.System)
		for _, t := range targets {
			if x, ok := l.Cells[at(t)]; ok {
				fmt.Fprintf(w, " %s (%.3f) |", digits(x.Micros), x.Recall)
			} else {
				fmt.Fprint(w, " – |")
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\n| system | build s (threads) | MB on disk | MB resident (its own) | open → first answer ms | batch/s on 1 → 2 threads | p50 / p99 µs at 0.95 | allocations a query |\n|---|---|---:|---:|---:|---|---|---:|\n")
	for _, l := range r.Lines {
		var builds []string
		for _, t := range sorted(l.Build.Seconds) {
			builds = append(builds, fmt.Sprintf("%s (%d)", digits(l.Build.Seconds[t]), t))
		}
		x, ok := l.Cells[at(0.95)]
		allocs, tail := "", ""
		if ok {
			tail = fmt.Sprintf("%s / %s", digits(x.P50), digits(x.P99))
			if x.Allocs >= 0 {
				allocs = fmt.Sprintf("%.2f", x.Allocs)
			}
		}
		batch := ""
		if l.One > 0 {
			batch = fmt.Sprintf("%.0f → %.0f (× %.2f)", l.One, l.Two, l.Two/l.One)
		}
		first := ""
		if l.First > 0 {
			first = digits(l.First * 1000)
		}
		fmt.Fprintf(w, "| %s | %s | %.0f | %.0f (%.0f) | %s | %s | %s | %s |\n",
			l.System, strings.Join(builds, ", "), float64(l.Disk)/1e6, l.Resident/1e6, l.Own/1e6, first, batch, tail, allocs)
	}
	fmt.Fprintf(w, "\nSettings\n\n")
	for _, l := range r.Lines {
		fmt.Fprintf(w, "- %s: `%s`, %s.", l.System, l.Build.Words, l.About)
		if l.Note != "" {
			fmt.Fprintf(w, " %s.", l.Note)
		}
		for _, t := range targets {
			if x, ok := l.Cells[at(t)]; ok {
				fmt.Fprintf(w, " %g: `%s`", t, x.Setting)
				if x.Work != "" {
					fmt.Fprintf(w, " (%s)", x.Work)
				}
				fmt.Fprint(w, ";")
			}
		}
		for _, t := range sorted(l.Build.Detail) {
			if d := l.Build.Detail[t]; d != "" {
				fmt.Fprintf(w, " Build on %d threads: %s.", t, d)
			}
		}
		fmt.Fprintln(w)
	}
}

// digits prints three figures.
func digits(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func sorted[V any](m map[int]V) []int {
	var keys []int
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// plot draws all settings of all systems on the test queries.
func (r *report) plot(path string) error {
	var curves []plot.Series
	seen := map[string]int{}
	for _, l := range r.Lines {
		var points []plot.Point
		for _, t := range l.Curve {
			points = append(points, plot.Point{X: t.Recall, Y: t.Micros})
		}
		if len(points) == 0 {
			continue
		}
		// A library has a colour, its indexes differ by dashes.
		library, _, _ := strings.Cut(l.System, "-")
		style := fmt.Sprint(seen[library])
		seen[library]++
		curves = append(curves, plot.Series{Name: l.System, Group: library, Style: style, Points: plot.Front(points)})
	}
	if len(curves) == 0 {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s, %d rows, k = %d, one thread", r.Set, r.Rows, k)
	return errors.Join(plot.RecallTime(title, 0.75, curves...).Write(f), f.Close())
}
