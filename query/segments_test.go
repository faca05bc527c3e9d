package query

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// inSegments is the description of the segments of these tests.
func inSegments(metric vector.Metric) spec {
	return spec{
		metric: metric, labelsK: 6, sketch: 64, hops: 14, rotate: 6, shift: 6,
		forest: forest.Params{Kind: forest.KD, Trees: 6, Depth: 4, Natural: true, Members: true},
	}
}

// wide is a setting that reaches all rows.
var wide = Params{K: 12, Method: NaturalZero, Extra: 60, Sketch: true, R: 700, Beam: 700}

// A search of several segments finds what one exact scan does, ties by row whatever their segments, with
// filters and deleted rows and within a radius.
func TestSegmentsAreOneIndex(t *testing.T) {
	m := clustered(700, 9, 5)
	for i := range 60 {
		copy(m.row(699-10*i), m.row(10*i)) // ties across segments
	}
	v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
	odd, few := roaring.New(), roaring.BitmapOf(3, 499, 500, 619, 620, 679, 680, 699)
	for row := uint32(1); row < 700; row += 2 {
		odd.Add(row)
	}
	deleted := roaring.New()
	for row := uint32(0); row < 700; row += 3 {
		deleted.Add(row)
	}
	s := NewSearcher()
	for _, f := range []*roaring.Bitmap{nil, odd, few} {
		for _, gone := range []*roaring.Bitmap{nil, deleted} {
			v.Deleted = gone
			passes := func(row uint32) bool {
				return (f == nil || f.Contains(row)) && (gone == nil || !gone.Contains(row))
			}
			for i := range 40 {
				p, q := wide, m.row(i*17)
				p.Filter = f
				got, _, err := s.Search(t.Context(), v, q, &p, nil)
				must(t, err)
				want := exactly(m, vector.L2, q, p.K, passes)
				if !slices.Equal(idsOf(got), want) {
					t.Fatalf("filter %v, deleted %v: %v, want %v", f != nil, gone != nil, got, want)
				}
				p.Range, p.Radius, p.K = true, got[len(got)/2].Distance, 0
				within, _, err := s.Search(t.Context(), v, q, &p, nil)
				must(t, err)
				n := len(got) // of the radius, or more beyond those
				for n > 0 && got[n-1].Distance > p.Radius {
					n--
				}
				if len(within) < n || !slices.Equal(within[:n], got[:n]) {
					t.Fatalf("within %g: %v, want %v", p.Radius, within, got[:n])
				}
			}
		}
	}
}

// Every setting finds rows of all segments.
func TestSegmentsRecall(t *testing.T) {
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		m := clustered(700, 9, 6)
		v := segmented(t, m, inSegments(metric), 500, 620, 680)
		for name, p := range stages() {
			missed := 0
			for row := 450; row < 700; row += 3 {
				q := slices.Clone(m.row(row))
				q[0] += 0.25
				got := search(t, v, q, p)
				want := exactly(m, metric, q, 1, nil)[0]
				if metric != vector.InnerProduct && !slices.Contains(idsOf(got), want) {
					missed++
				}
				for i := range got[1:] {
					if nearer(got[i], got[i+1]) >= 0 {
						t.Fatalf("%v, %s: out of order: %v", metric, name, got)
					}
				}
			}
			if missed > 3 {
				t.Errorf("%v, %s: missed %d of 84 nearest rows", metric, name, missed)
			}
		}
	}
}

// curveOf returns a curve of one setting with a beam.
func curveOf(recall float64, beam int) *Curve {
	return &Curve{K: 10, Queries: 1 << 30, Points: []Point{{
		Params: Params{Trees: 2, Sketch: true, R: beam, Beam: beam}, Recall: recall, Micros: 1,
	}}}
}

// A search asks each segment for the recall, by its own curve, and expects the least that one has. A segment
// without a setting for it is scanned.
func TestSegmentsHaveSettings(t *testing.T) {
	m := clustered(700, 9, 7)
	v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
	v.Curve, v.Small[0].Curve, v.Small[1].Curve = curveOf(0.97, 40), curveOf(0.93, 30), curveOf(0.5, 10)
	for _, c := range []struct{ asked, recall float64 }{{0.9, 0.93}, {0.95, 0.97}} {
		p, ok := v.Curve.Setting(c.asked, 10)
		if p.K = 10; !ok {
			t.Fatal("no setting")
		}
		for row := 620; row < 680; row++ {
			q := m.row(row)
			got, stats, err := NewSearcher().Search(t.Context(), v, q, &p, nil)
			must(t, err)
			scanned := c.asked > 0.93
			least := 60 // the last segment's rows, and fresh ones
			if scanned {
				least += 120
			}
			if math.Abs(stats.Recall-c.recall) > 1e-6 || stats.Way != ByBeam || stats.Exact < least || stats.Fresh != 20 {
				t.Fatalf("recall %g, way %v, %d rows, want %g and at least %d", stats.Recall, stats.Way, stats.Exact,
					c.recall, least)
			}
			if got[0].Distance != 0 {
				t.Fatalf("row %d: %v", row, got)
			}
		}
	}
	v.Small[0].Curve.Points[0].Params.Beam = -1
	p, _ := v.Curve.Setting(0.9, 10)
	p.K = 10
	if _, _, err := NewSearcher().Search(t.Context(), v, m.row(0), &p, nil); !errors.Is(err, ErrParams) {
		t.Errorf("a setting of a forged curve: %v", err)
	}
}

