package lcif

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// setCoords makes s.coords the dense form of a query with dim coordinates.
func (s *NeighborScratch) setCoords(x vector.Sparse, dim int) error {
	s.coords = room(s.coords, dim)
	clear(s.coords)
	for i, j := range x.Index {
		if int(j) >= dim {
			return dimensionError(j, dim)
		}
		s.coords[j] = x.Value[i]
	}
	return nil
}

// vectorOf returns the vector of a training row, nil if there is none.
func (s *NeighborScratch) vectorOf(v *View, row uint32) []float32 {
	if v.Vector == nil {
		return nil
	}
	x := v.Vector(row, s.vector)
	if x != nil {
		s.vector = x
	}
	return x
}

// Similarity converts a cosine distance to a similarity, 0 to 1.
func Similarity(distance float32) float64 { return min(1, max(0, 1-float64(distance))) }

// near is a neighbour in the format of caches.
type near struct {
	row uint32
	sim float32
}

// UnitRows returns the rows as predictions with the view normalise them: with only the features
// that the view knows and keeps, and divided by a length that includes unknown features. Rows
// without any such feature are empty. O(entries).
func UnitRows(rows *vector.CSR, v *View) *vector.CSR {
	out := &vector.CSR{Ptr: make([]uint64, 1, len(rows.Ptr)), Value: []float32{}, Cols: v.Features}
	var unit vector.Sparse
	for i := range rows.Rows() {
		normalise(&unit, row(rows, i), v.Features, v.Keep)
		out.Append(unit)
	}
	return out
}

// FeatureRows returns unit rows as they are counted for feature–label pairs: a value below zero
// is omitted. Without such values it returns the rows themselves. O(entries).
func FeatureRows(units *vector.CSR) *vector.CSR {
	below := func(x float32) bool { return x < 0 }
	if !slices.ContainsFunc(units.Value, below) {
		return units
	}
	out := &vector.CSR{Ptr: make([]uint64, 1, len(units.Ptr)), Value: []float32{}, Cols: units.Cols}
	for i := range units.Rows() {
		row := units.Row(i)
		for e, x := range row.Value {
			if !below(x) {
				out.Index, out.Value = append(out.Index, row.Index[e]), append(out.Value, x)
			}
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Index)))
	}
	return out
}

// neighborLists returns the neighbours of every query of a part, nearest first. units holds the queries as
// [UnitRows] returns them.
func neighborLists(ctx context.Context, p *Part, units *vector.CSR,
	k, workers int, progress func(done, total int)) ([][]near, error) {
	source, depth := p.View.Neighbors, k
	both, _ := source.(*BothNeighbors)
	if both != nil {
		source, depth = both.Vectors, max(k, bothDepth)
	}
	var byVectors [][]postings.Hit
	if s, ok := source.(Scanner); ok {
		if scanned := s.Scanned(); scanned != nil {
			query, err := p.vectors(scanned.View.Dim)
			if err == nil {
				byVectors, err = scanned.many(ctx, p.Queries.Rows(), query, depth, workers, progress)
			}
			if err != nil {
				return nil, err
			}
			progress = nil // what follows takes a small part of the time
		}
	}
	rows := make([][]near, p.Queries.Rows())
	err := eachRow(ctx, len(rows), workers, progress, func() func(int) error {
		s := new(NeighborScratch)
		var hits []postings.Hit
		return func(i int) (err error) {
			q := NeighborQuery{Raw: row(p.Queries, i), Unit: units.Row(i)}
			if p.Rows != nil {
				q.Vector = s.vectorOf(p.View, uint32(p.Rows[i]))
			}
			switch {
			case q.Unit.Len() == 0 && q.Vector == nil:
				return nil
			case byVectors == nil:
				hits, err = p.View.Neighbors.Neighbors(ctx, s, q, k, hits[:0])
			case both == nil:
				hits = byVectors[i]
			default:
				hits, err = both.with(ctx, s, q, k, byVectors[i], hits[:0])
			}
			if err != nil {
				return err
			}
			rows[i] = make([]near, len(hits))
			for j, h := range hits {
				rows[i][j] = near{h.Row, float32(h.Score)}
			}
			return nil
		}
	})
	return rows, err
}

// vectors returns what returns the vector that a query is compared by, nil for none: that next to its
// features, or these, of dim coordinates. Errors: ErrDimension.
func (p *Part) vectors(dim int) (func(i int, buf []float32) []float32, error) {
	switch {
	case p.View.Vector == nil:
	case p.Rows == nil:
		return func(int, []float32) []float32 { return nil }, nil
	default:
		return func(i int, buf []float32) []float32 { return p.View.Vector(uint32(p.Rows[i]), buf) }, nil
	}
	for _, j := range p.Queries.Index {
		if int(j) >= dim {
			return nil, dimensionError(j, dim)
		}
	}
	return func(i int, buf []float32) []float32 {
		buf = buf[:dim]
		clear(buf)
		x := row(p.Queries, i)
		for e, j := range x.Index {
			buf[j] = x.Value[e]
		}
		return buf
	}, nil
}

// dimensionError is the error of a coordinate that rows do not have.
func dimensionError(coordinate uint32, dim int) error {
	return fmt.Errorf("%w: coordinate %d, rows have %d", query.ErrDimension, coordinate, dim)
}
