package db

import (
	"context"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// segmentManifest holds the scalars of one segment of an inverted index: rows
// [First, First+Rows), in blocks of Object.
type segmentManifest struct {
	Object      uint64
	First, Rows int
	// Dead is how many of the rows were deleted already and left out.
	Dead   int `json:",omitempty"`
	Sparse sparseManifest
	Bytes  map[string]int64
}

// segments are the segments of an inverted index, or of a label model.
func (m *manifest) segments() []segmentManifest {
	if m.Segments != nil {
		return m.Segments
	}
	one := segmentManifest{Object: m.Object, Rows: m.Info.Rows, Dead: m.Info.Rows - m.Info.TrainingPoints, Bytes: m.Info.Bytes}
	if m.Sparse != nil {
		one.Sparse = *m.Sparse
	}
	return []segmentManifest{one}
}

// maxSegments bounds the segments of an index. Each begins with less than half
// of the rows of the one before (planSegments), so 33 are as many as there can be.
const maxSegments = 64

// validSegments reports whether segments cover n rows one behind the other, each
// in an object of its own.
func validSegments(segments []segmentManifest, n int) bool {
	if len(segments) < 1 || len(segments) > maxSegments {
		return false
	}
	at := 0
	for i, g := range segments {
		if slices.ContainsFunc(segments[:i], func(x segmentManifest) bool { return x.Object == g.Object }) {
			return false
		}
		if g.First != at || g.Rows < 1 || g.Dead < 0 || g.Dead > g.Rows || g.Rows > n-at || !g.Sparse.valid() {
			return false
		}
		at += g.Rows
	}
	return at == n
}

// Segments are merged so that each has more than mergeRatio times the rows of
// all that follow it: a row is then written O(log n) times in its life, and a
// query asks O(log n) segments. One of which a deadShare-th is deleted is
// written anew.
const (
	mergeRatio = 2
	deadShare  = 4
)

// planSegments says which run of segments the next step replaces by one of
// rows [first, end), and of what size; ok is false when there is nothing to do.
// deleted counts the rows of a segment deleted since it was written.
func planSegments(segments []segmentManifest, rows int, deleted func(g *segmentManifest) int) (from, to, end int, ok bool) {
	covered := 0
	if n := len(segments); n > 0 {
		covered = segments[n-1].First + segments[n-1].Rows
	}
	live := func(g *segmentManifest) int { return g.Rows - g.Dead - deleted(g) }
	if fresh := rows - covered; fresh > 0 {
		from, size := len(segments), fresh
		for from > 0 && live(&segments[from-1]) <= mergeRatio*size {
			from--
			size += live(&segments[from])
		}
		return from, len(segments), rows, true
	}
	for i := range segments {
		g := &segments[i]
		if gone := deleted(g); gone > 0 && gone*deadShare > g.Rows-g.Dead {
			return i, i + 1, g.First + g.Rows, true
		}
	}
	return 0, 0, 0, false
}

// segmentStep is a step that writes one segment.
type segmentStep struct {
	m        *manifest // of the index before
	from, to int       // the segments replaced
	first, n int
	dead     int
	index    *postings.Index
	lengths  []float64
}

// maintainPostings makes the next step of an inverted index: fresh rows become
// a segment, merged with such as are no larger; deleted rows are left out of
// what is written. nil means that there is nothing to do.
func (st *collState) maintainPostings(ctx context.Context, m *manifest, timer *stageTimer) (step, error) {
	set, err := st.sparse(ctx)
	if err != nil {
		return nil, err
	}
	segments := m.segments()
	dead := func(first, n int) int {
		if b := within(set.dead, first, n); b != nil {
			return int(b.GetCardinality())
		}
		return 0
	}
	from, to, end, ok := planSegments(segments, set.n, func(g *segmentManifest) int { return dead(g.First, g.Rows) - g.Dead })
	if !ok {
		return nil, nil
	}
	s := &segmentStep{m: m, from: from, to: to}
	if from < len(segments) {
		s.first = segments[from].First
	} else if from > 0 {
		s.first = segments[from-1].First + segments[from-1].Rows
	}
	s.n = end - s.first
	s.dead = dead(s.first, s.n)
	var rows *vector.CSR
	err = timer.run("read", func(report func(int, int)) (err error) {
		rows, s.lengths, err = set.matrix(ctx, s.first, end, st.c.Dim, report)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = timer.run("postings", func(report func(int, int)) (err error) {
		s.index, err = postings.Build(ctx, rows, m.Info.Options.Postings.params(), report)
		return err
	})
	if err != nil {
		return nil, wrapf(err, "postings")
	}
	return s, nil
}

// rows is how many rows the step writes.
func (s *segmentStep) rows() int { return s.n }

// objects is one: the segment's.
func (s *segmentStep) objects() int { return 1 }

// garbage is nothing: segments are objects of their own.
func (s *segmentStep) garbage() []blockRef { return nil }

// action names the step.
func (s *segmentStep) action() string {
	switch {
	case s.to-s.from > 1 || s.to-s.from == 1 && s.first+s.n > s.m.Info.Rows:
		return "merge"
	case s.to > s.from:
		return "rewrite"
	}
	return "segment"
}

// emit writes the segment's blocks and describes the index with it.
func (s *segmentStep) emit(object uint64, sink blockSink) (*manifest, error) {
	one := &sparseLearned{n: s.n, index: s.index, lengths: s.lengths}
	written, err := one.emit(object, sink)
	if err != nil {
		return nil, err
	}
	old := s.m.segments()
	m := *s.m
	m.Object, m.Dim = object, max(m.Dim, s.index.Features())
	m.Segments = append([]segmentManifest(nil), old[:s.from]...)
	m.Segments = append(m.Segments, segmentManifest{
		Object: object, First: s.first, Rows: s.n, Dead: s.dead, Sparse: *written.Sparse, Bytes: written.Info.Bytes,
	})
	m.Segments = append(m.Segments, old[s.to:]...)
	m.Sparse = &m.Segments[0].Sparse
	m.Info.Rows, m.Info.TrainingPoints, m.Info.Bytes = 0, 0, map[string]int64{}
	for i := range m.Segments {
		g := &m.Segments[i]
		m.Info.Rows += g.Rows
		m.Info.TrainingPoints += g.Rows - g.Dead
		for k, v := range g.Bytes {
			m.Info.Bytes[k] += v
		}
	}
	return &m, nil
}

// parts are the objects that the index holds besides the new one.
func (s *segmentStep) parts() []uint64 {
	var out []uint64
	for i, g := range s.m.segments() {
		if i < s.from || i >= s.to {
			out = append(out, g.Object)
		}
	}
	return out
}
