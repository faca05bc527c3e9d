package query

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyEstimate draws estimates of all kinds, many of them equal.
func anyEstimate() *rapid.Generator[float32] {
	negativeNaN := math.Float32frombits(math.Float32bits(float32(math.NaN())) | 1<<31)
	return rapid.OneOf(
		rapid.Float32(),
		rapid.Float32Range(-1, 1),
		rapid.Map(rapid.IntRange(-3, 3), func(i int) float32 { return float32(i) }),
		rapid.SampledFrom([]float32{
			float32(math.NaN()), negativeNaN, float32(math.Inf(1)), float32(math.Inf(-1)),
			0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
		}),
	)
}

// scoredRow is a row of the reference of merge.
type scoredRow struct {
	estimate float32
	row      uint32
	mark     mark
	fresh    bool
}

// compareRows orders rows by estimate, those without one last, and rows of equal estimates by
// number. -0 precedes 0, and a positive NaN a negative one.
func compareRows(x, y scoredRow) int {
	class := func(f float32) int {
		switch {
		case f == f:
			return 0
		case !math.Signbit(float64(f)):
			return 1
		}
		return 2
	}
	sign := func(f float32) int {
		if math.Signbit(float64(f)) {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(class(x.estimate), class(y.estimate)),
		cmp.Compare(x.estimate, y.estimate),
		cmp.Compare(sign(x.estimate), sign(y.estimate)),
		cmp.Compare(x.row, y.row))
}

// mergeByHand merges rows into a beam by sorting all of them. It returns the beam, the rows that
// it has no room for, and the first place of a new row.
func mergeByHand(beam, rows []scoredRow, width int) (kept, dropped []scoredRow, first int) {
	for i := range beam {
		beam[i].fresh = false
	}
	all := append(beam, rows...)
	slices.SortFunc(all, compareRows)
	to := min(len(all), width)
	first = slices.IndexFunc(all[:to], func(x scoredRow) bool { return x.fresh })
	if first < 0 {
		first = width
	}
	return all[:to:to], all[to:], first
}

// TestMerge merges random rows, step by step, and compares the beam, its marks, the spilled rows
// and the first place with those of mergeByHand.
func TestMerge(t *testing.T) {
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 600)).Draw(t, "width")
		most := rapid.SampledFrom([]int{1, 5, 48, 700}).Draw(t, "most rows of a step")
		steps := rapid.IntRange(1, 8).Draw(t, "steps")
		plain := rapid.Bool().Draw(t, "no special estimates")
		s.spills = rapid.Bool().Draw(t, "spills")
		s.spilled = s.spilled[:0]
		s.beam.reset(width)
		rng := rapid.Uint64().Draw(t, "rows")
		var beam, spilled []scoredRow
		used := map[uint32]bool{}
		for step := range steps {
			n := rapid.IntRange(0, most).Draw(t, "rows of a step")
			var ids []uint32
			var rows []scoredRow
			s.scores = s.scores[:0]
			for len(ids) < n {
				rng = rng*6364136223846793005 + 1442695040888963407
				row := uint32(rng >> 33)
				if used[row] {
					continue
				}
				used[row] = true
				x := float32(int32(rng>>20)) / (1 << 31)
				if !plain && n <= 48 {
					x = anyEstimate().Draw(t, "estimate")
				}
				ids, s.scores = append(ids, row), append(s.scores, x)
				rows = append(rows, scoredRow{estimate: x, row: row, fresh: true})
			}
			got := s.merge(ids, width)
			var dropped []scoredRow
			var first int
			beam, dropped, first = mergeByHand(beam, rows, width)
			if spilled = append(spilled, dropped...); !s.spills {
				spilled = nil
			}
			if got != first {
				t.Fatalf("step %d: first place %d, want %d", step, got, first)
			}
			var keys []uint64
			var marks []mark
			for _, x := range beam {
				keys, marks = append(keys, newKey(x.estimate, x.row)), append(marks, x.mark)
			}
			if !slices.Equal(s.beam.keys, keys) || !slices.Equal(s.beam.marks, marks) {
				t.Fatalf("step %d: beam %x %v, want %x %v", step, s.beam.keys, s.beam.marks, keys, marks)
			}
			var want []spot
			for _, x := range spilled {
				want = append(want, spot{newKey(x.estimate, x.row), x.mark})
			}
			byKey := func(x, y spot) int { return cmp.Compare(x.key, y.key) }
			slices.SortFunc(want, byKey)
			slices.SortFunc(s.spilled, byKey)
			if !slices.Equal(s.spilled, want) {
				t.Fatalf("step %d: spilled %x, want %x", step, s.spilled, want)
			}
			// Marks must follow their rows.
			for i := range beam {
				if rng = rng*6364136223846793005 + 1; rng>>62 == 0 {
					beam[i].mark = mark(rng>>40)&(followed|judged|passed) | followed
					s.beam.marks[i] = beam[i].mark
				}
			}
		}
	})
}

// TestNewKey: keys have the order of the rows, and give back estimate and row.
func TestNewKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) scoredRow {
			return scoredRow{
				estimate: anyEstimate().Draw(t, name),
				row:      rapid.Uint32Max(math.MaxUint32-1).Draw(t, name+"'s row"),
			}
		}
		x, y := draw("x"), draw("y")
		a, b := newKey(x.estimate, x.row), newKey(y.estimate, y.row)
		nans := x.estimate != x.estimate && y.estimate != y.estimate // ordered by their bits
		if !nans && cmp.Compare(a, b) != compareRows(x, y) {
			t.Fatalf("%v %v: keys %x %x", x, y, a, b)
		}
		estimate := keyEstimate(a)
		if math.Float32bits(estimate) != math.Float32bits(x.estimate) || uint32(a) != x.row || a >= noKey {
			t.Fatalf("%v: key %x", x, a)
		}
	})
}

// TestMergerSort compares the sort of new keys with that of the standard library.
func TestMergerSort(t *testing.T) {
	var m merger
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(5)), 1, 300).Draw(t, "keys")
		m.keys = append(grow(m.keys, sortedLen(len(keys)))[:0], keys...)
		got := m.sort(m.keys)
		slices.Sort(keys)
		if !slices.Equal(got, keys) {
			t.Fatalf("%x, want %x", got, keys)
		}
	})
}

// TestSortEight: by the zero-one principle a network that sorts all zeros and ones sorts all keys.
func TestSortEight(t *testing.T) {
	for set := range 1 << sortRun8 {
		var x [sortRun8]uint64
		for i := range x {
			x[i] = uint64(set >> i & 1)
		}
		if sortEight(&x); !slices.IsSorted(x[:]) {
			t.Fatalf("%08b: %v", set, x)
		}
	}
}

func TestFindPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(50))
		sorted := rapid.SliceOfN(number, 0, 300).Draw(t, "sorted")
		keys := rapid.SliceOfN(number, 0, 20).Draw(t, "keys")
		slices.Sort(sorted)
		places := make([]int32, len(keys))
		findPlaces(places, keys, sorted)
		for i, key := range keys {
			if want, _ := slices.BinarySearch(sorted, key); int(places[i]) != want {
				t.Fatalf("place %d of %d, want %d", places[i], key, want)
			}
		}
	})
}
