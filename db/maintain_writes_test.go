package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
)

// TestMaintainWritesLittle folds one row at a time into indexes of large blocks:
// what is written follows the row and what there is once in an index, not the
// blocks that happen to stand beside it.
func TestMaintainWritesLittle(t *testing.T) {
	dbtest.Whole(t)
	for name, o := range map[string]index.Options{
		"postings": &index.Postings{},
		"labels":   &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, err := db.Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &db.Options{NoSync: true})
			dbtest.Must(t, err)
			defer d.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			put := func(from, to int) error {
				return d.Update(ctx, func(b *db.Tx) error {
					for i := from; i < to; i++ {
						r := db.Row{Key: fmt.Append(nil, i), Sparse: dbtest.RandomSparse(rng, 40, 400)}
						for range 8 {
							r.Labels = append(r.Labels, fmt.Sprint(rng.IntN(300)))
						}
						if err := b.Collection("s").Put(r); err != nil {
							return err
						}
					}
					return nil
				})
			}
			dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "s", db.Schema{Sparse: true}), put(0, 3000)))
			info, err := d.Collection("s").Build(ctx, "x", o, nil)
			dbtest.Must(t, err)
			total := int64(0)
			for _, n := range info.Bytes {
				total += n
			}
			allocated := func() int64 {
				stats := db.Manager(d).File().Stats()
				return stats.TxStats.GetPageAlloc()
			}
			for i := range 12 {
				dbtest.Must(t, put(3000+i, 3001+i))
				before := allocated()
				steps, err := d.Maintain(ctx, 0, nil)
				if err != nil || len(steps) != 1 {
					t.Fatalf("steps %v, %v", steps, err)
				}
				if n := allocated() - before; n > total/2 {
					t.Errorf("step %d, %s, has written %d bytes for a row, the index has %d", i, steps[0].Action, n, total)
				}
			}
			if err := dbtest.Check(d); err != nil {
				t.Error(err)
			}
		})
	}
}
