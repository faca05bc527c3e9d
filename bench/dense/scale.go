package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/internal/plot"
)

// scaleSets are generated sets of one seed; each is the beginning of the next.
var scaleSets = []string{"generated-10k", "generated-100k", "generated-1m"}

// scale draws the time of a query at a recall against the number of rows, from
// the reports of the generated sets in the out folder, and writes the same as
// a table.
func (c *config) scale(target float64) error {
	var rows []int
	times := map[string][]plot.Point{}
	var names []string
	for _, name := range scaleSets {
		var r report
		if err := load(filepath.Join(c.out, name+".json"), &r); err != nil {
			return fmt.Errorf("scale needs the reports of %s: %w", strings.Join(scaleSets, ", "), err)
		}
		rows = append(rows, r.Rows)
		for _, l := range r.Lines {
			x, ok := l.Cells[at(target)]
			if !ok {
				continue
			}
			if times[l.System] == nil {
				names = append(names, l.System)
			}
			times[l.System] = append(times[l.System], plot.Point{X: float64(r.Rows), Y: x.Micros})
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "µs a query at recall %g, generated rows of %d coordinates, k = %d\n\n| system |", target, vectors.GenDim, k)
	for _, n := range rows {
		fmt.Fprintf(&text, " %d |", n)
	}
	fmt.Fprintf(&text, "\n|---|%s\n", strings.Repeat("---:|", len(rows)))
	chart := plot.Chart{
		Title: fmt.Sprintf("recall %g, k = %d, one thread", target, k),
		X:     plot.Axis{Label: "rows", Scale: plot.Log}, Y: plot.Axis{Label: "time per query (µs)", Scale: plot.Log},
	}
	styles := map[string]int{}
	for _, name := range names {
		library, _, _ := strings.Cut(name, "-")
		style := fmt.Sprint(styles[library])
		chart.Series = append(chart.Series, plot.Series{Name: name, Group: library, Style: style, Points: times[name]})
		styles[library]++
		fmt.Fprintf(&text, "| %s |", name)
		for _, n := range rows {
			cell := " – |"
			for _, s := range times[name] {
				if int(s.X) == n {
					cell = fmt.Sprintf(" %s |", digits(s.Y))
				}
			}
			text.WriteString(cell)
		}
		text.WriteString("\n")
	}
	fmt.Print(text.String())
	if err := os.WriteFile(filepath.Join(c.out, "scale.md"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(c.out, "scale.svg"))
	if err != nil {
		return err
	}
	return errors.Join(chart.Write(f), f.Close())
}
