package db

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
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
func putTied(t *testing.T, d *DB, from, to int) {
	t.Helper()
	err := d.Update(t.Context(), func(b *Tx) error {
		for i := from; i < to; i++ {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			x := []float32{float32(rng.IntN(3))}
			for len(x) < tiedDim {
				x = append(x, float32(rng.IntN(2)))
			}
			if err := b.Collection("d").Put(Row{Key: fmt.Append(nil, i), Vector: x}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
}

// checkLeafSizes compares the size of every leaf with the number of given rows that are routed to it. It
// returns how many sizes there are.
func checkLeafSizes(t *testing.T, s *Snapshot, rows []int) (sizes int) {
	t.Helper()
	st := s.gen.Collections["d"]
	x, err := st.OpenIndex(t.Context(), st.Entry.Index("x"))
	must(t, err)
	v := x.Opened.(kind.RowViewer).RowView()
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
				must(t, d.View(func(s *Snapshot) error {
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
				d, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), &Options{NoSync: true})
				must(t, err)
				defer d.Close()
				if _, err := d.Create(t.Context(), "d", Schema{Dim: dim, Metric: metric}); err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(4, uint64(metric)))
				var rows []int
				must(t, d.Update(t.Context(), func(b *Tx) error {
					for i := range n {
						x := make([]float32, dim)
						for i := range x {
							x[i] = float32(rng.NormFloat64())
						}
						if err := b.Collection("d").Put(Row{Key: fmt.Append(nil, i), Vector: x}); err != nil {
							return err
						}
						rows = append(rows, i)
					}
					return nil
				}))
				builds(t, d, "d", "x", &index.Forest{Learner: string(kind), Trees: 4, Depth: 7, LeafNeighbors: 10, NoTune: true})
				must(t, d.View(func(s *Snapshot) error {
					checkLeafSizes(t, s, rows)
					return nil
				}))
			})
		}
	}
}

// tiedDB is a database with an index over tied rows, every tenth of them deleted.
func tiedDB(t *testing.T, path string, kind forest.Kind) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, &Options{NoSync: true})
	must(t, err)
	if _, err := d.Create(t.Context(), "d", Schema{Dim: tiedDim}); err != nil {
		t.Fatal(err)
	}
	putTied(t, d, 0, tiedRows)
	must(t, d.Update(t.Context(), func(b *Tx) error {
		for i := 0; i < tiedRows; i += 10 {
			if err := b.Collection("d").Delete(fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
	builds(t, d, "d", "x", &index.Forest{Learner: string(kind), Trees: 4, Depth: 6, LeafNeighbors: 10, NoTune: true})
	return d
}

// A leaf's size that was changed, with the checksum made right, is damage: searches
// refuse the index, and Check reports it.
func TestHostileLeafSize(t *testing.T) {
	for name, c := range map[string]struct {
		kind codec.Kind
		add  int64
		want string
	}{
		"higher":   {codec.KindLeaves, 1, "training points in the leaves"},
		"lower":    {codec.KindLeaves, -1, ""},
		"enormous": {codec.KindLeaves, 1 << 31, "training points in the leaves"},
		"none":     {codec.KindLeaves, -1 << 32, "votes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			d := tiedDB(t, path, forest.KD)
			putTied(t, d, tiedRows, tiedRows+60)
			_, err := d.Maintain(t.Context(), 0, nil)
			if err = errors.Join(err, d.Close()); err != nil {
				t.Fatal(err)
			}
			changeSize(t, path, c.kind, c.add)
			withFile(t, path, func(d *DB, s *Snapshot) {
				_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, tiedDim)}, 3, &SearchOptions{Index: "x"})
				mustBeCorrupt(t, "search", err)
				if !strings.Contains(fmt.Sprint(err), c.want) {
					t.Errorf("search: error %v", err)
				}
				var found []*CorruptError
				err = d.Check(t.Context(), func(p *CorruptError) { found = append(found, p) }, nil)
				if !slices.ContainsFunc(found, func(p *CorruptError) bool { return p.Collection == "d" && errors.Is(p.Err, ErrCorrupt) }) {
					t.Errorf("check: problems %v, error %v", found, err)
				}
			})
		})
	}
}

// A manifest whose trees were grown from another number of points than its segment has is refused.
func TestHostilePoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d := tiedDB(t, path, forest.KD)
	var m *kind.Manifest
	err := d.View(func(s *Snapshot) (err error) {
		st := s.gen.Collections["d"]
		m, err = st.ManifestOf(st.Entry.Index("x"))
		return err
	})
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	changed := *m
	changed.Segments = slices.Clone(m.Segments)
	changed.Segments[0].Dead++
	data, err := json.Marshal(&changed)
	must(t, err)
	putBlock(t, path, layout.BucketMeta, codec.Key(m.Object, codec.KindManifest, 0), data)
	withFile(t, path, func(_ *DB, s *Snapshot) {
		_, _, err := nearest(t.Context(), s.Collection("d"), Query{Vector: make([]float32, tiedDim)}, 3, &SearchOptions{Index: "x"})
		mustBeCorrupt(t, "search", err)
		if !strings.Contains(fmt.Sprint(err), "training points") {
			t.Errorf("search: error %v", err)
		}
	})
}

// changeSize adds to the first size that is not zero in a section of leaves, but
// not below zero.
func changeSize(t *testing.T, path string, kind codec.Kind, add int64) {
	t.Helper()
	var key [codec.KeySize]byte
	var payload []byte
	inFile(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket(layout.BucketBlocks).ForEach(func(k, v []byte) error {
			if _, of, _ := codec.ParseKey(k); of != kind || payload != nil {
				return nil
			}
			copy(key[:], k)
			b, err := layout.DecodeBlock("", k, v, true)
			payload = slices.Clone(b)
			return err
		})
	})
	// Blocks follow each other; a segment has 4 bytes, 2 a label, and 1 a weight.
	at := 0
	for at < len(payload) && binary.LittleEndian.Uint32(payload[at+4:]) == 0 {
		end := 8
		for range binary.LittleEndian.Uint16(payload[at:]) {
			n := int(binary.LittleEndian.Uint16(payload[at+end+2:]))
			end += 4 + 2*n + (n+1)&^1
		}
		at += (end + 15) &^ 15
	}
	if at >= len(payload) {
		t.Fatalf("no sizes in section %v", kind)
	}
	n := int64(binary.LittleEndian.Uint32(payload[at+4:]))
	binary.LittleEndian.PutUint32(payload[at+4:], uint32(max(0, n+add)))
	putBlock(t, path, layout.BucketBlocks, key, payload)
}
