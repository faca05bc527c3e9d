package labels

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// drawSets draws n label sets over l labels; small l makes equal sets and
// labels that all rows or none have.
func drawSets(t *rapid.T, name string, n, l int) [][]uint32 {
	sets := make([][]uint32, n)
	for i := range sets {
		for j := range l {
			if rapid.IntRange(0, 3).Draw(t, name) == 0 {
				sets[i] = append(sets[i], uint32(j))
			}
		}
	}
	return sets
}

func mustSets(t rapid.TB, sets [][]uint32, l int) *Matrix {
	t.Helper()
	m, err := FromSets(sets, l)
	must(t, err)
	return m
}

func TestMatrixBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(0, 12).Draw(t, "n"), rapid.IntRange(0, 6).Draw(t, "l")
		sets := drawSets(t, "label", n, l)
		m := mustSets(t, sets, l)
		if m.Rows() != n || m.Labels() != l {
			t.Fatalf("%d×%d", m.Rows(), m.Labels())
		}
		entries := 0
		for i, set := range sets {
			if !slices.Equal(m.Row(i), set) {
				t.Fatalf("row %d is %v, want %v", i, m.Row(i), set)
			}
			entries += len(set)
		}
		for j := range l {
			var rows []uint32
			for i, set := range sets {
				if slices.Contains(set, uint32(j)) {
					rows = append(rows, uint32(i))
				}
			}
			if !slices.Equal(m.Column(j), rows) {
				t.Fatalf("column %d is %v, want %v", j, m.Column(j), rows)
			}
			if n > 0 && m.Density(j) != float64(len(rows))/float64(n) {
				t.Fatalf("density %v", m.Density(j))
			}
		}
		if n > 0 && m.Cardinality() != float64(entries)/float64(n) {
			t.Fatalf("cardinality %v", m.Cardinality())
		}
		var pick []int
		if n > 0 {
			pick = rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, "pick")
		}
		s := m.Select(pick)
		for i, row := range pick {
			if !slices.Equal(s.Row(i), sets[row]) {
				t.Fatalf("selected row %d is %v", i, s.Row(i))
			}
		}
		if s.Rows() != len(pick) || s.Labels() != l {
			t.Fatalf("selected %d×%d", s.Rows(), s.Labels())
		}
	})
}

// powersets are those of all rows.
func powersets(m *Matrix) *Powersets {
	rows := make([]int32, m.Rows())
	for i := range rows {
		rows[i] = int32(i)
	}
	return m.PowersetsOf(rows)
}

func TestPowersets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(0, 30).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "l")
		sets := drawSets(t, "label", n, l)
		p := powersets(mustSets(t, sets, l))
		counts := map[string]int{}
		for _, set := range sets {
			counts[fmt.Sprint(set)]++
		}
		if len(p.Sets) != len(counts) || len(p.Count) != len(counts) || len(p.Of) != n {
			t.Fatalf("%d sets, want %d", len(p.Sets), len(counts))
		}
		for i, set := range sets {
			if !slices.Equal(p.Sets[p.Of[i]], set) {
				t.Fatalf("row %d has %v, want %v", i, p.Sets[p.Of[i]], set)
			}
		}
		for s, set := range p.Sets {
			if p.Count[s] != counts[fmt.Sprint(set)] && !(len(set) == 0 && p.Count[s] == counts["[]"]) {
				t.Fatalf("set %v counts %d", set, p.Count[s])
			}
			if s > 0 && (p.Count[s] > p.Count[s-1] || p.Count[s] == p.Count[s-1] && slices.Compare(p.Sets[s-1], set) >= 0) {
				t.Fatalf("set %d out of order", s)
			}
		}
	})
}

// TestPowersetsOf: those of some rows are those of the matrix of these rows.
func TestPowersetsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 30).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "l")
		m := mustSets(t, drawSets(t, "label", n, l), l)
		rows := rapid.SliceOf(rapid.Int32Range(0, int32(n)-1)).Draw(t, "rows")
		list := make([]int, len(rows))
		for i, r := range rows {
			list[i] = int(r)
		}
		got, want := m.PowersetsOf(rows), powersets(m.Select(list))
		if !slices.EqualFunc(got.Sets, want.Sets, slices.Equal[[]uint32]) || !slices.Equal(got.Count, want.Count) || !slices.Equal(got.Of, want.Of) {
			t.Fatalf("%v, not %v", got, want)
		}
	})
}

