package charts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/lsa"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// MapOptions are the options of Map.
type MapOptions struct {
	// Rows is the largest number of rows that are drawn; 5,000 if zero. They are spread evenly over
	// the row numbers.
	Rows int
	// Attribute is the name of the attribute that selects the colour; if empty, the first label of a
	// row does.
	Attribute string
}

// ErrFew is returned for a collection with too few rows or coordinates for a map.
var ErrFew = errors.New("charts: a map needs three rows and two coordinates")

// Map returns a picture of the rows of a collection in the plane: their two leading principal
// coordinates, or of sparse rows, scaled to unit length, the second and third singular vectors, since
// what all rows share is in the first. The most frequent labels have a colour each. Cost:
// O(rows · coordinates²) for dense rows.
func Map(ctx context.Context, c db.Collection, o MapOptions) (*plot.Chart, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	rows, err := Spread(c, info, cmp.Or(o.Rows, 5000))
	if err != nil {
		return nil, err
	}
	dim := max(info.Dim, info.Features)
	if len(rows) < 3 || dim < 2 {
		return nil, fmt.Errorf("%w: %q has %d and %d", ErrFew, info.Name, len(rows), dim)
	}
	if info.Text != nil {
		if analyze := text.ByName(info.Text.Analyzer); analyze != nil { // nil for that of another program
			countTerms(rows, analyze)
		}
	}
	place := densePlaces
	if info.Sparse {
		place = sparsePlaces
	}
	points, err := place(ctx, rows, dim)
	if err != nil {
		return nil, err
	}
	chart := &plot.Chart{
		Title: fmt.Sprintf("%s: %d of %d rows by two principal coordinates", info.Name, len(rows), info.Live),
		X:     plot.Axis{Bare: true}, Y: plot.Axis{Bare: true}, Width: 960, Height: 720,
	}
	chart.Series = byColor(rows, points, o.Attribute)
	return chart, nil
}

// Spread returns at most n live rows, evenly over the row numbers.
func Spread(c db.Collection, info db.CollectionInfo, n int) ([]db.Row, error) {
	var rows []db.Row
	step := max(1, float64(info.Live)/float64(n))
	next, seen := 0.0, 0
	for number := range info.Rows {
		// The place among the live rows is estimated, so that rows which are not drawn are not read.
		at := float64(number) * float64(info.Live) / float64(info.Rows)
		if at < next && seen > 0 {
			continue
		}
		r, err := c.GetRow(uint32(number))
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows, seen = append(rows, r), seen+1
		next = at + step
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

func densePlaces(ctx context.Context, rows []db.Row, dim int) ([]plot.Point, error) {
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

func sparsePlaces(ctx context.Context, rows []db.Row, dim int) ([]plot.Point, error) {
	m := &lsa.Matrix{Rows: len(rows), Cols: dim, Ptr: []int{0}}
	number := map[string]uint32{}
	for _, row := range rows {
		x := row.Sparse
		if len(row.Features) > 0 {
			x = numbered(row.Features, number)
		}
		norm := 0.0
		for _, v := range x.Value {
			norm += float64(v) * float64(v)
		}
		for i, f := range x.Index {
			if norm > 0 && int(f) < dim {
				m.Idx, m.Val = append(m.Idx, f), append(m.Val, float64(x.Value[i])/math.Sqrt(norm))
			}
		}
		m.Ptr = append(m.Ptr, len(m.Idx))
	}
	dims := min(3, dim, len(rows))
	out, _, err := lsa.SVD(ctx, m, lsa.Options{Dims: dims, Rounds: 6, Seed: 1})
	if err != nil {
		return nil, err
	}
	points := make([]plot.Point, len(rows))
	for i := range rows {
		points[i] = plot.Point{X: float64(out[i*dims+dims-2]), Y: float64(out[i*dims+dims-1])}
	}
	return points, nil
}

// countTerms makes features of the terms of texts.
func countTerms(rows []db.Row, analyze text.Analyzer) {
	for i := range rows {
		counts := map[string]float32{}
		analyze(rows[i].Text, func(t text.Token) { counts[t.Term]++ })
		for _, term := range slices.Sorted(maps.Keys(counts)) {
			rows[i].Features = append(rows[i].Features, db.Feature{Name: term, Value: counts[term]})
		}
	}
}

// numbered gives names the numbers of their first use.
func numbered(features []db.Feature, number map[string]uint32) vector.Sparse {
	values := map[uint32]float32{}
	for _, f := range features {
		n, ok := number[f.Name]
		if !ok {
			n = uint32(len(number))
			number[f.Name] = n
		}
		values[n] = f.Value
	}
	var x vector.Sparse
	for _, n := range slices.Sorted(maps.Keys(values)) {
		x.Index, x.Value = append(x.Index, n), append(x.Value, values[n])
	}
	return x
}

// byColor divides points by the label or attribute of their rows: those that most rows have get a
// colour each, the others are grey and beneath.
func byColor(rows []db.Row, points []plot.Point, attribute string) []plot.Series {
	names := make([]string, len(rows))
	counts := map[string]int{}
	for i, r := range rows {
		switch v, ok := r.Attributes[attribute]; {
		case attribute == "" && len(r.Labels) > 0:
			names[i] = r.Labels[0]
		case attribute != "" && ok:
			names[i] = fmt.Sprint(v)
		}
		if names[i] != "" {
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
