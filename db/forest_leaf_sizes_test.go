package db_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// checkLeafSizes compares the size of every leaf with the number of given rows that are routed to it. It
// returns how many sizes there are.
func checkLeafSizes(t *testing.T, s *db.Snapshot, rows []int) (sizes int) {
	t.Helper()
	st := db.Inside(s).Collections["d"]
	x, err := st.OpenIndex(t.Context(), st.Entry.Index("x"))
	dbtest.Must(t, err)
	v := x.Opened.(interface{ RowView() *query.View }).RowView()
	f := v.Forest
	want := make([]uint32, len(f.LeafDir))
	leaves := make([]uint32, f.Trees)
	var rotated []float32
	if v.RotatedForest() {
		rotated = make([]float32, v.Rotation.R)
	}
	for _, i := range rows {
		x := partitioned(v, i)
		if rotated != nil {
			v.Rotation.Apply(x, rotated)
			x = rotated[:f.Dim]
		}
		f.Route(f.Coordinates(x, nil), leaves)
		for tree, leaf := range leaves {
			want[tree<<f.Depth+int(leaf)]++
		}
	}
	different := map[uint32]bool{}
	for slot, n := range want {
		b := f.Leaf(slot>>f.Depth, slot&(1<<f.Depth-1))
		got := b.Points()
		if different[n] = true; got != n {
			t.Errorf("leaf %d of tree %d has the size %d, %d rows are routed to it", slot&(1<<f.Depth-1), slot>>f.Depth, got, n)
		}
	}
	return len(different)
}

// partitioned returns a row in the space that the forest of a view partitions: scaled to unit length
// for cosine, with one more coordinate for inner product.
func partitioned(v *query.View, row int) []float32 {
	x := slices.Clone(v.Rows.Vector(row, make([]float32, v.Dim)))
	switch squared := kind.SquaredNorm(x); v.Metric {
	case vector.Cosine:
		inverse := 1 / math.Sqrt(squared)
		for i := range x {
			x[i] = float32(float64(x[i]) * inverse)
		}
	case vector.InnerProduct:
		lift := float64(v.LiftNorm)
		x = append(x, float32(math.Sqrt(max(0, lift*lift-squared))))
	}
	return x
}

// TestLeafSizes: the sizes of leaves are the numbers of rows that are routed to them, for all metrics and
// learners, where values tie and rows were deleted before the build: thresholds are values of rows, so
// one bit of difference between the coordinates of builds and those of searches would move rows. Small
// segments do not change them.
func TestLeafSizes(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, dim = 800, 6
	for _, metric := range dbtest.Metrics {
		for _, kind := range []forest.Kind{forest.KD, forest.KDChrono, forest.RP, forest.PCATree, forest.RF} {
			t.Run(fmt.Sprint(metric, " ", kind), func(t *testing.T) {
				d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
				rng := rand.New(rand.NewPCG(3, uint64(metric)))
				var rows []db.Row // of which about half have one of 96 vectors
				for i := range n + 60 {
					x := []float32{float32(1 + rng.IntN(3))}
					for len(x) < dim {
						x = append(x, float32(rng.IntN(2)))
					}
					if i%2 == 0 {
						x[i%dim] = float32(rng.NormFloat64())
					}
					rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: x})
				}
				var deleted []string
				var trained []int
				for i := range n {
					if i%10 == 0 {
						deleted = append(deleted, fmt.Sprint(i))
					} else {
						trained = append(trained, i)
					}
				}
				dbtest.Must(t, errors.Join(
					dbtest.Create(t.Context(), d, "d", db.Schema{Dim: dim, Metric: metric}),
					dbtest.Put(d, "d", rows[:n]...), dbtest.Delete(d, "d", deleted...)))
				dbtest.Builds(t, d, "d", "x", &index.Forest{
					Learner: string(kind), Trees: 4, Depth: 6, LeafNeighbors: 10, NoTune: true,
				})
				look := func() {
					t.Helper()
					dbtest.Must(t, d.View(func(s *db.Snapshot) error {
						if sizes := checkLeafSizes(t, s, trained); sizes < 4 {
							t.Errorf("%d different sizes, want 4 or more", sizes)
						}
						return nil
					}))
				}
				look()
				dbtest.Must(t, dbtest.Put(d, "d", rows[n:]...))
				steps, err := d.Maintain(t.Context(), 0, nil)
				if err != nil || len(steps) != 1 || steps[0].Action != "segment" {
					t.Fatalf("steps %+v, error %v, want a segment", steps, err)
				}
				look()
			})
		}
	}
}
