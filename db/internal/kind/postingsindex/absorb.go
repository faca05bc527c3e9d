package postingsindex

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// Segment describes one segment of an inverted index or label model: rows [First,
// First+Rows), stored in blocks of Object.
type Segment struct {
	Object      uint64
	First, Rows int
	// Dead is the number of rows that were deleted before the segment was written; it leaves
	// them out.
	Dead int `json:",omitempty"`
	// Index is the inverted index; nil in a label model of dense rows.
	Index *scalars `json:",omitempty"`
	Bytes map[string]int64
}

// SegmentObjects returns the objects of segments.
func SegmentObjects(segments []Segment) (out []uint64) {
	for _, g := range segments {
		out = append(out, g.Object)
	}
	return out
}

// SegmentFeatures returns one more than the largest feature number in segments.
func SegmentFeatures(segments []Segment) (n int) {
	for _, g := range segments {
		if g.Index != nil {
			n = max(n, g.Index.Cols)
		}
	}
	return n
}

// maxSegments bounds the segments of an index. Each has more than twice the rows of the next
// one (PlanSegments), so there are at most 33.
const maxSegments = 64

// CheckSegments returns an error unless segments cover n rows in sequence, each in an object of its
// own, and either all or none have an inverted index.
func CheckSegments(segments []Segment, n int, inverted bool) error {
	if len(segments) < 1 || len(segments) > maxSegments {
		return fmt.Errorf("%d segments", len(segments))
	}
	at := 0
	for i, g := range segments {
		if slices.ContainsFunc(segments[:i], func(x Segment) bool { return x.Object == g.Object }) {
			return fmt.Errorf("segment %d: object %d is another one's", i, g.Object)
		}
		if g.First != at || g.Rows < 1 || g.Dead < 0 || g.Dead > g.Rows || g.Rows > n-at {
			return fmt.Errorf("segment %d: %d rows from row %d, %d of them deleted", i, g.Rows, g.First, g.Dead)
		}
		if (g.Index != nil) != inverted {
			return fmt.Errorf("segment %d: inverted index", i)
		}
		if inverted {
			if err := g.Index.check(); err != nil {
				return fmt.Errorf("segment %d: %w", i, err)
			}
		}
		at += g.Rows
	}
	if at != n {
		return fmt.Errorf("segments of %d rows, want %d", at, n)
	}
	return nil
}

// Segments are merged so that each has more than mergeRatio times the rows of all that follow
// it: a row is then written O(log n) times in all, and a query searches O(log n) segments. A
// segment is rewritten when more than one in deletedShare of its rows has been deleted since it
// was written.
const (
	mergeRatio   = 2
	deletedShare = 4
)

// PlanSegments returns the range of segments that the next step replaces by one new
// segment, and the row at which the new one ends; ok is false if no step is due. deleted
// counts the rows of a segment deleted since it was written.
func PlanSegments(
	segments []Segment, rows int, deleted func(g *Segment) int,
) (from, to, end int, ok bool) {
	covered := 0
	if n := len(segments); n > 0 {
		covered = segments[n-1].First + segments[n-1].Rows
	}
	live := func(g *Segment) int { return g.Rows - g.Dead - deleted(g) }
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
		if newlyDeleted := deleted(g); newlyDeleted > 0 && newlyDeleted*deletedShare > g.Rows-g.Dead {
			return i, i + 1, g.First + g.Rows, true
		}
	}
	return 0, 0, 0, false
}

// SegmentStep is a step that writes one segment.
type SegmentStep struct {
	M           *kind.Manifest // of the index before the step
	old         []Segment
	From, To    int // the segments old[from:to] are replaced
	First, N    int
	deletedRows int
	index       *postings.Index
	lengths     []float64
}

// Absorb makes fresh rows a segment, merged with the segments that are not much larger.
// Rows that are deleted now are left out.
func (Kind) Absorb(
	ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer,
) (kind.Step, bool, error) {
	set, err := st.Sparse(ctx)
	if err != nil {
		return nil, false, err
	}
	segments := m.Own.(*detail).Segments
	isDeleted := func(first, n int) int { return kind.DeletedWithin(set.DeletedRows, first, n) }
	from, to, end, ok := PlanSegments(segments, set.N,
		func(g *Segment) int { return isDeleted(g.First, g.Rows) - g.Dead })
	if !ok {
		return nil, false, nil
	}
	s := &SegmentStep{M: m, old: segments, From: from, To: to}
	if from < len(segments) {
		s.First = segments[from].First
	} else if from > 0 {
		s.First = segments[from-1].First + segments[from-1].Rows
	}
	s.N = end - s.First
	s.deletedRows = isDeleted(s.First, s.N)
	var rows *vector.CSR
	err = timer.Run("read", func(report func(int, int)) (err error) {
		rows, s.lengths, err = set.Matrix(ctx, s.First, end, st.Collection().Dim, report)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	err = timer.Run("postings", func(report func(int, int)) (err error) {
		s.index, err = postings.Build(ctx, rows, postings.Params{}, report)
		return err
	})
	if err != nil {
		return nil, false, fail.Wrapf(err, "postings")
	}
	return s, false, nil
}

// Rows returns the number of rows that the step writes.
func (s *SegmentStep) Rows() int { return s.N }

// Objects returns one: the segment's.
func (s *SegmentStep) Objects() int { return 1 }

// Garbage returns nil: segments are objects of their own.
func (s *SegmentStep) Garbage() []kind.BlockRef { return nil }

// Action returns the name of the step, as in MaintainStep.Action.
func (s *SegmentStep) Action() string {
	switch {
	case s.To-s.From > 1 || s.To-s.From == 1 && s.First+s.N > s.M.Info.Rows:
		return "merge"
	case s.To > s.From:
		return "rewrite"
	}
	return "segment"
}

// Emit writes the segment's blocks and returns the manifest of the index.
func (s *SegmentStep) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	w := arrays.NewWriter(object, sink)
	one := (&Learned{Index: s.index, Lengths: s.lengths}).Put(w,
		Segment{First: s.First, Rows: s.N, Dead: s.deletedRows})
	d := &detail{Segments: slices.Concat(s.old[:s.From], []Segment{one}, s.old[s.To:])}
	m := *s.M
	m.Object, m.Dim, m.Own = object, max(m.Dim, s.index.Features()), d
	m.Info.Rows, m.Info.TrainingPoints, m.Info.Bytes = 0, 0, map[string]int64{}
	for _, g := range d.Segments {
		m.Info.Rows += g.Rows
		m.Info.TrainingPoints += g.Rows - g.Dead
		for k, v := range g.Bytes {
			m.Info.Bytes[k] += v
		}
	}
	return &m, w.Err
}

// Parts returns the objects that the index holds in addition to the new one.
func (s *SegmentStep) Parts() []uint64 {
	return SegmentObjects(slices.Concat(s.old[:s.From], s.old[s.To:]))
}
