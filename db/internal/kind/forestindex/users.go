package forestindex

import (
	"context"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
)

// If queries of users are sampled, a build measures its settings on these as well, and maintenance does so
// again when enough of them are new.

// scanWork is the number of coordinates that are compared to answer users' queries exactly, about 20 seconds
// on one processor, unless the fewest queries need more.
const scanWork = 1e11

// scanned returns the number of queries that can be answered by that work.
func scanned(rows, dim int) int {
	return int(max(sample.Least, min(sample.Most, scanWork/(float64(rows)*float64(dim)))))
}

// usersOf returns the sampled queries with their k nearest rows in a view, found by scans; none if there are
// too few queries.
func usersOf(ctx context.Context, st kind.Source, v *query.View, k int) (set query.QuerySet, err error) {
	queries := st.Collection().Sampled.Queries(scanned(v.Rows.N, v.Dim))
	if len(queries) < sample.Least {
		return set, nil
	}
	set = query.QuerySet{Queries: queries, Truth: make([][]uint32, len(queries))}
	if err = scanTruth(ctx, v, set, k); err != nil {
		return query.QuerySet{}, fail.Wrapf(err, "queries of users")
	}
	return set, nil
}

// scanTruth finds the k nearest rows of each query of which fewer are known, by comparing with every row.
func scanTruth(ctx context.Context, v *query.View, set query.QuerySet, k int) error {
	w := par.Work{N: len(set.Queries), Workers: kind.WorkersOf(ctx)}
	return par.Items(ctx, w, func() func(i int) error {
		s, p := query.NewSearcher(), query.Params{K: k, Method: query.Flat}
		return func(i int) error {
			if len(set.Truth[i]) >= k {
				return nil
			}
			near, _, err := s.Search(ctx, v, set.Queries[i], &p, nil)
			set.Truth[i] = set.Truth[i][:0]
			for _, x := range near {
				set.Truth[i] = append(set.Truth[i], x.ID)
			}
			return err
		}
	})
}

// measureDue reports whether settings have to be measured on users' queries: they never were, or there are
// half as many more, or half as many new ones, as they were last measured on.
func measureDue(st kind.Source, m *kind.Manifest) bool {
	c := m.Info.Curve
	if c == nil {
		return false
	}
	n, fresh := st.Collection().Sampled.Sizes(m.Info.Name)
	n = min(n, scanned(m.Info.Rows, m.Dim))
	return n >= sample.Least && (n-c.Sampled >= c.Sampled/2 || fresh >= max(sample.Least, c.Sampled/2))
}

// Measure implements kind.Measurer.
func (Kind) Measure(
	ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer,
) (*kind.Manifest, error) {
	if !measureDue(st, m) {
		return nil, nil
	}
	x, err := st.OpenNamed(ctx, m.Info.Name)
	if err != nil {
		return nil, err
	}
	out, v := *m, x.(*opened).view
	out.Segments = slices.Clone(m.Segments)
	err = timer.Run("measure", func(func(int, int)) error {
		if out.Info.Curve, err = measured(ctx, st, v, v.Segment, m.Info.Curve); err != nil {
			return err
		}
		for i, g := range v.Small {
			if g.Curve == nil {
				continue
			}
			d := *detailOf(&m.Segments[i+1])
			if d.Curve, err = measured(ctx, st, v, g, d.Curve); err != nil {
				return err
			}
			out.Segments[i+1].Own = &d
		}
		return nil
	})
	if err != nil {
		return nil, fail.Wrapf(kind.AsParameter(err), "measure recall")
	}
	return &out, nil
}

// measured returns the curve of a segment of a view, bounded by the recalls of users' queries.
func measured(
	ctx context.Context, st kind.Source, v *query.View, g query.Segment, c *query.Curve,
) (*query.Curve, error) {
	alone := part(v, g.First, g.First+g.N)
	alone.Segment, alone.First = g, 0
	alone.Rotation, alone.ByteRotation = v.Rotation, v.ByteRotation
	alone.Lift, alone.LiftNorm = v.Lift, v.LiftNorm
	users, err := usersOf(ctx, st, &alone, max(query.DeepestTruth, c.K))
	if err != nil {
		return nil, err
	}
	if c, err = c.Bound(ctx, &alone, users, kind.WorkersOf(ctx)); err == nil {
		c.Rows, c.Measured = alone.LiveCount, time.Now().UTC()
	}
	return c, err
}
