package labeltreeindex

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// encoding is how rows become what classifiers see: first the coordinates of a vector, then the features,
// whose numbers grow as rows with new ones are written.
type encoding struct {
	// Vectors is the number of coordinates of a vector that take part.
	Vectors int `json:",omitempty"`
	// Scale standardizes them, if set; Divisor makes a row of them about as long as one of features.
	Scale   *lcif.Scaling `json:",omitempty"`
	Divisor float64       `json:",omitempty"`
	// Features is set if features take part.
	Features bool `json:",omitempty"`
}

// valid reports whether a build can have written the encoding.
func (e *encoding) valid() bool {
	return e.Vectors >= 0 && e.Vectors <= kind.MaxDim && (e.Vectors > 0 || e.Features) &&
		(e.Scale == nil || e.Scale.Valid(e.Vectors)) &&
		(e.Vectors == 0 || e.Divisor > 0 && e.Divisor < math.MaxFloat32)
}

// encoder encodes rows and queries.
type encoder struct {
	encoding
	counts bool      // values are counts of terms, which are weighed as such
	idf    []float32 // what values are multiplied by, 0 for features that no row has; nil for 1
	known  int       // number of features; later ones are left out
}

// scaled appends the coordinates of a vector, standardized if there is a scale.
func (e *encoding) scaled(dst, v []float32) []float32 {
	if e.Scale == nil {
		return append(dst, v...)
	}
	return e.Scale.Apply(dst, v)
}

// encode sets dst to what classifiers see of features and a vector, nil for none.
func (e *encoder) encode(dst *vector.Sparse, x vector.Sparse, v []float32, room *[]float32) {
	dst.Index, dst.Value = dst.Index[:0], dst.Value[:0]
	if e.Vectors > 0 && len(v) == e.Vectors {
		*room = e.scaled((*room)[:0], v)
		for i, c := range *room {
			if c /= float32(e.Divisor); c != 0 && c-c == 0 {
				dst.Index, dst.Value = append(dst.Index, uint32(i)), append(dst.Value, c)
			}
		}
	}
	if !e.Features {
		return
	}
	square := 0.
	from := len(dst.Value)
	for i, f := range x.Index {
		value := x.Value[i]
		if int(f) >= e.known {
			break
		}
		switch {
		case e.counts:
			value = labelled.WeightOf(value, e.idf[f])
		case e.idf != nil:
			value *= e.idf[f]
		}
		if value != 0 {
			dst.Index, dst.Value = append(dst.Index, f+uint32(e.Vectors)), append(dst.Value, value)
			square += float64(value) * float64(value)
		}
	}
	length := math.Sqrt(square)
	for i := range dst.Value[from:] {
		dst.Value[from+i] = float32(float64(dst.Value[from+i]) / length)
	}
}

// encode replaces the rows of data by what classifiers see.
func (l *learned) encode(ctx context.Context, st kind.Source, data *labelled.Rows) (err error) {
	c := st.Collection()
	features := c.Sparse && l.opts.From != fromVector
	l.input.Features, l.input.known = features, data.Rows.Cols
	switch l.input.counts = features && l.opts.Weight == labelled.WeightTFIDF; {
	case l.input.counts:
		l.input.idf = data.InverseFrequencies(true)
	case features:
		if known := data.Known(); known != nil {
			l.input.idf = make([]float32, data.Rows.Cols)
			for _, f := range known {
				l.input.idf[f] = 1
			}
		}
	}
	vectorOf := func(int) []float32 { return nil }
	if !c.Sparse || l.opts.From != fromText {
		var base *query.View
		if base, err = st.Rows(ctx); err != nil {
			return err
		}
		vectorOf = vectorsOf(base)
		l.fitVectors(base.Dim, data, vectorOf)
	}
	cols := l.input.Vectors
	if features {
		cols += data.Rows.Cols
	}
	var x vector.Sparse
	var room []float32
	data.Rows = data.Mapped(cols, func(row int) vector.Sparse {
		l.input.encode(&x, data.Rows.Row(row), vectorOf(row), &room)
		return x
	})
	return ctx.Err()
}

// vectorsOf returns a function that returns the vector of a row, nil if it has none.
func vectorsOf(base *query.View) func(row int) []float32 {
	room := make([]float32, base.Dim)
	return func(row int) []float32 {
		if base.IsDeleted(uint32(row)) {
			return nil
		}
		return base.Rows.Vector(row, room)
	}
}

// fitVectors sets how vectors are scaled.
func (l *learned) fitVectors(dim int, data *labelled.Rows, vectorOf func(int) []float32) {
	have := slices.DeleteFunc(slices.Clone(data.Live), func(row int) bool { return vectorOf(row) == nil })
	l.input.Vectors, l.input.Divisor = dim, 1
	if len(have) == 0 {
		return
	}
	of := func(i int) []float32 { return vectorOf(have[i]) }
	if l.opts.Weight == labelled.WeightStandard || l.opts.From == fromBoth {
		l.input.Scale = lcif.FitScaling(dim, len(have), of)
	}
	var room []float32
	square := 0.
	for i := range have {
		room = l.input.scaled(room[:0], of(i))
		for _, x := range room {
			square += float64(x) * float64(x) / float64(len(have))
		}
	}
	if root := math.Sqrt(square); root > 0 && root < math.MaxFloat32 {
		l.input.Divisor = root
	}
}
