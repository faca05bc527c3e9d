// Package soak is a day of service in half an hour: a database under queries,
// puts, updates, deletions, snapshots, background maintenance, backups,
// compactions, checks and reopenings, and what it takes of the machine
// meanwhile.
//
// A day is counted in operations, not in time: that of a service with two
// queries a second and a batch of eight changes every five. Each of its 1,440
// minutes has 120 queries, 12 batches, and a snapshot that is held for half of
// it; every hour a backup that is checked and compared, every second hour a
// compaction, every sixth a check of the whole file, and the database is closed
// and opened again. In the course of the day a row is changed 20 times.
package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// The operations of a minute, and after how many minutes the rare ones come.
const (
	queries, batches, changes               = 120, 12, 8
	backupEvery, compactEvery, reopenEvery  = 60, 120, 360
	denseKeys, denseDim                     = 4000, 64
	termKeys, termsOfRow, termsOfCollection = 2500, 20, 2000
)

// Day is a day under way.
type Day struct {
	// Minutes is how many minutes the day has, Pace how long one of them takes
	// by the clock at least; a busy machine may take longer.
	Minutes int
	Pace    time.Duration
	// Sampled is called from another goroutine, with what the process takes.
	Sampled func(Sample)

	path string
	d    *db.DB
	rng  *rand.Rand
	rows map[string]uint64 // what the database must hold: the seed of every row

	mu      sync.Mutex
	done    map[string]int
	minute  int
	latency []time.Duration // since the last sample
}

// New begins a day with an empty database.
func New(path string, seed uint64) *Day {
	return &Day{path: path, rng: rand.New(rand.NewPCG(seed, 24)), rows: map[string]uint64{}, done: map[string]int{}}
}

// Counts are the operations done so far, by name.
func (y *Day) Counts() map[string]int {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := map[string]int{}
	for k, n := range y.done {
		out[k] = n
	}
	return out
}

func (y *Day) count(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.done[what] += n
}

// options maintain in the background, on half a processor.
func (y *Day) options() *db.Options {
	return &db.Options{Maintenance: &maintenance.Policy{Every: time.Second, Share: 0.05, CPU: 0.5}}
}

// Run is the whole day.
func (y *Day) Run(ctx context.Context) (err error) {
	if y.d, err = db.Open(ctx, y.path, y.options()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.d.Close()) }()
	if err := y.begin(ctx); err != nil {
		return err
	}
	stop := y.watch()
	defer stop()
	for y.minute < y.Minutes && ctx.Err() == nil {
		start := time.Now()
		if err := y.oneMinute(ctx); err != nil {
			return fmt.Errorf("minute %d: %w", y.minute, err)
		}
		y.mu.Lock()
		y.minute++
		y.mu.Unlock()
		time.Sleep(y.Pace - time.Since(start))
	}
	return ctx.Err()
}

