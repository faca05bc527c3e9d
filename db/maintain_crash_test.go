package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
)

// childMaintain writes batches and maintains the indexes after each, for ever.
func childMaintain(path string) error {
	d, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var last int
	if err := d.View(func(s *Snapshot) (err error) { last, err = lastBatch(s); return err }); err != nil {
		return err
	}
	for i := last + 1; ; i++ {
		if err := putKillBatch(d, i); err != nil {
			return err
		}
		fmt.Printf("batch %d\n", i)
		steps, err := d.Maintain(context.Background(), 0, nil)
		if err != nil {
			return err
		}
		for _, s := range steps {
			fmt.Printf("step %s\n", s.Action)
		}
	}
}

// TestKillMaintain kills a child that maintains its indexes: no acknowledged
// batch is lost, the file is clean, nothing is left behind, and the indexes
// answer.
func TestKillMaintain(t *testing.T) {
	t.Parallel()
	kills := 10
	if testing.Short() {
		kills = 3
	}
	path := filepath.Join(t.TempDir(), "killed.anndb")
	d, err := Open(t.Context(), path, nil)
	must(t, err)
	err = createKilled(d)
	for i := range 30 {
		err = errors.Join(err, putKillBatch(d, i))
	}
	for coll, o := range map[string]IndexOptions{
		"c": &Forest{Learner: "kd", Trees: 4, Depth: 3, LeafNeighbors: 8, ListNeighbors: 4, Coordinates: 8, NoTune: true},
		"s": nil,
	} {
		_, e := d.Collection(coll).Build(t.Context(), "kept", o, nil)
		err = errors.Join(err, e)
	}
	// Every batch has a label of its own.
	for _, kind := range []budget.Kind{budget.AT, budget.PT} {
		o := treesOf(kind, Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}}})
		_, e := d.Collection("s").Build(t.Context(), string(kind), o, nil)
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	acked, steps := 29, map[string]int{}
	// A busy machine may let no child come as far as a step: go on until one does.
	for kill := 0; kill < kills || len(steps) == 0 && kill < 20*kills; kill++ {
		for _, line := range runAndKill(t, "maintain", path, 1500*time.Millisecond) {
			var n int
			if _, err := fmt.Sscanf(line, "batch %d", &n); err == nil {
				acked = n
			} else if action, ok := strings.CutPrefix(line, "step "); ok {
				steps[action]++
			}
		}
		d, err := Open(t.Context(), path, nil)
		must(t, err)
		err = errors.Join(mustCheck(d), mustLeaveNothing(d), d.View(func(s *Snapshot) error {
			last, err := lastBatch(s)
			if err != nil || last < acked || last > acked+1 {
				return fmt.Errorf("last batch %d of %d acknowledged, %w", last, acked, err)
			}
			acked = last
			return errors.Join(mustHoldBatches(s, last), mustAnswer(s))
		}))
		if err = errors.Join(err, d.Close()); err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
	}
	t.Logf("%d batches, steps %v", acked+1, steps)
	d, err = Open(t.Context(), path, &Options{ReadOnly: true})
	must(t, err)
	defer d.Close()
	err = d.View(func(s *Snapshot) error {
		info, err := s.Collection("s").Index("kept")
		if err == nil && info.Maintained.IsZero() {
			err = errors.New("nothing was ever maintained")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// mustAnswer asks the indexes "kept" and exact scans the same.
func mustAnswer(s *Snapshot) error {
	ctx := context.Background()
	for i := range 5 {
		q := modelVector(uint64(i*100), killDim)
		want, _, err1 := nearest(ctx, s.Collection("c"), Query{Vector: q}, 3, &SearchOptions{Index: Flat})
		got, _, err2 := nearest(ctx, s.Collection("c"), Query{Vector: q}, 3, &SearchOptions{Index: "kept", Params: &query.Params{Extra: 28}})
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if got[0].Row != want[0].Row {
			return fmt.Errorf("nearest row is %d by the forest, %d by scan", got[0].Row, want[0].Row)
		}
		var hits [2][]Hit
		sparse := Query{Features: modelNames(modelSparse(uint64(i)))}
		for j, name := range []string{Flat, "kept"} {
			var err error
			if hits[j], _, err = nearest(ctx, s.Collection("s"), sparse, 9, &SearchOptions{Index: name}); err != nil {
				return err
			}
		}
		if !slices.EqualFunc(hits[0], hits[1], func(a, b Hit) bool {
			return a.Row == b.Row && math.Abs(float64(a.Distance-b.Distance)) < 1e-6
		}) {
			return fmt.Errorf("%v by scan, %v by the inverted index", hits[0], hits[1])
		}
	}
	return nil
}

// TestQueriesDuringMaintenance searches and writes while indexes are maintained
// again and again: every answer has the row that was asked for, by the index,
// and no query waits for a step.
func TestQueriesDuringMaintenance(t *testing.T) {
	t.Parallel()
	const n, dim = 600, 24
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "db"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	if _, err := d.Create(ctx, "c", Schema{Dim: dim}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	rows := make([][]float32, n+400)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64())
		}
	}
	var written atomic.Int64
	put := func(to int) error {
		from := int(written.Load())
		err := d.Update(ctx, func(b *Tx) error {
			for i := from; i < to; i++ {
				if err := b.Collection("c").Put(Row{Key: fmt.Append(nil, i), Vector: rows[i]}); err != nil {
					return err
				}
			}
			return nil
		})
		written.Store(int64(to))
		return err
	}
	must(t, put(n))
	if _, err := d.Collection("c").Build(ctx, "x", &Forest{NoTune: true, Trees: 6, LeafNeighbors: 10}, nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	errs := make(chan error, 4)
	var wg sync.WaitGroup
	var asked atomic.Int64
	for w := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var dst []Hit
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := r.IntN(int(written.Load()))
				err := d.View(func(s *Snapshot) (err error) {
					dst, _, err = nearestInto(ctx, s.Collection("c"), Query{Vector: rows[i]}, 1, &SearchOptions{Params: &query.Params{Sketch: true, Hops: 1}}, dst[:0])
					if err == nil && string(dst[0].Key) != fmt.Sprint(i) {
						err = fmt.Errorf("row %d: the nearest is %s at %v", i, dst[0].Key, dst[0].Distance)
					}
					return err
				})
				if err != nil {
					errs <- err
					return
				}
				asked.Add(1)
			}
		})
	}
	steps := 0
	for to := n + 10; to <= len(rows) && err == nil; to += 10 {
		if err = put(to); err == nil {
			var done []MaintainStep
			done, err = d.Maintain(ctx, 0, &Run{Workers: 1})
			steps += len(done)
		}
	}
	close(stop)
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, mustCheck(d)); err != nil {
		t.Error(err)
	}
	if steps < 30 || asked.Load() == 0 {
		t.Errorf("%d steps, %d queries", steps, asked.Load())
	}
	// A query is answered while a step is being written: the writer's lock is
	// nothing that it needs.
	defer holdWriter(d)()
	err = d.View(func(s *Snapshot) error {
		_, _, err := nearest(ctx, s.Collection("c"), Query{Vector: rows[0]}, 1, &SearchOptions{Params: &query.Params{}})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
