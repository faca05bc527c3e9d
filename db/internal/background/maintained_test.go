package background_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/maintenance"
)

// TestBackground lets a database maintain itself: fresh rows become part of the
// index while it is open, not while it is paused, and Close ends the work.
func TestBackground(t *testing.T) {
	ctx := t.Context()
	d, err := dbtest.Open(ctx, filepath.Join(t.TempDir(), "db"), &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Every: time.Millisecond, Share: 0.05, CPU: 1}})
	dbtest.Must(t, err)
	if _, err := d.Create(ctx, "s", db.Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	at := 0
	put := func(n int) {
		dbtest.Fill(t, d, "s", at+1, at+1+n, func(i int) db.Row {
			return db.Row{Key: fmt.Append(nil, i), Sparse: dbtest.RandomSparse(rng, 8, 50)}
		})
		at += n
	}
	status := func() (index.Info, maintenance.Stats) {
		st, err := d.Stats()
		dbtest.Must(t, err)
		return st.Indexes[0], st.Maintenance
	}
	put(1000)
	if _, err := d.Collection("s").Build(ctx, "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	put(100)
	dbtest.WaitFor(t, "fresh rows to become a segment", func() bool {
		x, m := status()
		return x.Fresh == 0 && m.Last.Action != "" // which is recorded after the step is published
	})
	x, m := status()
	if x.Rows != 1100 || x.Segments != 2 || !m.Background || m.Paused || m.Steps != 1 || m.Last.Action != "segment" || m.Last.Rows != 100 || m.Error != "" {
		t.Errorf("%+v, %+v", x, m)
	}
	put(20) // below the share
	resume := d.PauseMaintenance()
	put(200)
	time.Sleep(20 * time.Millisecond)
	if x, m := status(); x.Fresh != 220 || !m.Paused {
		t.Errorf("while paused: %+v, %+v", x, m)
	}
	resume()
	dbtest.WaitFor(t, "maintenance to go on", func() bool { x, _ := status(); return x.Fresh == 0 })
	put(500)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []maintenance.Policy{
		{Every: -1}, {Share: -1}, {CPU: 2}, {Memory: -1}, {Space: 2}, {Space: -1},
	} {
		if _, err := dbtest.Open(ctx, filepath.Join(t.TempDir(), "db"), &db.Options{Maintenance: &bad}); !errors.Is(err, fail.Option) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestMaintainCancelled cancels maintenance: the database is as it was, and the
// next call does the work.
func TestMaintainCancelled(t *testing.T) {
	d, rng := dbtest.OpenTemp(t, &db.Options{NoSync: true}), rand.New(rand.NewPCG(3, 4))
	dbtest.Must(t, dbtest.Create(t.Context(), d, "s", db.Schema{Sparse: true}))
	put := func(from, to int) {
		dbtest.Fill(t, d, "s", from, to, func(i int) db.Row {
			return db.Row{Key: fmt.Append(nil, i), Sparse: dbtest.RandomSparse(rng, 8, 60)}
		})
	}
	put(0, 50)
	dbtest.Builds(t, d, "s", "x", nil)
	put(50, 51)
	ctx, cancel := context.WithCancel(t.Context())
	if steps, err := d.Maintain(ctx, 0, dbtest.Reporting(func(dbtest.Progress) { cancel() })); !errors.Is(err, context.Canceled) || len(steps) != 0 {
		t.Errorf("cancelled: %v, %v", steps, err)
	}
	if steps, err := d.Maintain(t.Context(), 0, nil); err != nil || len(steps) != 1 {
		t.Errorf("after it: %v, %v", steps, err)
	}
	if _, err := d.Maintain(t.Context(), -1, nil); !errors.Is(err, fail.Option) {
		t.Error(err)
	}
}

// TestRelearnOvertaken drops or builds an index while maintenance relearns it: what the program
// did last counts.
func TestRelearnOvertaken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c db.Collection) error
		want   []uint64 // the seeds of the indexes
	}{
		{"drop", func(c db.Collection) error { return c.DropIndex(context.Background(), "x") }, nil},
		{"build", func(c db.Collection) error {
			_, err := c.Build(context.Background(), "x", &index.Forest{Seed: 7}, nil)
			return err
		}, []uint64{7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
			coll, err := d.Create(t.Context(), "c", db.Schema{Dim: 2})
			dbtest.Must(t, err)
			put := func(from, to int) {
				dbtest.Fill(t, d, "c", from, to, func(i int) db.Row {
					return db.Row{Key: fmt.Append(nil, i), Vector: []float32{float32(i % 7), float32(i)}}
				})
			}
			put(0, 40)
			if _, err := coll.Build(t.Context(), "x", nil, nil); err != nil {
				t.Fatal(err)
			}
			put(40, 60)
			var once sync.Once
			run := dbtest.Reporting(func(dbtest.Progress) {
				once.Do(func() {
					if err := c.change(coll); err != nil {
						t.Error(err)
					}
				})
			})
			if steps, err := d.Maintain(t.Context(), 0, run); err != nil || len(steps) > 0 {
				t.Errorf("%+v, %v", steps, err)
			}
			infos, err := coll.Indexes()
			var seeds []uint64
			for _, x := range infos {
				seeds = append(seeds, x.Options.(*index.Forest).Seed)
			}
			if err != nil || !slices.Equal(seeds, c.want) {
				t.Errorf("indexes with seeds %v, %v, want %v", seeds, err, c.want)
			}
		})
	}
}
