package db_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
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

const (
	tiedRows = 800
	tiedDim  = 6
)

// putTied puts rows of whole numbers 0 and 1 and one 0..2, so that there are 96
// different rows and splits leave very uneven leaves.
func putTied(t *testing.T, d *db.DB, from, to int) {
	t.Helper()
	err := d.Update(t.Context(), func(b *db.Tx) error {
		for i := from; i < to; i++ {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			x := []float32{float32(rng.IntN(3))}
			for len(x) < tiedDim {
				x = append(x, float32(rng.IntN(2)))
			}
			if err := b.Collection("d").Put(db.Row{Key: fmt.Append(nil, i), Vector: x}); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
}

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

// The sizes of leaves are the numbers of training points in them: where values
// tie, with rows deleted before the build. Small segments do not change them.
func TestLeafSizes(t *testing.T) {
	for _, kind := range []forest.Kind{forest.KD, forest.KDChrono, forest.RP, forest.PCATree, forest.RF} {
		t.Run(string(kind), func(t *testing.T) {
			d := tiedDB(t, filepath.Join(t.TempDir(), "db"), kind)
			defer d.Close()
			var trained []int
			for i := range tiedRows {
				if i%10 != 0 {
					trained = append(trained, i)
				}
			}
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
			putTied(t, d, tiedRows, tiedRows+60)
			steps, err := d.Maintain(t.Context(), 0, nil)
			if err != nil || len(steps) != 1 || steps[0].Action != "segment" {
				t.Fatalf("steps %+v, error %v, want a segment", steps, err)
			}
			look()
		})
	}
}

// Rows that an index covers are routed to the leaves that counted them when it was
// built, for all metrics: thresholds are values of rows, so one bit of difference
// between the coordinates of builds and those of searches would move rows.
func TestLeafSizesByMetric(t *testing.T) {
	t.Parallel()
	const n, dim = 1000, 12
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		for _, kind := range []forest.Kind{forest.KD, forest.RP, forest.PCATree, forest.RF} {
			t.Run(fmt.Sprint(metric, " ", kind), func(t *testing.T) {
				d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "db"), &db.Options{NoSync: true})
				dbtest.Must(t, err)
				defer d.Close()
				dbtest.Must(t, dbtest.Create(t.Context(), d, "d", db.Schema{Dim: dim, Metric: metric}))
				rng := rand.New(rand.NewPCG(4, uint64(metric)))
				var rows []int
				dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error {
					for i := range n {
						x := make([]float32, dim)
						for i := range x {
							x[i] = float32(rng.NormFloat64())
						}
						if err := b.Collection("d").Put(db.Row{Key: fmt.Append(nil, i), Vector: x}); err != nil {
							return err
						}
						rows = append(rows, i)
					}
					return nil
				}))
				dbtest.Builds(t, d, "d", "x", &index.Forest{Learner: string(kind), Trees: 4, Depth: 7, LeafNeighbors: 10, NoTune: true})
				dbtest.Must(t, d.View(func(s *db.Snapshot) error {
					checkLeafSizes(t, s, rows)
					return nil
				}))
			})
		}
	}
}

// tiedDB is a database with an index over tied rows, every tenth of them deleted.
func tiedDB(t *testing.T, path string, kind forest.Kind) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "d", db.Schema{Dim: tiedDim}))
	putTied(t, d, 0, tiedRows)
	dbtest.Must(t, d.Update(t.Context(), func(b *db.Tx) error {
		for i := 0; i < tiedRows; i += 10 {
			if err := b.Collection("d").Delete(fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
	dbtest.Builds(t, d, "d", "x", &index.Forest{Learner: string(kind), Trees: 4, Depth: 6, LeafNeighbors: 10, NoTune: true})
	return d
}
