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

// Place is that of a row on a map of its collection.
type Place struct {
	plot.Point
	Key   []byte
	Label string // the first one of the row, "" without any
}

// Map returns the places of at most 2,000 rows of a collection, evenly over the row numbers: the two leading
// principal coordinates of their vectors. There are none if there are too few vectors or coordinates.
// Cost: O(rows · coordinates²).
func Map(ctx context.Context, c db.Collection, info db.CollectionInfo) ([]Place, error) {
	if info.Dim < 2 {
		return nil, nil
	}
	rows, err := spread(c, info)
	if err != nil || len(rows) < leastMapped {
		return nil, err
	}
	return places(ctx, rows, info.Dim)
}

// mapOf returns a picture of Map, nil if that is empty. The labels that most rows have first get a colour
// each.
func mapOf(ctx context.Context, c db.Collection, info db.CollectionInfo) (*plot.Chart, error) {
	rows, err := Map(ctx, c, info)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &plot.Chart{
		Title: fmt.Sprintf("%s: %d of %d rows by two principal coordinates", info.Name, len(rows), info.Live),
		X:     plot.Axis{Bare: true}, Y: plot.Axis{Bare: true}, Series: byLabel(rows),
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

func places(ctx context.Context, rows []db.Row, dim int) ([]Place, error) {
	r, err := forest.PCA(ctx, denseRows{rows, dim}, 2, 0, 1, 0)
	if err != nil {
		return nil, err
	}
	out := make([]Place, len(rows))
	var at [2]float32
	for i, row := range rows {
		r.Apply(row.Vector, at[:])
		out[i] = Place{Point: plot.Point{X: float64(at[0]), Y: float64(at[1])}, Key: row.Key}
		if len(row.Labels) > 0 {
			out[i].Label = row.Labels[0]
		}
	}
	return out, nil
}

// byLabel divides places by label: the labels that most rows have get a colour each, the others are grey and
// beneath.
func byLabel(rows []Place) []plot.Series {
	counts := map[string]int{}
	for i := range rows {
		if name := rows[i].Label; name != "" {
			counts[name]++
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
	for i := range rows {
		at, ok := slices.BinarySearch(frequent, rows[i].Label)
		if !ok {
			at = -1
		}
		series[at+1].Points = append(series[at+1].Points, rows[i].Point)
	}
	if len(frequent) > 0 && len(series[0].Points) > 0 {
		series[0].Name = "others"
	}
	return series
}
