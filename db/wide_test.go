package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Rows whose features have large numbers cost what they hold: builds, steps of
// maintenance, searches, compactions and salvage. What needs numbers for every
// feature is refused.
func TestWideFeatures(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(path, &Options{NoSync: true})
	if err == nil {
		err = d.CreateSparse(ctx, "s", SparseOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	row := func(i int) Row {
		return Row{
			Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%2)},
			Sparse: vector.Sparse{Index: []uint32{uint32(i % 2), uint32(3 + i), 1<<26 + 1000*uint32(i)}, Value: []float32{1, 2, 3}},
		}
	}
	put := func(from, to int) {
		t.Helper()
		err := d.Update(ctx, func(b *Tx) (err error) {
			for i := from; i < to && err == nil; i++ {
				err = b.Put("s", row(i))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	answers := func() (out string) {
		t.Helper()
		err := d.View(func(s *Snapshot) error {
			for i := range 30 {
				want, _, err := s.SearchSparse(ctx, "s", SparseQuery{Sparse: row(i).Sparse}, 3, &SparseSearchOptions{Index: Flat}, nil)
				if err != nil {
					return err
				}
				got, _, err := s.SearchSparse(ctx, "s", SparseQuery{Sparse: row(i).Sparse}, 3, &SparseSearchOptions{Index: "p"}, nil)
				if err != nil {
					return err
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("row %d: %v, want %v", i, got, want)
				}
				p, _, err := s.Predict(ctx, "s", SparseQuery{Sparse: row(i).Sparse}, &PredictOptions{Index: "t", Set: true})
				if err != nil {
					return err
				}
				out += fmt.Sprint(p)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	used := peak(func() {
		put(0, 20)
		builds(t, d, "s", "p", BuildOptions{Postings: PostingsOptions{Partition: true, M: 2}})
		builds(t, d, "s", "t", BuildOptions{Kind: KindPT})
		answers()
		put(20, 30)
		if _, err := d.Maintain(ctx, MaintainOptions{}); err != nil {
			t.Fatal(err)
		}
		answers()
		err := d.Update(ctx, func(b *Tx) (err error) {
			for i := range 12 {
				err = errors.Join(err, b.Delete("s", fmt.Append(nil, i)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		answers()
		_, err = d.Build(ctx, "s", "l", BuildOptions{Kind: KindLCIF, LCIF: LCIFOptions{Params: &query.LCIFParams{K: 3, Lambda: 0.5}}}, nil)
		if !errors.Is(err, ErrOption) {
			t.Errorf("label model: %v", err)
		}
		_, err = d.Build(ctx, "s", "w", BuildOptions{Kind: KindPT, Budget: BudgetOptions{Weight: WeightTFIDF}}, nil)
		if !errors.Is(err, ErrOption) {
			t.Errorf("weights: %v", err)
		}
	})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to")
	used += peak(func() {
		if r, err := Salvage(ctx, path, to, SalvageOptions{}); err != nil || len(r.Indexes) != 2 || r.Rows != 18 {
			t.Errorf("salvage: %+v, %v", r, err)
		}
	})
	if used > 256<<20 || info.Size() > 32<<20 {
		t.Errorf("%d bytes allocated, a file of %d", used, info.Size())
	}
}
