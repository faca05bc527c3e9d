package lcifindex

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/postings"
)

// segment describes one segment of a label model: rows [First,
// First+Rows), stored in blocks of Object.
type segment struct {
	Object      uint64
	First, Rows int
	// Dead is the number of rows that were deleted before the segment was written; it leaves
	// them out.
	Dead int `json:",omitempty"`
	// Index is the inverted index; nil in a label model of dense rows.
	Index *postingsindex.Scalars `json:",omitempty"`
	Bytes map[string]int64
}

// segmentObjects returns the objects of segments.
func segmentObjects(segments []segment) (out []uint64) {
	for _, g := range segments {
		out = append(out, g.Object)
	}
	return out
}

// segmentFeatures returns one more than the largest feature number in segments.
func segmentFeatures(segments []segment) (n int) {
	for _, g := range segments {
		if g.Index != nil {
			n = max(n, g.Index.Cols)
		}
	}
	return n
}

// maxSegments bounds the segments of an index. Each has more than twice the rows of the next
// one (planSegments), so there are at most 33.
const maxSegments = 64

// checkSegments returns an error unless segments cover n rows in sequence, each in an object of its
// own, and either all or none have an inverted index.
func checkSegments(segments []segment, n int, inverted bool) error {
	if len(segments) < 1 || len(segments) > maxSegments {
		return fmt.Errorf("%d segments", len(segments))
	}
	at := 0
	for i, g := range segments {
		if slices.ContainsFunc(segments[:i], func(x segment) bool { return x.Object == g.Object }) {
			return fmt.Errorf("segment %d: object %d is another one's", i, g.Object)
		}
		if g.First != at || g.Rows < 1 || g.Dead < 0 || g.Dead > g.Rows || g.Rows > n-at {
			return fmt.Errorf("segment %d: %d rows from row %d, %d of them deleted", i, g.Rows, g.First, g.Dead)
		}
		if (g.Index != nil) != inverted {
			return fmt.Errorf("segment %d: inverted index", i)
		}
		if inverted {
			if err := g.Index.Check(nil, nil); err != nil {
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

// planSegments returns the range of segments that the next step replaces by one new
// segment, and the row at which the new one ends; ok is false if no step is due. deleted
// counts the rows of a segment deleted since it was written.
func planSegments(
	segments []segment, rows int, deleted func(g *segment) int,
) (from, to, end int, ok bool) {
	covered := 0
	if n := len(segments); n > 0 {
		covered = segments[n-1].First + segments[n-1].Rows
	}
	live := func(g *segment) int { return g.Rows - g.Dead - deleted(g) }
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

// loadSegments opens the inverted indexes of the segments.
func loadSegments(
	ctx context.Context, st kind.Source, m *kind.Manifest, w *postingsindex.Weighing,
) (out []postings.Segment, err error) {
	for _, g := range detailOf(m).Segments {
		at := &postingsindex.Stored{Object: g.Object, First: g.First, Rows: g.Rows, Index: g.Index}
		one, err := postingsindex.Load(ctx, st, m.Info.Name, at, w)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
