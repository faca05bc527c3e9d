package labels

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// leading are the first r coordinates of every row: an orthogonal projection.
func leading(rows table, r int) (reduced table, outside []float32) {
	for _, x := range rows {
		reduced = append(reduced, x[:r])
		outside = append(outside, vector.Dot(x[r:], x[r:]))
	}
	return reduced, outside
}

// clusters are rows of d coordinates of falling spread around a few centres,
// whole numbers from 0 to 255 if asked for.
func clusters(n, d int, whole bool, seed uint64) table {
	rng := rand.New(rand.NewPCG(seed, 99))
	centres := make(table, 12)
	for i := range centres {
		for j := range d {
			centres[i] = append(centres[i], float32(rng.NormFloat64()*60/(1+0.2*float64(j))))
		}
	}
	out := make(table, n)
	for i := range out {
		c := centres[rng.IntN(len(centres))]
		for j := range d {
			v := c[j] + float32(rng.NormFloat64()*40/(1+0.2*float64(j)))
			if whole {
				v = float32(math.Round(float64(max(0, min(255, v+128)))))
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

func approximate(t testing.TB, rows, reduced Rows, k int, o ApproximateOptions) *Approximation {
	t.Helper()
	a, err := ApproximateNeighbors(context.Background(), rows, reduced, k, o, nil)
	must(t, err)
	return a
}

// shapely checks what every answer must be: the row first, no row twice, by
// rising distance, the last distance stored.
func shapely(t testing.TB, rows table, n *Neighbors) {
	t.Helper()
	for i := range n.N {
		list := n.Row(i)
		if list[0] != uint32(i) {
			t.Fatalf("row %d: first label %d", i, list[0])
		}
		last := float32(0)
		for j, id := range list[1:] {
			if slices.Contains(list[:j+1], id) {
				t.Fatalf("row %d: label %d twice in %v", i, id, list)
			}
			d := vector.L2Squared(rows[i], rows[id])
			if d < last || d == last && j > 0 && list[j] > id {
				t.Fatalf("row %d: label %d at %g after %g", i, id, d, last)
			}
			last = d
		}
		if n.KDist[i] != last {
			t.Fatalf("row %d: last distance %g, want %g", i, n.KDist[i], last)
		}
	}
}

func TestApproximateNeighborsAreNear(t *testing.T) {
	for _, c := range []struct {
		name      string
		n, d, r   int
		whole     bool
		k, deep   int
		all, head float64
	}{
		{"bytes, one line of codes", 1500, 80, 60, true, 20, 0, 0.97, 0.99},
		{"floats, two lines of codes", 1500, 90, 80, false, 20, 300, 0.97, 0.99},
		{"few coordinates", 1200, 7, 7, false, 30, 10, 0.97, 0.99},
		{"codes that see little", 1200, 40, 6, false, 20, 70, 0.8, 0.8},
		{"short lists", 1500, 30, 30, true, 2, 2000, 0.97, 0.97},
	} {
		if testing.Short() {
			c.n /= 2
		}
		t.Run(c.name, func(t *testing.T) {
			rows := clusters(c.n, c.d, c.whole, 5)
			reduced, outside := leading(rows, c.r)
			o := ApproximateOptions{Seed: 3, Outside: outside, SampleK: c.deep}
			a := approximate(t, rows, reduced, c.k, o)
			shapely(t, rows, a.Neighbors)
			want := bruteForce(rows, nil, c.k)
			var exact Neighbors
			hits, headHits, sampleHits := 0, 0, 0
			head := min(headRecall, c.k-1)
			for i := range want.N {
				for j, id := range a.Neighbors.Row(i)[1:] {
					d := vector.L2Squared(rows[i], rows[id])
					if d <= want.KDist[i] {
						hits++
						if slices.Contains(a.Sample, i) {
							sampleHits++
						}
					}
					if j < head && d <= vector.L2Squared(rows[i], rows[want.Row(i)[head]]) {
						headHits++
					}
				}
			}
			if r := float64(hits) / float64(c.n*(c.k-1)); r < c.all {
				t.Errorf("recall %.4f, want %.2f", r, c.all)
			}
			if r := float64(headHits) / float64(c.n*head); r < c.head {
				t.Errorf("recall of the head %.4f, want %.2f", r, c.head)
			}
			if r := float64(sampleHits) / float64(len(a.Sample)*(c.k-1)); math.Abs(r-a.Recall) > 1e-9 {
				t.Errorf("reported recall %.6f, is %.6f", a.Recall, r)
			}
			deep := bruteForce(rows, nil, min(max(c.k, c.deep), c.n))
			for _, i := range a.Sample {
				exact.IDs = append(exact.IDs, deep.Row(i)...)
				exact.KDist = append(exact.KDist, deep.KDist[i])
			}
			exact.N, exact.K = len(a.Sample), deep.K
			if err := equal(a.Exact, &exact); err != nil {
				t.Errorf("the sample's lists are not exact: %v", err)
			}
		})
	}
}

func TestApproximateNeighborsAtAnyNumberOfWorkers(t *testing.T) {
	rows := clusters(1500, 20, false, 1)
	reduced, outside := leading(rows, 12)
	var first *Approximation
	for _, workers := range []int{1, 2, 5} {
		a := approximate(t, rows, filling{reduced}, 9, ApproximateOptions{Seed: 8, Workers: workers, Outside: outside})
		if first == nil {
			first = a
		}
		if err := equal(a.Neighbors, first.Neighbors); err != nil {
			t.Fatalf("%d workers: %v", workers, err)
		}
		if a.Recall != first.Recall || !slices.Equal(a.Sample, first.Sample) {
			t.Fatalf("%d workers: recall %v on %d rows, was %v on %d", workers, a.Recall, len(a.Sample), first.Recall, len(first.Sample))
		}
	}
	other := approximate(t, rows, reduced, 9, ApproximateOptions{Seed: 9, Outside: outside})
	if slices.Equal(other.Sample, first.Sample) {
		t.Error("the seed does not change the sample")
	}
}

func TestApproximateNeighborsOfEqualRows(t *testing.T) {
	for name, rows := range map[string]table{
		"all equal": make(table, 1000),
		"pairs":     clusters(500, 10, true, 4),
	} {
		t.Run(name, func(t *testing.T) {
			if rows[0] == nil {
				for i := range rows {
					rows[i] = []float32{3, 4, 5}
				}
			} else {
				rows = append(rows, rows...)
			}
			a := approximate(t, rows, rows, 12, ApproximateOptions{})
			shapely(t, rows, a.Neighbors)
			if a.Recall < 0.97 {
				t.Errorf("recall %.4f", a.Recall)
			}
		})
	}
}

func TestApproximateNeighborsOfFewRowsAreExact(t *testing.T) {
	for _, c := range []struct{ n, k int }{{1, 1}, {1, 5}, {2, 2}, {300, 7}, {300, 300}, {700, 300}} {
		rows := clusters(c.n, 5, false, 2)
		a := approximate(t, rows, rows, c.k, ApproximateOptions{Sample: []int{c.n - 1, 0}})
		want := bruteForce(rows, nil, c.k)
		if err := equal(a.Neighbors, want); err != nil {
			t.Fatalf("%d rows, k %d: %v", c.n, c.k, err)
		}
		if a.Recall != 1 || a.HeadRecall != 1 || !slices.Equal(a.Exact.Row(0), want.Row(c.n-1)) || !slices.Equal(a.Exact.Row(1), want.Row(0)) {
			t.Fatalf("%d rows, k %d: recall %g and %g, sample %v", c.n, c.k, a.Recall, a.HeadRecall, a.Exact.IDs)
		}
	}
}

func TestApproximateNeighborsRefuses(t *testing.T) {
	rows := clusters(1000, 6, false, 2)
	bad := slices.Clone(rows)
	bad[700] = []float32{0, 0, float32(math.NaN()), 0, 0, 0}
	for name, f := range map[string]func() (*Approximation, error){
		"no corpus": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), nil, rows, 3, ApproximateOptions{}, nil)
		},
		"no reduced rows": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, nil, 3, ApproximateOptions{}, nil)
		},
		"k 0": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, rows, 0, ApproximateOptions{}, nil)
		},
		"fewer reduced rows": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, rows[:999], 3, ApproximateOptions{}, nil)
		},
		"fewer lengths": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, rows, 3, ApproximateOptions{Outside: make([]float32, 3)}, nil)
		},
		"a sample beyond the rows": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, rows, 3, ApproximateOptions{Sample: []int{1000}}, nil)
		},
		"not a number": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), bad, rows, 3, ApproximateOptions{}, nil)
		},
		"not a number, reduced": func() (*Approximation, error) {
			return ApproximateNeighbors(t.Context(), rows, bad, 3, ApproximateOptions{}, nil)
		},
	} {
		if a, err := f(); !errors.Is(err, ErrInput) || a != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestApproximateNeighborsCancels stops in every stage that reports progress.
func TestApproximateNeighborsCancels(t *testing.T) {
	rows := clusters(1200, 8, true, 2)
	calls, last := 0, 0
	_, err := ApproximateNeighbors(t.Context(), rows, rows, 5, ApproximateOptions{}, func(done, total int) {
		calls++
		if done < last || done > total || total != len(rows) {
			t.Fatalf("progress %d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil || last != len(rows) {
		t.Fatalf("%v, progress ends at %d", err, last)
	}
	for stop := range calls - 1 {
		ctx, cancel := context.WithCancel(t.Context())
		at := 0
		a, err := ApproximateNeighbors(ctx, rows, rows, 5, ApproximateOptions{}, func(int, int) {
			if at++; at > stop {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) || a != nil {
			t.Errorf("cancelled at report %d of %d: %v", stop, calls, err)
		}
	}
}
