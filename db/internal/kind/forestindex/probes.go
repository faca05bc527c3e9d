package forestindex

import (
	"context"
	"runtime/debug"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// probes are queries with their exact nearest rows, by which maintenance measures the recall of an
// index after rows have changed: the rows that the tuner held out. The forest has no votes of these
// rows for their neighbors (forest.Forest.Without), and a measurement hides them, so that they
// are as new to the index as a query of a user.
type probes struct {
	rows []uint32 // row numbers
	// truth has the nearest covered rows of each probe that are not hidden, nearest first. It may
	// be shorter than the number of rows that are wanted, and contain rows that were deleted since.
	truth [][]uint32
	// hidden are the rows of the probes, and all rows that equal one of them.
	hidden *roaring.Bitmap
}

const (
	// maxProbes is the largest number of probes.
	maxProbes = 1000
	// deepAnswer is the number of nearest rows that deep probes need; deepRoom is kept, so that some
	// can be deleted.
	deepAnswer = 100
	deepRoom   = 128
)

// newProbes returns the queries of a trial as probes.
func newProbes(t *training, tr *trial) *probes {
	p := &probes{hidden: roaring.New()}
	for i, at := range tr.hold[:min(len(tr.hold), maxProbes)] {
		p.rows = append(p.rows, t.points.id(at))
		p.truth = append(p.truth, tr.truth[i][:min(len(tr.truth[i]), p.room(i, tr.k))])
	}
	for _, at := range tr.hidden {
		p.hidden.Add(t.points.id(at))
	}
	return p
}

// deep reports whether a probe measures deep searches.
func (p *probes) deep(i int) bool { return i%trialStride(len(p.rows)) == 0 }

// want returns the number of nearest rows that probe i needs to measure the k nearest rows, and room the
// number that it keeps at most.
func (p *probes) want(i, k int) int {
	if p.deep(i) {
		return max(k, deepAnswer)
	}
	return k
}

func (p *probes) room(i, k int) int {
	if p.deep(i) {
		return max(2*k, deepRoom)
	}
	return 2 * k
}

// probeArrays is the number of arrays of the probes.
const probeArrays = 4

// write writes the probes of an index.
func (p *probes) write(w *arrays.Writer) {
	ends := make([]uint32, len(p.truth))
	var answers []uint32
	for i, t := range p.truth {
		answers = append(answers, t...)
		ends[i] = uint32(len(answers))
	}
	s := w.Section(codec.KindProbes)
	arrays.Field(s, 0, &p.rows)
	arrays.Field(s, 1, &ends)
	s.WriteSet(2, p.hidden)
	arrays.Field(s, 3, &answers)
}

// loadProbes returns a copy of the probes of an index, nil if it has none.
func loadProbes(ctx context.Context, st kind.Source, m *kind.Manifest) (*probes, error) {
	d := detailOf(m)
	if d.Probes == 0 {
		return nil, nil
	}
	r := st.Arrays(ctx, m.Info.Name, m.Object)
	r.Runs = d.Runs
	s := r.Section(codec.KindProbes)
	var rows, ends, answers []uint32
	arrays.FieldOf(s, 0, &rows, d.Probes)
	arrays.FieldOf(s, 1, &ends, d.Probes)
	p := &probes{rows: slices.Clone(rows), hidden: s.ReadSet(2, m.Info.Rows).Clone()}
	arrays.Field(s, 3, &answers)
	covered := func(row uint32) bool { return int(row) < m.Info.Rows }
	first := uint32(0)
	for i := range ends {
		ok := first <= ends[i] && int(ends[i]) <= len(answers) && covered(rows[i]) && p.hidden.Contains(rows[i])
		if r.Need(ok, "rows or ends of probes"); r.Err != nil {
			return nil, r.Err
		}
		p.truth = append(p.truth, slices.Clone(answers[first:ends[i]]))
		first = ends[i]
	}
	r.Need(int(first) == len(answers), "answers of probes")
	for _, row := range answers {
		r.Need(covered(row), "an answer of a probe is no row of the index")
	}
	return p, r.Err
}

// queries returns the vectors of the probes.
func (p *probes) queries(v *query.View) [][]float32 {
	out := make([][]float32, len(p.rows))
	for i, row := range p.rows {
		x := make([]float32, v.Dim)
		copy(x, v.Rows.Vector(int(row), x))
		out[i] = x
	}
	return out
}

// each calls f with a searcher for every probe, on the goroutines of the context.
func (p *probes) each(ctx context.Context, st kind.Source, f func(s *query.Searcher, i int) error) error {
	if err := eachSearch(ctx, st, len(p.rows), f); err != nil {
		return fail.Wrapf(err, "probes")
	}
	return nil
}

// eachSearch calls f for n queries, each with the searcher of its goroutine, on those of the context.
func eachSearch(ctx context.Context, st kind.Source, n int, f func(s *query.Searcher, i int) error) error {
	return par.Ranges(ctx, par.Work{N: n, Workers: kind.WorkersOf(ctx)}, func() func(i, _ int) error {
		s := query.NewSearcher()
		return func(i, _ int) (err error) {
			defer st.Guard(debug.SetPanicOnFault(true), &err)
			return f(s, i)
		}
	})
}

// insert compares the probes with rows that the index begins to cover, [lo, hi), and merges those into
// their answers that are nearer than the farthest known one. Rows that equal a probe are hidden.
func (p *probes) insert(ctx context.Context, st kind.Source, v *query.View, lo, hi, k int) error {
	queries := p.queries(v)
	equal := make([][]uint32, len(p.rows))
	err := p.each(ctx, st, func(s *query.Searcher, i int) error {
		known := p.truth[i]
		// All equal rows must be seen, of which there are rarely more than the room.
		near, _, err := s.Search(ctx, v, queries[i],
			&query.Params{K: p.room(i, k), Method: query.Flat, Filter: rowsAnd(known, lo, hi)}, nil)
		if err != nil {
			return err
		}
		p.truth[i], equal[i] = merged(v, queries[i], known, near, lo)
		return nil
	})
	for _, rows := range equal {
		p.hidden.AddMany(rows)
	}
	return err
}

// rowsAnd returns the known rows and those of [lo, hi).
func rowsAnd(known []uint32, lo, hi int) *roaring.Bitmap {
	rows := roaring.New()
	rows.AddMany(known)
	rows.AddRange(uint64(lo), uint64(hi))
	return rows
}

// merged returns the rows of near up to the last one that was known before, which are the nearest of
// all, without the new ones that equal the vector q.
func merged(v *query.View, q []float32, known []uint32, near []vector.Neighbor, lo int) (
	rows, equal []uint32) {
	buf := make([]float32, v.Dim)
	full := 0
	for _, n := range near {
		isNew := int(n.ID) >= lo
		if isNew && slices.Equal(v.Rows.Vector(int(n.ID), buf), q) {
			equal = append(equal, n.ID)
			continue
		}
		rows = append(rows, n.ID)
		if !isNew {
			full = len(rows)
		}
	}
	if len(near) > 0 && len(rows) > full && slices.ContainsFunc(known, func(r uint32) bool {
		return !v.IsDeleted(r) && !slices.Contains(rows, r)
	}) {
		full = len(rows) // the last known one is beyond the room, and so beyond all of these
	}
	return rows[:full], equal
}

// refresh drops deleted rows from the answers, and finds answers again that have become too short.
// The view hides the probes.
func (p *probes) refresh(ctx context.Context, st kind.Source, v *query.View, k int) error {
	queries := p.queries(v)
	return p.each(ctx, st, func(s *query.Searcher, i int) error {
		p.truth[i] = slices.DeleteFunc(p.truth[i], v.IsDeleted)
		if len(p.truth[i]) >= min(p.want(i, k), v.LiveCount) {
			return nil
		}
		scan := query.Params{K: p.room(i, k), Method: query.Flat}
		near, _, err := s.Search(ctx, v, queries[i], &scan, nil)
		p.truth[i] = p.truth[i][:0]
		for _, n := range near {
			p.truth[i] = append(p.truth[i], n.ID)
		}
		return err
	})
}

// hide returns the rows that an index covers, without the probes.
func (p *probes) hide(index *query.View) *query.View {
	v := *index
	v.Rows.N, v.Fresh, v.FreshN = v.N, nil, 0
	deleted := p.hidden.Clone()
	if index.Deleted != nil {
		deleted.Or(index.Deleted)
		deleted.RemoveRange(uint64(v.N), 1<<32)
	}
	v.Deleted, v.DeletedBits = deleted, kind.BitsOf(deleted, v.N)
	v.Hidden = kind.BitsOf(p.hidden, v.N)
	v.LiveCount = v.N - int(deleted.GetCardinality())
	return &v
}
