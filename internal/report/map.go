package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/trees/forest"
)

// mapRows is the largest number of rows that a map draws, evenly over the row numbers.
const mapRows = 2000

// leastMapped is the least number of rows of a map.
const leastMapped = 3

// mapOf returns a picture of the vectors of a collection in the plane: their two leading principal
// coordinates; nil if there are too few vectors or coordinates. The labels that most rows have first get a
// colour each. Cost: O(rows · coordinates²).
func mapOf(ctx context.Context, c db.Collection, info db.CollectionInfo) (*plot.Chart, error) {
	if info.Dim < 2 {
		return nil, nil
	}
	rows, err := spread(c, info)
	if err != nil || len(rows) < leastMapped {
		return nil, err
	}
	points, err := places(ctx, rows, info.Dim)
	if err != nil {
		return nil, err
	}
	return &plot.Chart{
		Title: fmt.Sprintf("%s: %d of %d rows by two principal coordinates", info.Name, len(rows), info.Live),
		X:     plot.Axis{Bare: true}, Y: plot.Axis{Bare: true}, Series: byLabel(rows, points),
	}, nil
}

// spread returns at most mapRows live rows with vectors, evenly over the row numbers.
func spread(c db.Collection, info db.CollectionInfo) ([]db.Row, error) {
	var rows []db.Row
	step := max(1, float64(info.Live)/mapRows)
	next := 0.0
	for number := range info.Rows {
		// The place among the live rows is estimated, so that rows which are not drawn are not read.
		at := float64(number) * float64(info.Live) / float64(info.Rows)
		if at < next {
			continue
		}
		r, err := c.GetRow(uint32(number))
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if next = at + step; r.Vector != nil {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// denseRows are rows for package forest.
type denseRows struct {
	rows []db.Row
	dim  int
}

func (d denseRows) Len() int                         { return len(d.rows) }
func (d denseRows) Dim() int                         { return d.dim }
func (d denseRows) Row(i int, _ []float32) []float32 { return d.rows[i].Vector }

func places(ctx context.Context, rows []db.Row, dim int) ([]plot.Point, error) {
	r, err := forest.PCA(ctx, denseRows{rows, dim}, 2, 0, 1, 0)
	if err != nil {
		return nil, err
	}
	points := make([]plot.Point, len(rows))
	var at [2]float32
	for i, row := range rows {
		r.Apply(row.Vector, at[:])
		points[i] = plot.Point{X: float64(at[0]), Y: float64(at[1])}
	}
	return points, nil
}

// byLabel divides points by the first label of their rows: those that most rows have get a colour each,
// the others are grey and beneath.
func byLabel(rows []db.Row, points []plot.Point) []plot.Series {
	names := make([]string, len(rows))
	counts := map[string]int{}
	for i, r := range rows {
		if len(r.Labels) > 0 {
			names[i] = r.Labels[0]
			counts[names[i]]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	frequent = frequent[:min(len(frequent), plot.Colors())]
	slices.Sort(frequent)
	series := make([]plot.Series, 1, 1+len(frequent))
	series[0].Mark = plot.Faint
	for _, name := range frequent {
		series = append(series, plot.Series{Name: name, Mark: plot.Dots})
	}
	for i, name := range names {
		at, ok := slices.BinarySearch(frequent, name)
		if !ok || name == "" {
			at = -1
		}
		series[at+1].Points = append(series[at+1].Points, points[i])
	}
	if len(frequent) > 0 && len(series[0].Points) > 0 {
		series[0].Name = "others"
	}
	return series
}
