package descent

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type point [3]int

// problem is a function over a small grid, in which values that are equal occur.
type problem struct {
	values [3][]int
	at     map[point]int
	passes int
	start  point
}

func drawProblem(t *rapid.T) (p problem) {
	p.at = map[point]int{}
	p.passes = rapid.IntRange(0, 4).Draw(t, "passes")
	for c := range p.values {
		p.values[c] = rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5).Draw(t, "values")
		p.start[c] = rapid.IntRange(0, 4).Draw(t, "start")
	}
	value := rapid.IntRange(0, 6)
	for i := range 125 {
		p.at[point{i / 25, i / 5 % 5, i % 5}] = value.Draw(t, "value")
	}
	return p
}

// search searches for the best point, and returns what it measured, at most so many points.
func (p *problem) search(ctx context.Context, most int) (best point, order []point, err error) {
	s := Search[point, point]{Best: p.start, Key: key}
	s.Measure = func(_ context.Context, x point) (float64, bool, error) {
		if len(order) == most {
			return 99, false, ctx.Err()
		}
		order = append(order, key(x))
		if s.Total < len(order) {
			return 0, false, errors.New("more settings than planned")
		}
		return float64(p.at[key(x)]), true, nil
	}
	var coordinates []func(point) []point
	for c := range p.values {
		coordinates = append(coordinates, Along(p.values[c], func(x *point, v int) { x[c] = v }))
	}
	err = s.Descend(ctx, p.passes, coordinates...)
	return s.Best, order, err
}

// key is what matters of a point: where the first coordinate is below 3 the second does not.
func key(x point) point {
	if x[0] < 3 {
		x[1] = 0
	}
	return x
}

// slow follows the definition, and measures all again and again.
func (p *problem) slow() (best point, order []point) {
	best = p.start
	order = []point{key(best)}
	for range p.passes {
		before := best
		for c, values := range p.values {
			from := best
			for _, v := range values {
				x := from
				x[c] = v
				order = append(order, key(x))
				if p.at[key(x)] > p.at[key(best)] {
					best = x
				}
			}
		}
		if best == before {
			break
		}
	}
	var once []point
	for _, x := range order {
		if !slices.Contains(once, x) {
			once = append(once, x)
		}
	}
	return best, once
}

func TestSearchFollowsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		want, wantOrder := p.slow()
		best, order, err := p.search(t.Context(), -1)
		if err != nil || best != want || !slices.Equal(order, wantOrder) {
			t.Fatalf("%v after %v, %v, want %v after %v", best, order, err, want, wantOrder)
		}
		most := rapid.IntRange(0, len(order)).Draw(t, "most")
		best, some, err := p.search(t.Context(), most)
		if err != nil || !slices.Equal(some, order[:most]) {
			t.Fatalf("ended after %d: measured %v of %v, %v", most, some, order, err)
		}
		for _, x := range some {
			if p.at[x] > p.at[key(best)] {
				t.Fatalf("ended after %d: %v, %v is better", most, best, x)
			}
		}
	})
}

// Of a sum of functions of one coordinate each the best point of the whole grid is found, in one pass.
func TestSumsAreSolved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		terms := rapid.SliceOfN(rapid.IntRange(0, 9), 15, 15).Draw(t, "terms")
		p.start[0], p.values[0], p.passes = 3, []int{3, 4}, 1 // all coordinates are relevant
		largest := 0
		for x := range p.at {
			p.at[x] = terms[x[0]] + terms[5+x[1]] + terms[10+x[2]]
		}
		for x := range p.at {
			inside := true
			for c, v := range x {
				inside = inside && (v == p.start[c] || slices.Contains(p.values[c], v))
			}
			if inside {
				largest = max(largest, p.at[x])
			}
		}
		if best, _, err := p.search(t.Context(), -1); err != nil || p.at[best] != largest {
			t.Fatalf("%v with %d, %v, want %d", best, p.at[best], err, largest)
		}
	})
}

func TestCancelledSearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := problem{values: [3][]int{{0, 1, 2, 3}}, passes: 2, at: map[point]int{}}
	if _, order, err := p.search(ctx, 2); !errors.Is(err, context.Canceled) || len(order) != 2 {
		t.Errorf("%v after %d settings", err, len(order))
	}
}
