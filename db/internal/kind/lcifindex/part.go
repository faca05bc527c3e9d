package lcifindex

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// The numbers of a segment's arrays in the sections label-matrix and feature-labels
// (codec/FORMAT.md). They are part of the format.
const (
	arrayLabelPtr uint32 = iota
	arrayLabelIndex
	arrayLabelNames
)

const (
	arraySumPtr uint32 = iota
	arraySumLabel
	arraySum
	arraySquare
	arrayLabelRows
	arrayPower
	arrayPowerStart
	arrayKeep
	arrayIDF
)

// part is a segment with its arrays, in the map.
type part struct {
	*detail
	segment *kind.Segment
	names   codec.Strings
	sets    vector.CSR   // labels of the rows
	pairs   labels.Pairs // its values are the powers of the sums, in the first segment only
	sums    []int64
	square  []uint64 // the two halves of labels.Uint128
	rows    []uint32 // by label
	// The selection and the weights of features are stored in the first segment.
	keep []uint64
	idf  []float32
}

// arrays reads or writes the arrays, except for the names.
func (p *part) arrays(matrix, similarity *arrays.Section) {
	arrays.Field(matrix, arrayLabelPtr, &p.sets.Ptr)
	arrays.Field(matrix, arrayLabelIndex, &p.sets.Index)
	arrays.Field(similarity, arraySumPtr, &p.pairs.Ptr)
	arrays.Field(similarity, arraySumLabel, &p.pairs.Label)
	arrays.Field(similarity, arraySum, &p.sums)
	arrays.Field(similarity, arraySquare, &p.square)
	arrays.Field(similarity, arrayLabelRows, &p.rows)
	arrays.Field(similarity, arrayPower, &p.pairs.Value)
	arrays.Field(similarity, arrayPowerStart, &p.pairs.Start)
	arrays.Field(similarity, arrayKeep, &p.keep)
	arrays.Field(similarity, arrayIDF, &p.idf)
}

// weighing returns how the model weighs rows, by its first segment.
func (p *part) weighing() weighing { return weighing{p.idf, p.Scale} }

// counts returns the counts of the segment's rows.
func (p *part) counts() *labels.FeatureLabels {
	c := &labels.FeatureLabels{Ptr: p.pairs.Ptr, Label: p.pairs.Label, Sum: p.sums, Rows: p.rows}
	for i := 0; i < len(p.square); i += 2 {
		c.Square = append(c.Square, labels.Uint128{Hi: p.square[i], Lo: p.square[i+1]})
	}
	return c
}

// readParts maps the arrays of the segments that begin before a row, and checks that they are consistent.
func readParts(ctx context.Context, st kind.Source, m *kind.Manifest, end int) ([]part, error) {
	var parts []part
	known := 0 // number of labels
	for i := range m.Segments {
		g := &m.Segments[i]
		if g.Empty() || g.First >= end {
			continue
		}
		p := part{detail: g.Own.(*detail), segment: g}
		known += p.Labels
		if err := p.read(st.Arrays(ctx, m.Info.Name, g.Object), known); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// read maps the arrays of a segment, which with earlier ones has so many labels. Blocks never change, so they
// are checked once per process.
func (p *part) read(r *arrays.Reader, known int) error {
	matrix := r.Section(codec.KindLabelMatrix)
	p.names = matrix.ReadNames(arrayLabelNames, p.Labels)
	p.sets.Cols = known
	p.arrays(matrix, r.Section(codec.KindSimilarity))
	r.Need(len(p.sets.Ptr) == p.segment.Rows+1, "labels of rows")
	r.Need(len(p.sums) == len(p.pairs.Label), "sums of pairs")
	r.Need(len(p.pairs.Ptr) == p.Features+1 && len(p.square) == 2*p.Features, "features")
	r.Need(len(p.rows) == known, "rows of labels")
	r.Need(p.keep == nil || len(p.keep) == (p.Features+63)/64, "features kept")
	r.Need(len(p.idf) <= p.Features, "weights of features")
	shape := fmt.Sprint(p.segment.First, p.segment.Rows, p.Features)
	r.Once(kind.RoleLabels, shape, known, func() error { return p.validate(known) })
	return r.Err
}

// validate checks the arrays of a segment, whose lengths are those that they must have.
func (p *part) validate(known int) error {
	if err := p.sets.Validate(); err != nil {
		return fmt.Errorf("labels of rows: %w", err)
	}
	sums := vector.CSR{Ptr: p.pairs.Ptr, Index: p.pairs.Label, Cols: known}
	if err := sums.Validate(); err != nil {
		return fmt.Errorf("pairs: %w", err)
	}
	if p.segment.First == 0 {
		if err := p.pairs.Validate(known); err != nil {
			return fmt.Errorf("pairs: %w", err)
		}
	}
	return labelled.CheckWeights(p.idf)
}

// labelSets are the label sets of a model's rows and of fresh ones.
type labelSets struct {
	parts      []part
	relabelled map[uint32][]uint32 // present sets of rows of segments
	covered    int                 // number of rows in segments
	fresh      [][]uint32
	labels     int
}

var _ lcif.LabelSets = (*labelSets)(nil)

// Rows implements lcif.LabelSets.
func (s *labelSets) Rows() int { return s.covered + len(s.fresh) }

// Labels implements lcif.LabelSets.
func (s *labelSets) Labels() int { return s.labels }

// Row implements lcif.LabelSets.
func (s *labelSets) Row(i int) []uint32 {
	if i >= s.covered {
		return s.fresh[i-s.covered]
	}
	if set, ok := s.relabelled[uint32(i)]; ok {
		return set
	}
	for g := len(s.parts) - 1; g >= 0; g-- {
		p := &s.parts[g]
		if i < p.segment.First {
			continue
		}
		if i < p.segment.End() {
			at := i - p.segment.First
			return p.sets.Index[p.sets.Ptr[at]:p.sets.Ptr[at+1]]
		}
		return nil // a row of a segment without live rows
	}
	return nil
}
