package query

import (
	"context"
	"testing"
	"unsafe"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// requested counts the bytes that a search requests, and returns the function to request them.
func requested(bytes map[uintptr]int) func([]byte) {
	return func(b []byte) { bytes[uintptr(unsafe.Pointer(unsafe.SliceData(b)))] += len(b) }
}

// A search requests the lists, the sketches and the rows that it reads, and finds the same.
func TestRequests(t *testing.T) {
	m := clustered(3000, 20, 3)
	v := build(t, m, spec{
		metric:  vector.L2,
		forest:  forest.Params{Kind: forest.KD, Trees: 2, Depth: 6, Natural: true, Seed: 1},
		labelsK: 8, rotate: 16, sketch: 64, hops: 12, shift: 6, bytes: true,
	})
	for _, p := range []Params{
		{K: 10, Beam: 20, Sketch: true, R: 30, Method: Natural, Trees: 2},
		{K: 10, Method: Flat},
		{K: 10, Method: Flat, Sketch: true, R: 30},
	} {
		s := NewSearcher()
		ask := func() []vector.Neighbor {
			found, _, err := s.Search(context.Background(), v, m.row(5), &p, nil)
			must(t, err)
			return found
		}
		want := ask()
		rows, sketches, lists := map[uintptr]int{}, map[uintptr]int{}, map[uintptr]int{}
		v.Rows.Request, v.Sketch.Request, v.Neighbors.Request = requested(rows), requested(sketches), requested(lists)
		got := ask()
		v.Rows.Request, v.Sketch.Request, v.Neighbors.Request = nil, nil, nil
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%+v: hit %d is %v with requests, %v without", p, i, got[i], want[i])
			}
		}
		if (len(lists) > 0) != (p.Beam > 0) || (len(sketches) > 0) != p.Sketch {
			t.Errorf("%+v: %d lists and %d sketches requested", p, len(lists), len(sketches))
		}
		sum := 0
		for _, n := range rows {
			sum += n
		}
		if whole := len(v.Rows.Chunks) * m.d << v.Rows.Shift; p.Sketch && sum < 30*m.d ||
			!p.Sketch && sum != whole {
			t.Errorf("%+v: %d bytes of rows requested", p, sum)
		}
	}
}

// Where rows are requested, the first rows of a beam are, then those that may be among the nearest by their
// errors: the rows that are compared where they are in memory, in two rounds, or three.
func TestRequestRounds(t *testing.T) {
	m := clustered(46<<6, 20, 3) // all in chunks
	v := build(t, m, spec{
		metric: vector.L2, forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 6, Natural: true, Seed: 1},
		labelsK: 8, rotate: 16, sketch: 64, hops: 12, shift: 6,
	})
	s := NewSearcher()
	p := Params{K: 10, Beam: 200, Sketch: true, R: 200, Method: Natural, Trees: 2}
	three := 0
	for i := range 50 {
		want, plain, err := s.Search(context.Background(), v, m.row(i*7), &p, nil)
		must(t, err)
		var rounds []int // rows requested before others were compared
		last := -1
		v.Rows.Request = func(b []byte) {
			if len(b) != 4*m.d {
				return // a leaf
			}
			if n := s.top.Len(); n != last {
				rounds, last = append(rounds, 0), n
			}
			rounds[len(rounds)-1]++
		}
		got, stats, err := s.Search(context.Background(), v, m.row(i*7), &p, nil)
		v.Rows.Request = nil
		must(t, err)
		if len(rounds) > 3 || rounds[0] != stopRows {
			t.Fatalf("query %d: rounds of %v rows", i, rounds)
		}
		if len(rounds) == 3 {
			three++
		}
		if stats.Exact > 200/2 || stats.Exact != plain.Exact {
			t.Errorf("query %d: %d rows compared, %d where they are in memory", i, stats.Exact, plain.Exact)
		}
		for j := range want {
			if got[j] != want[j] {
				t.Errorf("query %d: hit %d is %v, %v in memory", i, j, got[j], want[j])
			}
		}
	}
	if three > 10 {
		t.Errorf("%d of 50 queries had three rounds", three)
	}
}