func TestMatrixRejects(t *testing.T) {
	for name, m := range map[string]vector.CSR{
		"values":     {Ptr: []uint64{0, 1}, Index: []uint32{0}, Value: []float32{1}, Cols: 1},
		"unsorted":   {Ptr: []uint64{0, 2}, Index: []uint32{1, 0}, Cols: 2},
		"repetition": {Ptr: []uint64{0, 2}, Index: []uint32{1, 1}, Cols: 2},
		"beyond":     {Ptr: []uint64{0, 1}, Index: []uint32{2}, Cols: 2},
		"offsets":    {Ptr: []uint64{0, 2}, Index: []uint32{0}, Cols: 2},
	} {
		if _, err := NewMatrix(m); !errors.Is(err, ErrMatrix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FromSets([][]uint32{{3}}, 3); !errors.Is(err, ErrMatrix) {
		t.Errorf("label beyond: %v", err)
	}
	if m, err := NewMatrix(vector.CSR{}); err != nil || m.Rows() != 0 || m.Labels() != 0 {
		t.Errorf("empty: %v, %v", m, err)
	}
}

func TestBuilder(t *testing.T) {
	if _, err := NewBuilder([]string{"a", "a"}); !errors.Is(err, ErrMatrix) {
		t.Errorf("a name twice: %v", err)
	}
	b, err := NewBuilder([]string{"x", "y"})
	must(t, err)
	b.Add([]string{"z", "y", "z"})
	first := b.Matrix()
	b.Add(nil)
	b.Add([]string{"x", "w"})
	m := b.Matrix()
	if !slices.Equal(b.Names(), []string{"x", "y", "z", "w"}) {
		t.Errorf("names %v", b.Names())
	}
	if first.Rows() != 1 || first.Labels() != 3 || !slices.Equal(first.Row(0), []uint32{1, 2}) {
		t.Errorf("first matrix %v", first)
	}
	if m.Rows() != 3 || m.Labels() != 4 || len(m.Row(1)) != 0 || !slices.Equal(m.Row(2), []uint32{0, 3}) {
		t.Errorf("second matrix %v", m)
	}
}

func TestSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(t, "n")
		k := rapid.IntRange(2, n).Draw(t, "k")
		seed := rapid.Uint64().Draw(t, "seed")
		folds, err := KFold(n, k, seed)
		must(t, err)
		again, _ := KFold(n, k, seed)
		tested := make([]int, n)
		check := func(f Fold) {
			all := slices.Concat(f.Train, f.Test)
			slices.Sort(all)
			for i, row := range all {
				if i != row {
					t.Fatalf("rows %v", all)
				}
			}
			if len(all) != n || !slices.IsSorted(f.Train) || !slices.IsSorted(f.Test) {
				t.Fatalf("%d rows", len(all))
			}
		}
		for i, f := range folds {
			check(f)
			if len(f.Test) < n/k || len(f.Test) > (n+k-1)/k {
				t.Fatalf("fold of %d of %d rows", len(f.Test), n)
			}
			if !slices.Equal(f.Test, again[i].Test) {
				t.Fatal("the same seed gives other folds")
			}
			for _, row := range f.Test {
				tested[row]++
			}
		}
		for _, c := range tested {
			if c != 1 {
				t.Fatal("a row is not tested once")
			}
		}
	})
	for _, k := range []int{-1, 0, 1, 6} {
		if _, err := KFold(5, k, 1); !errors.Is(err, ErrInput) {
			t.Errorf("%d folds: %v", k, err)
		}
	}
	// Results cite seeds, so the permutation of one must never change.
	if f, err := KFold(10, 3, 42); err != nil || !slices.Equal(f[0].Test, goldenFold) {
		t.Errorf("fold %v, %v", f[0].Test, err)
	}
	a, _ := KFold(100, 2, 1)
	b, _ := KFold(100, 2, 2)
	if slices.Equal(a[0].Test, b[0].Test) {
		t.Error("two seeds give one division")
	}
}

var goldenFold = []int{2, 5, 6}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
