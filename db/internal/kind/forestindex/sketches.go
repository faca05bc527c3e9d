package forestindex

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// A sketch takes one cache line where 108 principal coordinates say nearly all about distances, as they
// do in images. Where they do not, as in text, a build measures what wider sketches would save.

// Rows of more than costlyDim coordinates, whose principal coordinates take seconds to learn, have sketches
// of one line without a measurement if these keep at least the share enough of the squared lengths.
const (
	costlyDim = 256
	enough    = 0.9
)

// coordinates returns the number of principal coordinates that the trees and the narrowest possible
// sketches of o use.
func (o Options) coordinates(inner int) int {
	n := min(max(o.Rotate, 0), inner)
	if o.SketchBytes >= 0 {
		n = max(n, min(vector.PackedCoordinates(max(o.SketchBytes, vector.PackedLine)), inner))
	}
	return n
}

// principal learns the requested principal coordinates, and as many as the widest sketches have if those of
// one line may not suffice.
func (l *learned) principal(
	ctx context.Context, t *training, o Options, requested int,
) (*forest.Rotation, error) {
	pca := func(n int) (*forest.Rotation, error) {
		return forest.PCA(ctx, t.corpus, n, pcaSample, o.Seed, kind.WorkersOf(ctx))
	}
	inner := t.corpus.rows.d
	most, n := min(vector.PackedCoordinates(vector.MaxPackedWidth), inner), o.coordinates(inner)
	if o.SketchBytes != 0 || n >= most {
		return pca(requested)
	}
	if inner > costlyDim {
		narrow, err := pca(requested)
		if err != nil || keptBy(narrow.Leading(n), t.corpus) >= enough {
			return narrow, err
		}
	}
	whole, err := pca(most)
	l.whole = whole
	return whole, err
}

// keptBy returns the share of the rows' squared lengths, without their mean, that is in the coordinates of
// r, by a sample.
func keptBy(r *forest.Rotation, rows labels.Rows) float64 {
	var all, inside float64
	x, buf := make([]float32, r.R), make([]float32, rows.Dim())
	for i := 0; i < rows.Len(); i += max(1, rows.Len()/keptRows) {
		row := rows.Row(i, buf)
		r.Apply(row, x)
		all += float64(vector.L2Squared(row, r.Mean))
		inside += float64(vector.Dot(x, x))
	}
	if !(all > 0) {
		return 1
	}
	return inside / all
}

// makeSketches encodes every row. The labels determine how wide the sketches are, and how much of the
// length outside the sketched coordinates separates a row from its neighbors (query.FitSketches).
func (l *learned) makeSketches(ctx context.Context, t *training, o Options) error {
	rows, lists, width := t.corpus.rows, t.localHops(), o.SketchBytes
	if width == 0 {
		var err error
		if width, err = l.chooseWidth(ctx, t, lists); err != nil {
			return err
		}
	}
	if n := min(vector.PackedCoordinates(width), rows.d); n > l.rotated.d {
		l.rotation = l.whole.Leading(n)
		l.rotated = rotate(ctx, l.rotation, rows)
	}
	l.whole = nil
	live := subset{rows: l.rotated, ids: t.corpus.ids}
	l.encoder = query.FitSketches(t.corpus, live, l.mean, lists, width)
	l.sketch = make([]byte, rows.n*width)
	err := par.Each(ctx, par.Work{N: rows.n, Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		l.encoder.Encode(l.sketch[i*width:(i+1)*width], rows.Row(i, nil), l.rotated.Row(i, nil), l.mean)
		return nil
	})
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	return nil
}
