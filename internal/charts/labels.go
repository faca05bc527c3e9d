package charts

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/plot"
)

// LabelCounts are what the rows of a collection have for labels (Liu and Tsang 2017, figure 1).
type LabelCounts struct {
	// Labels and Sets are the numbers of rows with each label and with each set of labels, largest
	// first.
	Labels, Sets []int
	// PerRow[n] is the number of rows with n labels.
	PerRow []int
}

// CountLabels reads the labels of all rows. Cost: it reads all rows, and keeps the distinct sets.
func CountLabels(ctx context.Context, c db.Collection) (*LabelCounts, error) {
	labels, sets := map[string]int{}, map[string]int{}
	out := &LabelCounts{}
	for r, err := range c.Rows(ctx, nil) {
		if err != nil {
			return nil, err
		}
		for len(out.PerRow) <= len(r.Labels) {
			out.PerRow = append(out.PerRow, 0)
		}
		out.PerRow[len(r.Labels)]++
		if len(r.Labels) == 0 {
			continue
		}
		for _, l := range r.Labels {
			labels[l]++
		}
		slices.Sort(r.Labels)
		sets[strings.Join(r.Labels, "\x00")]++
	}
	out.Labels, out.Sets = descending(labels), descending(sets)
	return out, nil
}

func descending(counts map[string]int) []int {
	return slices.SortedFunc(maps.Values(counts), func(a, b int) int { return b - a })
}

// Frequencies returns how many rows have each label and each set of labels, by rank. Straight
// lines are power laws.
func (l *LabelCounts) Frequencies(coll string) *plot.Chart {
	byRank := func(name string, counts []int) plot.Series {
		s := plot.Series{Name: name}
		for i, n := range counts {
			// Of a long run of equal counts only the ends are drawn.
			if i == 0 || i == len(counts)-1 || counts[i-1] != n || counts[i+1] != n {
				s.Points = append(s.Points, plot.Point{X: float64(i + 1), Y: float64(n)})
			}
		}
		return s
	}
	return &plot.Chart{
		Title:  coll + ": frequency of labels",
		X:      plot.Axis{Label: "rank", Scale: plot.Log, Whole: true},
		Y:      plot.Axis{Label: "rows", Scale: plot.Log, Whole: true},
		Series: []plot.Series{byRank("labels", l.Labels), byRank("sets of labels", l.Sets)},
	}
}

// RowCounts returns how many rows have so many labels.
func (l *LabelCounts) RowCounts(coll string) *plot.Chart {
	s := plot.Series{}
	for n, rows := range l.PerRow {
		s.Points = append(s.Points, plot.Point{X: float64(n), Y: float64(rows)})
	}
	return &plot.Chart{
		Title:  coll + ": labels per row",
		X:      plot.Axis{Label: "labels", Whole: true},
		Y:      plot.Axis{Label: "rows", Scale: plot.Log, Whole: true},
		Series: []plot.Series{s},
	}
}
