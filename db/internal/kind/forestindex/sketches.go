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

// A sketch of principal coordinates takes one cache line. It suffices where these coordinates determine
// most of a distance, as in images. Where they do not, as in text, a build measures what sketches of
// signs would save.

// Rows of more than cheapDim coordinates have sketches of principal coordinates without a measurement if
// these coordinates keep at least the share enough of the squared lengths.
const (
	cheapDim = 256
	enough   = 0.9
)

// coordinates returns the number of principal coordinates that the trees and sketches of o use.
func (o options) coordinates(inner int) int {
	n := min(max(o.Coordinates, 0), inner)
	if !o.NoSketches {
		n = max(n, min(vector.PackedHead+vector.PackedTail, inner))
	}
	return n
}

// keptBy returns the share of the rows' squared distances from their mean that the coordinates of r keep,
// estimated from a sample.
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

// makeSketches chooses a code, unless the large segment has one, and encodes every row. The neighbor
// lists determine which code ranks rows well enough, and how much of the length outside the sketched
// coordinates separates a row from its neighbors (query.FitSketches).
func (l *learned) makeSketches(ctx context.Context, t *training, o options) error {
	rows, lists := t.corpus.rows, t.localHops()
	if t.base != nil {
		l.encoder = t.base.encoder
	} else if l.encoder = l.signCode(ctx, t, o, lists); !l.encoder.Signs {
		live := subset{rows: l.rotated, ids: t.corpus.ids}
		l.encoder = query.FitSketches(t.corpus, live, l.mean, lists)
	}
	width := l.encoder.Width
	l.sketch = make([]byte, rows.n*width)
	err := par.Each(ctx, par.Work{N: rows.n, Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		l.encoder.Encode(l.sketch[i*width:(i+1)*width], i, rows.Row(i, nil), l.rotated.Row(i, nil), l.mean)
		return nil
	})
	if err != nil {
		return fmt.Errorf("db: %w", err)
	}
	if n := max(1, min(o.Coordinates, l.rotation.R)); t.base == nil && l.encoder.Signs && n < l.rotation.R {
		// Only the trees need principal coordinates.
		l.rotation, l.rotated = l.rotation.Leading(n), l.rotated.leading(n)
	}
	return nil
}

// signCode returns a code of signs if o asks for one or the rows need one, otherwise a code without signs.
func (l *learned) signCode(
	ctx context.Context, t *training, o options, lists *labels.Neighbors,
) query.SketchEncoder {
	d := t.corpus.rows.d
	switch {
	case o.SketchBytes > vector.PackedWidth:
		return signs(o.SketchBytes, centersOf(t.corpus, l.mean))
	case o.SketchBytes != 0 || lists == nil || l.rotation.R >= d:
	case d <= cheapDim || keptBy(l.rotation, t.corpus) < enough:
		return newVicinity(t.corpus, lists).cheapest(ctx, l.rotation, centersOf(t.corpus, l.mean))
	}
	return query.SketchEncoder{}
}

// signs returns the encoder of sketches of signs.
func signs(width int, c *query.Centers) query.SketchEncoder {
	return query.SketchEncoder{Width: width, Signs: true, Centers: c}
}

// centersOf returns the means of the live rows of each group, or of all rows for a group without any.
func centersOf(rows subset, mean []float32) *query.Centers {
	d := rows.Dim()
	n := query.CenterGroups(rows.rows.n)
	sums, counts := make([]float64, n*d), make([]int, n)
	for i := range rows.Len() {
		group := query.CenterGroup(rows.id(i))
		counts[group]++
		for j, x := range rows.Row(i, nil) {
			sums[group*d+j] += float64(x)
		}
	}
	means := make([]float32, n*d)
	for group, count := range counts {
		for j, x := range mean {
			if count > 0 {
				x = float32(sums[group*d+j] / float64(count))
			}
			means[group*d+j] = x
		}
	}
	return query.NewCenters(means, d)
}
