package forestindex

import (
	"context"

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

// usersOf returns the sampled queries with their nearest rows in the view, none if there are too few.
func usersOf(ctx context.Context, st kind.Source, m *kind.Manifest, v *query.View) (*users, error) {
	u := &users{from: st.Sampled()}
	u.Queries, u.taken = u.from.Queries(scanned(st, m))
	if len(u.Queries) < sample.Least {
		u.Queries = nil
	}
	u.Truth = make([][]uint32, len(u.Queries))
	stride := trialStride(len(u.Queries))
	err := eachSearch(ctx, st, len(u.Queries), func(s *query.Searcher, i int) error {
		scan := query.Params{K: 2 * m.Info.Curve.K, Method: query.Flat}
		if i%stride == 0 {
			scan.K = query.DeepestTruth
		}
		near, _, err := s.Search(ctx, v, u.Queries[i], &scan, nil)
		for _, x := range near {
			u.Truth[i] = append(u.Truth[i], x.ID)
		}
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(err, "queries of users")
	}
	return u, nil
}
