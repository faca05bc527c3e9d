package db

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// TestTreeRows: the labels of rows that are read by the sets of rows that labels
// have are those that the rows say themselves, over several blocks of these sets
// and with rows deleted.
func TestTreeRows(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.CreateSparse(t.Context(), "s", SparseOptions{}); err != nil {
		t.Fatal(err)
	}
	const n = 1<<16 + 500
	err = d.Update(t.Context(), func(b *Batch) error {
		for i := range n {
			r := Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{0}, Value: []float32{1}}}
			for _, l := range []int{2, 3, 5, 7, 1 << 15} {
				if i%l == 0 {
					r.Labels = append(r.Labels, fmt.Sprint("l", l))
				}
			}
			if err := b.Put("s", r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = d.Update(t.Context(), func(b *Batch) error { return b.Delete("s", []byte("10")) })
	}
	if err != nil {
		t.Fatal(err)
	}
	err = d.View(func(s *Snapshot) error {
		st := s.gen.colls["s"]
		if err := st.load(t.Context()); err != nil {
			return err
		}
		reader, err := st.labelReader()
		if err != nil {
			return err
		}
		for _, name := range []string{"l2", "l3", "l5", "l7", "l32768", "none"} {
			got, err := reader.appendRows([]uint32{9}, name)
			if err != nil {
				return err
			}
			want := []uint32{9}
			set, err := st.labelRows(name)
			if err != nil {
				return err
			}
			if set != nil {
				want = append(want, set.ToArray()...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("label %q: %d rows, not %d", name, len(got), len(want))
			}
		}
		known, err := labels.NewBuilder([]string{"l7", "l5", "l3", "l2", "l32768"})
		if err != nil {
			return err
		}
		rows := []int{0, 10, 14, 30, 1 << 15, 1 << 16, 1<<16 + 2, n - 1}
		r, one := &treeRows{st: st, labels: known}, &treeRows{st: st, labels: known}
		r.held = map[int][]uint32{}
		if err := r.hold(rows); err != nil {
			return err
		}
		y, err := r.Sets(rows, 5)
		if err != nil {
			return err
		}
		sums, err := r.Sums(rows, []uint64{1, 10, 100, 1000, 10000})
		if err != nil {
			return err
		}
		for i, row := range rows {
			want, err := one.Set(row)
			if err != nil {
				return err
			}
			held, err := r.Set(row)
			if err != nil {
				return err
			}
			sum := uint64(0)
			for _, l := range want {
				sum += []uint64{1, 10, 100, 1000, 10000}[l]
			}
			if !slices.Equal(y.Row(i), want) || !slices.Equal(held, want) || sums[i] != sum {
				t.Errorf("row %d: labels %v, held %v, sum %d, not %v", row, y.Row(i), held, sums[i], want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
