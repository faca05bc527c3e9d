package forestindex

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/query"
)

// users are queries that users have asked, with their exact nearest rows: a sample of those since the
// file was opened, next to the probes.
type users struct {
	query.QuerySet
	from  *sample.Reservoir
	taken int // queries that had been taken for the sample
	known *answers
}

// answers are the nearest rows of users' queries, which the next measurement brings up to date. The
// sample that keeps them is that of one numbering of rows.
type answers struct {
	rows    int             // the nearest of these first rows of the collection
	hidden  *roaring.Bitmap // rows that are no answers
	nearest map[int][]uint32
}

// holds reports whether the answers can be brought up to date for the rows of a view, which hides some.
func (a *answers) holds(v *query.View, hidden *roaring.Bitmap) bool {
	return a != nil && a.rows <= v.N && roaring.AndNot(a.hidden, hidden).IsEmpty()
}

// scanWork is the largest number of coordinates that are compared to answer users' queries exactly,
// about 20 seconds on one processor.
const scanWork = 1e11

// scanned returns the number of queries that can be answered by that work.
func scanned(st kind.Source, m *kind.Manifest) int {
	return int(min(sample.Most, scanWork/(float64(m.Info.Rows)*float64(st.Collection().Dim))))
}

// usersDue reports whether the recall has to be measured on users' queries: it never was since the
// trees were grown, or there are half as many new ones as it was last measured on.
func (f *detail) usersDue(st kind.Source, m *kind.Manifest) bool {
	c := m.Info.Curve
	if f.Probes == 0 || c == nil {
		return false
	}
	n, fresh := st.Sampled().Sizes(m.Info.Name)
	return min(n, scanned(st, m)) >= sample.Least &&
		(c.Sampled == 0 || fresh >= max(sample.Least, c.Sampled/2))
}

// usersOf returns the sampled queries with their nearest rows in the view, which hides the probes; none if
// there are too few queries. It finds the answers of new queries by scans, and compares the others with
// new rows.
func usersOf(
	ctx context.Context, st kind.Source, m *kind.Manifest, v *query.View, p *probes,
) (*users, error) {
	u := &users{QuerySet: query.QuerySet{Margin: true}, from: st.Sampled()}
	var queries []sample.Query
	queries, u.taken = u.from.Queries(scanned(st, m))
	if len(queries) < sample.Least {
		return u, nil
	}
	known, _ := u.from.Answers(m.Info.Name).(*answers)
	if !known.holds(v, p.hidden) {
		known = &answers{}
	}
	u.Truth = make([][]uint32, len(queries))
	stride := trialStride(len(queries))
	err := eachSearch(ctx, st, len(queries), func(s *query.Searcher, i int) (err error) {
		want := m.Info.Curve.K
		if i%stride == 0 {
			want = query.DeepestTruth
		}
		u.Truth[i], err = known.upToDate(ctx, s, v, queries[i], want)
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(err, "queries of users")
	}
	u.known = &answers{rows: v.N, hidden: p.hidden.Clone(), nearest: map[int][]uint32{}}
	for i, q := range queries {
		u.Queries = append(u.Queries, q.Vector)
		u.known.nearest[q.Number] = u.Truth[i]
	}
	return u, nil
}

// upToDate returns at least as many of a query's nearest rows as are wanted, if there are so many: by
// comparing new rows, or by a scan if too few are known.
func (a *answers) upToDate(ctx context.Context, s *query.Searcher, v *query.View, q sample.Query, want int) (
	[]uint32, error) {
	scan := query.Params{K: 2 * want, Method: query.Flat}
	if known := a.nearest[q.Number]; len(known) > 0 {
		p := scan
		p.Filter = rowsAnd(known, a.rows, v.N)
		near, _, err := s.Search(ctx, v, q.Vector, &p, nil)
		if err != nil {
			return nil, err
		}
		if near, _ := merged(v, nil, known, near, a.rows); len(near) >= min(want, v.LiveCount) {
			return near, nil
		}
	}
	near, _, err := s.Search(ctx, v, q.Vector, &scan, nil)
	out := make([]uint32, len(near))
	for i, x := range near {
		out[i] = x.ID
	}
	return out, err
}