// begin fills the collections and builds the indexes.
func (y *Day) begin(ctx context.Context) error {
	if _, err := y.d.Create(ctx, "dense", db.Schema{Dim: denseDim}); err != nil {
		return err
	}
	if _, err := y.d.Create(ctx, "terms", db.Schema{Sparse: true}); err != nil {
		return err
	}
	err := y.d.Update(ctx, func(b *db.Tx) error {
		for i := range denseKeys {
			if err := y.put(b, "dense", i); err != nil {
				return err
			}
		}
		for i := range termKeys {
			if err := y.put(b, "terms", i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range []struct {
		coll, name string
		o          index.Options
	}{
		{"dense", "forest", &index.Forest{Trees: 6, LeafNeighbors: 20, ListNeighbors: 16, Coordinates: 16, NoTune: true}},
		{"terms", "rows", &index.Postings{}},
		{"terms", "labels", &index.LCIF{Params: &lcif.Params{K: 10, Lambda: 0.7}}},
		{"terms", "tree", &index.Trees{Kind: "at", Params: budget.Params{BAC: budget.BACParams{Budget: 5, Rounds: 3, Iterations: 100}}}},
	} {
		if _, err := y.d.Collection(x.coll).Build(ctx, x.name, x.o, &db.Run{Workers: 1}); err != nil {
			return err
		}
	}
	return nil
}

// row is the row of a seed.
func row(coll string, key []byte, seed uint64) db.Row {
	rng := rand.New(rand.NewPCG(seed, 3))
	r := db.Row{Key: key, Labels: []string{fmt.Sprint("label-", rng.IntN(12))}, Payload: make([]byte, rng.IntN(120))}
	for i := range r.Payload {
		r.Payload[i] = byte(rng.Uint32())
	}
	topic := rng.IntN(25)
	if coll == "dense" {
		r.Vector = make([]float32, denseDim)
		at := rand.New(rand.NewPCG(uint64(topic), 4))
		for i := range r.Vector {
			r.Vector[i] = float32(30*at.NormFloat64() + 8*rng.NormFloat64())
		}
		return r
	}
	r.Sparse = terms(rng, topic)
	return r
}

// terms draws a sparse row, half of it from the words of a topic.
func terms(rng *rand.Rand, topic int) (s vector.Sparse) {
	seen := map[uint32]bool{}
	for range termsOfRow {
		f := rng.IntN(termsOfCollection)
		if rng.IntN(2) == 0 {
			f = topic*60 + rng.IntN(60)
		}
		seen[uint32(f)] = true
	}
	for f := range seen {
		s.Index = append(s.Index, f)
	}
	slices.Sort(s.Index)
	for range s.Index {
		s.Value = append(s.Value, float32(1+rng.IntN(5)))
	}
	return s
}

func key(coll string, i int) []byte { return fmt.Appendf(nil, "%s/%05d", coll, i) }

func (y *Day) put(b *db.Tx, coll string, i int) error {
	k, seed := key(coll, i), y.rng.Uint64()
	y.rows[string(k)] = seed
	return b.Collection(coll).Put(row(coll, k, seed))
}

// write is a batch of changes: three of four put a row of a random key, new or
// there already, the others delete one.
func (y *Day) write(ctx context.Context) error {
	return y.d.Update(ctx, func(b *db.Tx) error {
		seen := map[string]bool{}
		for len(seen) < changes {
			coll, n := "dense", denseKeys
			if y.rng.IntN(3) == 0 {
				coll, n = "terms", termKeys
			}
			i := y.rng.IntN(n)
			k := key(coll, i)
			if seen[string(k)] {
				continue
			}
			seen[string(k)] = true
			var err error
			if y.rng.IntN(4) == 0 {
				delete(y.rows, string(k))
				err = b.Collection(coll).Delete(k)
			} else {
				err = y.put(b, coll, i)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// oneMinute does what a minute has. Queries go on beside the batches.
func (y *Day) oneMinute(ctx context.Context) error {
	held, err := y.d.Snapshot()
	if err != nil {
		return err
	}
	n, err := held.Collection("dense").Count(ctx, nil)
	asked := make(chan error, 1)
	seed := y.rng.Uint64()
	go func() { asked <- y.ask(ctx, seed) }()
	for i := 0; i < batches && err == nil; i++ {
		err = y.write(ctx)
		if i == batches/2 {
			if again, e := held.Collection("dense").Count(ctx, nil); e != nil || again != n {
				err = errors.Join(err, fmt.Errorf("a held snapshot had %d rows and has %d: %w", n, again, e))
			}
			held.Release()
		}
	}
	held.Release()
	if err = errors.Join(err, <-asked); err != nil {
		return err
	}
	y.count("batches", batches)
	y.count("changes", batches*changes)
	y.count("snapshots held", 1)
	at := y.minute + 1
	if at%backupEvery == 0 {
		if err := y.backup(ctx); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	if at%compactEvery == 0 {
		if err := y.d.Compact(ctx, nil); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		y.count("compactions", 1)
	}
	if at%reopenEvery == 0 {
		return y.reopen(ctx)
	}
	return nil
}

// ask asks a minute's queries, by all indexes in turn.
func (y *Day) ask(ctx context.Context, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 6))
	p := query.Params{Tau: 0.02, Sketch: true}
	for i := range queries {
		start := time.Now()
		err := y.d.View(func(s *db.Snapshot) error {
			r := row([]string{"dense", "dense", "terms"}[i%3], nil, rng.Uint64())
			if r.Vector != nil {
				o := db.SearchOptions{Index: "forest", Params: &p}
				if i%60 == 0 {
					o = db.SearchOptions{Index: db.Flat}
				}
				found, err := s.Collection("dense").Search(ctx, db.Query{Vector: r.Vector}, &o)
				if err == nil && len(found.Hits) != 10 {
					err = fmt.Errorf("%d hits", len(found.Hits))
				}
				return err
			}
			q := db.Query{Sparse: r.Sparse}
			switch i % 9 {
			case 2:
				_, err := s.Collection("terms").Search(ctx, q, &db.SearchOptions{Index: "rows"})
				return err
			case 5:
				_, err := s.Collection("terms").Predict(ctx, q, &db.PredictOptions{Index: "labels"})
				return err
			}
			_, err := s.Collection("terms").Predict(ctx, q, &db.PredictOptions{Index: "tree"})
			return err
		})
		if err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
		y.mu.Lock()
		y.latency = append(y.latency, time.Since(start))
		y.mu.Unlock()
	}
	y.count("queries", queries)
	return nil
}

// compare compares all rows with what was written.
func (y *Day) compare(d *db.DB) error {
	return d.View(func(s *db.Snapshot) error {
		n := 0
		for _, coll := range []string{"dense", "terms"} {
			for r, err := range s.Collection(coll).Rows(context.Background(), nil) {
				if err != nil {
					return err
				}
				seed, ok := y.rows[string(r.Key)]
				want := row(coll, r.Key, seed)
				if !ok || !slices.Equal(r.Vector, want.Vector) || !slices.Equal(r.Sparse.Index, want.Sparse.Index) ||
					!slices.Equal(r.Sparse.Value, want.Sparse.Value) || !slices.Equal(r.Labels, want.Labels) || !bytes.Equal(r.Payload, want.Payload) {
					return fmt.Errorf("row %q is not what was written", r.Key)
				}
				n++
			}
		}
		if n != len(y.rows) {
			return fmt.Errorf("%d rows, %d were written", n, len(y.rows))
		}
		return nil
	})
}

// backup writes a copy, checks and compares it, and removes it.
func (y *Day) backup(ctx context.Context) (err error) {
	name := y.path + ".copy"
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = y.d.Backup(ctx, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	d, err := db.Open(ctx, name, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	y.count("backups", 1)
	return errors.Join(d.Check(ctx, nil, nil), y.compare(d), d.Close())
}

// reopen checks the file, closes it and opens it again.
func (y *Day) reopen(ctx context.Context) (err error) {
	if err := errors.Join(y.d.Check(ctx, nil, nil), y.compare(y.d), y.d.Close()); err != nil {
		return err
	}
	d, err := db.Open(ctx, y.path, y.options())
	if err != nil {
		return err
	}
	y.mu.Lock()
	y.d = d
	y.mu.Unlock()
	y.count("reopenings", 1)
	return y.compare(d)
}