// A segment without parts is scanned, also with parameters that need a forest.
func TestSegmentWithoutForest(t *testing.T) {
	m := clustered(700, 9, 11)
	v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
	v.Small[0] = Segment{First: 500, N: 120}
	v.Deleted = roaring.New()
	v.Deleted.AddRange(500, 600)
	must(t, v.Validate())
	for name, p := range stages() {
		for row := 600; row < 620; row++ {
			if got := search(t, v, m.row(row), p); got[0].Distance != 0 || int(got[0].ID) < 600 && got[0].ID >= 500 {
				t.Errorf("%s: row %d: %v", name, row, got[0])
			}
		}
	}
}

// Fresh rows with sketches are compared as far as their estimates call for it, and the answer is not called
// exact.
func TestFreshSketches(t *testing.T) {
	m := clustered(1200, 24, 8)
	v := segmented(t, m, inSegments(vector.L2), 800)
	s := inSegments(vector.L2)
	s.base = v
	v.Fresh, v.FreshN = build(t, &matrix{m.data[800*m.d:], 400, m.d}, s).Sketch, 390
	must(t, v.Validate())
	p, _ := curveOf(0.9, 60).Setting(0.899, 10)
	p.K = 10
	found, compared, queries := 0, 0, 0
	for row := 800; row < 1200; row += 7 {
		q := slices.Clone(m.row(row))
		q[1] += 0.5
		got, stats, err := NewSearcher().Search(t.Context(), v, q, &p, nil)
		must(t, err)
		if math.Abs(stats.Recall-0.9) > 1e-6 || stats.Fresh != 400 {
			t.Fatalf("recall %g of %d fresh rows", stats.Recall, stats.Fresh)
		}
		found += common(got, exactly(m, vector.L2, q, 10, nil))
		compared += stats.Exact
		queries++
	}
	if found < 9*queries || compared > 300*queries {
		t.Errorf("%d queries found %d rows, compared %d", queries, found, compared)
	}
	_, stats, err := NewSearcher().Search(t.Context(), v, m.row(0), &Params{K: 10, Method: Flat, Sketch: true, R: 900}, nil)
	must(t, err)
	if stats.Recall != 1 || stats.Exact != 1200 {
		t.Errorf("recall %g of %d compared rows, want all of them", stats.Recall, stats.Exact)
	}
}

// Several segments cost no allocations.
func TestSegmentsAllocateNothing(t *testing.T) {
	m := clustered(700, 9, 9)
	v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
	even := roaring.New()
	for row := uint32(0); row < 700; row += 2 {
		even.Add(row)
	}
	s, dst := NewSearcher(), make([]vector.Neighbor, 0, 100)
	for _, f := range []*roaring.Bitmap{nil, even} {
		for name, p := range stages() {
			p.Filter = f
			run := func() {
				if _, _, err := s.Search(t.Context(), v, m.row(33), &p, dst[:0]); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if n := testing.AllocsPerRun(5, run); n > 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}

// A row of a small segment is explained by the votes and lists of its segment.
func TestSegmentsExplain(t *testing.T) {
	m := clustered(700, 9, 10)
	v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
	s, hops := NewSearcher(), 0
	for row := uint32(500); row < 680; row++ {
		p := Params{K: 20, Trees: 1, Sketch: true, R: 30, Beam: 30}
		got, _, err := s.Search(t.Context(), v, m.row(int(row)), &p, nil)
		must(t, err)
		for _, h := range got {
			e, err := s.ExplainLast(t.Context(), h.ID)
			must(t, err)
			estimate := e.Sketch != nil && math.Abs(float64(*e.Sketch-h.Distance)) < 0.2*float64(h.Distance)+100
			if e.Source == "" || e.Leaves == 0 && h.ID < 680 || estimate != (h.ID < 680) {
				t.Fatalf("row %d: %+v", h.ID, e)
			}
			if e.From != nil {
				hops++
				if from := *e.From; (from < 500) != (h.ID < 500) || (from < 620) != (h.ID < 620) {
					t.Fatalf("row %d is from row %d of another segment", h.ID, from)
				}
			}
		}
	}
	if hops == 0 {
		t.Error("no row is from a list")
	}
}

// Segments that leave out rows, overlap, or have other sketches are refused.
func TestSegmentsValidate(t *testing.T) {
	m := clustered(700, 9, 11)
	for name, change := range map[string]func(v *View){
		"gap":     func(v *View) { v.Small[0].First++ },
		"overlap": func(v *View) { v.Small[1].First-- },
		"beyond":  func(v *View) { v.Rows.N = 650 },
		"code":    func(v *View) { v.Small[1].Sketch.Steps = slices.Repeat([]float32{1}, len(v.Sketch.Steps)) },
		"short":   func(v *View) { v.Small[0].N += 60; v.Small[1].First += 60 },
		"lists":   func(v *View) { v.Small[0].Neighbors.Blocks = nil },
	} {
		v := segmented(t, m, inSegments(vector.L2), 500, 620, 680)
		if change(v); !errors.Is(v.Validate(), ErrView) {
			t.Errorf("%s: %v", name, v.Validate())
		}
	}
}
