package lcif

import (
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Scaling standardizes the columns of dense rows: coordinate i becomes
// (x − Mean[i])·Factor[i]. Factor is zero for a constant column.
type Scaling struct {
	Mean   []float32 `json:"mean"`
	Factor []float32 `json:"factor"`
}

// FitScaling returns the scaling that gives every column of n rows, as row returns them, mean
// zero and standard deviation one. O(n·dim).
func FitScaling(dim, n int, row func(i int) []float32) *Scaling {
	mean, square := make([]float64, dim), make([]float64, dim)
	for i := range n {
		for j, x := range row(i) {
			gap := float64(x) - mean[j]
			mean[j] += gap / float64(i+1)
			square[j] += gap * (float64(x) - mean[j])
		}
	}
	s := &Scaling{Mean: make([]float32, dim), Factor: make([]float32, dim)}
	for j := range dim {
		s.Mean[j] = float32(mean[j])
		// The rounding error of a constant column is not a deviation.
		if d := math.Sqrt(square[j] / float64(max(1, n))); d > 1e-6*math.Abs(mean[j]) {
			s.Factor[j] = finite32(1 / d)
		}
	}
	return s
}

// finite32 converts x to a finite float32.
func finite32(x float64) float32 {
	return float32(min(max(x, -math.MaxFloat32), math.MaxFloat32))
}

// Valid reports whether the scaling is valid for rows with dim coordinates.
func (s *Scaling) Valid(dim int) bool {
	if len(s.Mean) != dim || len(s.Factor) != dim {
		return false
	}
	for i := range dim {
		if x := s.Mean[i] * 0; x != 0 || !(s.Factor[i] >= 0 && s.Factor[i] <= math.MaxFloat32) {
			return false
		}
	}
	return true
}

// Apply appends the scaled coordinates of x to dst. One that overflows becomes the largest number.
func (s *Scaling) Apply(dst, x []float32) []float32 {
	from := len(dst)
	dst = slices.Grow(dst, len(x))[:from+len(x)]
	to := dst[from:]
	vector.Standardize(to, x, s.Mean, s.Factor)
	if vector.IsFinite(to) >= 0 {
		for i, v := range x {
			to[i] = finite32((float64(v) - float64(s.Mean[i])) * float64(s.Factor[i]))
		}
	}
	return dst
}

// ScaledNeighbors finds neighbors among dense rows by the cosine of scaled rows, exactly: it
// scans all rows. Queries are already scaled.
type ScaledNeighbors struct {
	View *query.View
	// Scaling is nil only in what Scanner returns.
	Scaling *Scaling
	// Only, if set, holds all rows that may be neighbors.
	Only *roaring.Bitmap
}

// scaledStep is the number of rows that are scanned between two checks of the
// context.
const scaledStep = 512

// Neighbors implements NeighborSource. Ties are ordered by row. O(rows·dim).
// Errors: ErrDimension, the context's.
func (n *ScaledNeighbors) Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int,
	dst []postings.Hit) ([]postings.Hit, error) {
	v := n.View
	s.Stats = postings.Stats{}
	if err := s.setCoords(q.Raw, v.Dim); err != nil {
		return dst, err
	}
	s.row = room(s.row, v.Dim)
	s.scan.Reset(min(k, v.Rows.N))
	for row := range v.Rows.N {
		if row%scaledStep == 0 {
			if err := ended(ctx); err != nil {
				return dst, err
			}
		}
		if !n.finds(uint32(row)) {
			continue
		}
		s.scaled = n.Scaling.Apply(s.scaled[:0], v.Rows.Vector(row, s.row))
		s.scan.Push(uint32(row), vector.CosineDistance(s.coords, s.scaled))
		s.Stats.Scored++
	}
	s.Stats.Candidates = s.Stats.Scored
	s.found = s.scan.Append(s.found[:0])
	for _, f := range s.found {
		dst = append(dst, postings.Hit{Row: f.ID, Score: Similarity(f.Distance)})
	}
	return dst, nil
}

// finds reports whether a row may be a neighbor.
func (n *ScaledNeighbors) finds(row uint32) bool {
	return !n.View.IsDeleted(row) && (n.Only == nil || n.Only.Contains(row))
}
