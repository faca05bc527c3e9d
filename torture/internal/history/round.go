// Package history has writers, readers, builds, maintenance and compactions at
// work on one database at the same time, writes down what everybody saw, and
// checks it.
//
// Every writer owns keys, which it alone changes, and a row that counts its
// batches. So the counters in a snapshot say what all owned keys must hold, and
// every snapshot is compared with that. Besides, all writers change a few shared
// keys; what they wrote and what readers read there, with the times, must be
// the history of one register a key (linearizability, checked by porcupine).
package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query"
)

// The cast of a round.
const (
	writers, readers, owned, shared = 4, 3, 12, 6
	dim                             = 8
	coll                            = "c"
)

// Round is one database from its opening to its closing under load.
type Round struct {
	path string
	seed uint64
	d    *db.DB

	acked [writers]atomic.Int64 // batches of a writer that are durable
	start time.Time

	mu      sync.Mutex
	ops     []porcupine.Operation
	states  map[uint64][writers]int // counters by generation
	counts  map[string]int
	failure error
}

// Play plays a round on a new database at path for the given time, closes the
// database while everybody is still at work, and returns what was done.
func Play(ctx context.Context, path string, seed uint64, length time.Duration) (map[string]int, error) {
	r := &Round{path: path, seed: seed, states: map[uint64][writers]int{}, counts: map[string]int{}, start: time.Now()}
	var err error
	if r.d, err = db.Open(ctx, path, &db.Options{MapReserve: 1 << 34, Maintenance: &maintenance.Policy{Every: 20 * time.Millisecond, Share: 0.05, CPU: 0.5}}); err != nil {
		return nil, err
	}
	if err := r.begin(ctx); err != nil {
		return nil, errors.Join(err, r.d.Close())
	}
	var all sync.WaitGroup
	work := func(name string, rest time.Duration, f func(rng *rand.Rand, i int) error) {
		rng := rand.New(rand.NewPCG(seed, uint64(len(name))<<32|uint64(name[len(name)-1])))
		all.Go(func() {
			for i := 0; ; i++ {
				err := f(rng, i)
				switch {
				case errors.Is(err, db.ErrClosed):
					return
				case err != nil:
					r.fail(fmt.Errorf("%s: %w", name, err))
					return
				}
				time.Sleep(rest)
			}
		})
	}
	for w := range writers {
		work(fmt.Sprint("writer ", w), 0, func(rng *rand.Rand, i int) error { return r.write(ctx, w, i+1) })
	}
	for c := range readers {
		work(fmt.Sprint("reader ", c), 0, func(rng *rand.Rand, _ int) error { return r.read(ctx, c, rng) })
	}
	work("builder", 30*time.Millisecond, func(rng *rand.Rand, i int) error {
		if i%5 == 4 {
			err := r.d.Collection(coll).DropIndex(ctx, "x")
			if errors.Is(err, db.ErrNotFound) {
				err = nil
			}
			return err
		}
		o := &index.Forest{Learner: "rp", Trees: 3, Depth: 2, LeafNeighbors: 4, ListNeighbors: 3, NoRotation: true, NoSketches: true, Members: true, NoTune: true, Seed: rng.Uint64()}
		_, err := r.d.Collection(coll).Build(ctx, "x", o, &db.Run{Workers: 1})
		r.count("builds", 1)
		return err
	})
	work("compactor", 100*time.Millisecond, func(*rand.Rand, int) error {
		err := r.d.Compact(ctx, nil)
		r.count("compactions", 1)
		return err
	})
	work("maintainer", 10*time.Millisecond, func(*rand.Rand, int) error {
		steps, err := r.d.Maintain(ctx, 0, &db.Run{Workers: 1})
		r.count("steps of maintenance", len(steps))
		return err
	})
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil && r.failed() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
	closed := r.d.Close()
	all.Wait()
	if err := errors.Join(ctx.Err(), r.failed(), closed); err != nil {
		return r.counts, err
	}
	if err := r.reopened(ctx); err != nil {
		return r.counts, fmt.Errorf("after reopening: %w", err)
	}
	return r.counts, r.linearizable()
}

func (r *Round) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = errors.Join(r.failure, err)
}

func (r *Round) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *Round) count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what] += n
}

// begin writes the rows of no batch: counters at zero, and what makes an index
// worth building.
func (r *Round) begin(ctx context.Context) error {
	_, err := r.d.Create(ctx, coll, db.Schema{Dim: dim})
	if err != nil {
		return err
	}
	return r.d.Update(ctx, func(b *db.Tx) error {
		for w := range writers {
			if err := b.Collection(coll).Put(counter(w, 0)); err != nil {
				return err
			}
		}
		for i := range 40 {
			if err := b.Collection(coll).Put(db.Row{Key: fmt.Appendf(nil, "base-%d", i), Vector: vectorOf(uint64(i))}); err != nil {
				return err
			}
		}
		return nil
	})
}

func vectorOf(seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 17))
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func counter(w, n int) db.Row {
	return db.Row{Key: fmt.Appendf(nil, "counter-%d", w), Vector: make([]float32, dim), Payload: strconv.AppendInt(nil, int64(n), 10)}
}

func ownKey(w, i int) string { return fmt.Sprintf("own-%d-%d", w, i) }

// batch is what a writer's batch n does to its own keys: a value for a put, -1
// for a deletion.
func (r *Round) batch(w, n int) map[string]int {
	rng := rand.New(rand.NewPCG(r.seed, uint64(w)<<40|uint64(n)))
	out := map[string]int{}
	for _, i := range rng.Perm(owned)[:3] {
		out[ownKey(w, i)] = n
		if rng.IntN(4) == 0 {
			out[ownKey(w, i)] = -1
		}
	}
	return out
}

// expected is what all owned keys hold after the writers' numbers of batches.
func (r *Round) expected(after [writers]int, known *[writers]progress) map[string]int {
	out := map[string]int{}
	for w, n := range after {
		p := &known[w]
		if p.state == nil || p.n > n {
			*p = progress{state: map[string]int{}}
		}
		for ; p.n < n; p.n++ {
			for k, v := range r.batch(w, p.n+1) {
				if v < 0 {
					delete(p.state, k)
				} else {
					p.state[k] = v
				}
			}
		}
		for k, v := range p.state {
			out[k] = v
		}
	}
	return out
}

// progress is a writer's state after n batches, so that a reader need not begin
// at the first for every snapshot.
type progress struct {
	n     int
	state map[string]int
}

// register is an operation on a shared key: a write of a value, or a read that
// saw one; 0 stands for no row.
type register struct {
	key   int
	write bool
	value int
}

func (r *Round) note(client int, op register, call, ret time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: register{op.key, op.write, op.value}, Call: int64(call), Output: op.value, Return: int64(ret)})
}

// write is batch n of a writer: its own keys, its counter, and every few batches
// a shared key.
func (r *Round) write(ctx context.Context, w, n int) error {
	op := register{key: n / 4 % shared, write: true, value: n*writers + w + 1}
	if n%16 == 0 {
		op.value = 0 // a deletion
	}
	shares := n%4 == 0
	call := time.Since(r.start)
	err := r.d.Update(ctx, func(b *db.Tx) error {
		for k, v := range r.batch(w, n) {
			var err error
			if v < 0 {
				err = b.Collection(coll).Delete([]byte(k))
			} else {
				err = b.Collection(coll).Put(db.Row{Key: []byte(k), Vector: vectorOf(uint64(v)), Payload: strconv.AppendInt(nil, int64(v), 10)})
			}
			if err != nil {
				return err
			}
		}
		if shares {
			k := fmt.Appendf(nil, "shared-%d", op.key)
			if op.value == 0 {
				if err := b.Collection(coll).Delete(k); err != nil {
					return err
				}
			} else if err := b.Collection(coll).Put(db.Row{Key: k, Vector: vectorOf(1), Payload: strconv.AppendInt(nil, int64(op.value), 10)}); err != nil {
				return err
			}
		}
		return b.Collection(coll).Put(counter(w, n))
	})
	if err == nil {
		r.acked[w].Store(int64(n))
		r.count("batches", 1)
		if shares {
			r.note(w, op, call, time.Since(r.start))
		}
	} else if shares {
		// It may have happened, at any time from now on.
		r.note(w, op, call, 1<<62)
	}
	return err
}

// read takes a snapshot, compares all of it with what must be in it, by rows
// and by searches, and reads a shared key.
func (r *Round) read(ctx context.Context, client int, rng *rand.Rand) error {
	var known [writers]progress
	var least [writers]int64
	for w := range least {
		least[w] = r.acked[w].Load()
	}
	op := register{key: rng.IntN(shared)}
	call := time.Since(r.start)
	s, err := r.d.Snapshot()
	if err != nil {
		return err
	}
	defer s.Release()
	row, err := s.Collection(coll).Get(fmt.Appendf(nil, "shared-%d", op.key))
	if err == nil {
		op.value, err = strconv.Atoi(string(row.Payload))
	} else if errors.Is(err, db.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	r.note(writers+client, op, call, time.Since(r.start))
	for range 2 { // a snapshot stays what it is
		after, err := r.compare(ctx, s, &known, rng)
		if err != nil {
			return err
		}
		for w, n := range after {
			if int64(n) < least[w] {
				return fmt.Errorf("writer %d had %d batches acknowledged, a later snapshot has %d", w, least[w], n)
			}
		}
		if err := r.remember(s.Generation(), after); err != nil {
			return err
		}
	}
	r.count("snapshots", 1)
	return nil
}

// remember notes the counters of a generation, which are the same for everybody
// who sees it.
func (r *Round) remember(generation uint64, after [writers]int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.states[generation]; ok && old != after {
		return fmt.Errorf("generation %d had batches %v and has %v", generation, old, after)
	}
	r.states[generation] = after
	return nil
}

// compare compares a snapshot with what its counters say, and returns them.
func (r *Round) compare(ctx context.Context, s *db.Snapshot, known *[writers]progress, rng *rand.Rand) (after [writers]int, err error) {
	for w := range after {
		row, err := s.Collection(coll).Get(counter(w, 0).Key)
		if err != nil {
			return after, err
		}
		if after[w], err = strconv.Atoi(string(row.Payload)); err != nil {
			return after, err
		}
	}
	want := r.expected(after, known)
	live := map[string][]float32{}
	for row, err := range s.Collection(coll).Rows(context.Background(), nil) {
		if err != nil {
			return after, err
		}
		live[string(row.Key)] = row.Vector
		v, ok := want[string(row.Key)]
		if len(row.Key) < 4 || string(row.Key[:4]) != "own-" {
			continue
		}
		if !ok || string(row.Payload) != strconv.Itoa(v) || !slices.Equal(row.Vector, vectorOf(uint64(v))) {
			return after, fmt.Errorf("batches %v: row %q has payload %q, want %d (%v)", after, row.Key, row.Payload, v, ok)
		}
		delete(want, string(row.Key))
	}
	if len(want) > 0 {
		return after, fmt.Errorf("batches %v: rows %v are missing", after, want)
	}
	return after, r.search(ctx, s, live, vectorOf(rng.Uint64()))
}

// search compares an exact scan with the rows, and asks the index, if there is
// one, for rows that there are.
func (r *Round) search(ctx context.Context, s *db.Snapshot, live map[string][]float32, q []float32) error {
	nearest := func(x []float32) (d float32) {
		for i := range q {
			d += (q[i] - x[i]) * (q[i] - x[i])
		}
		return d
	}
	best := float32(1e30)
	for _, x := range live {
		best = min(best, nearest(x))
	}
	exact, err := s.Collection(coll).Search(ctx, db.Query{Vector: q}, &db.SearchOptions{K: 5, Index: db.Flat})
	if err != nil {
		return err
	}
	hits := exact.Hits
	if d := hits[0].Distance * hits[0].Distance; d < 0.999*best || d > 1.001*best {
		return fmt.Errorf("the nearest row is at %g, found at %g", best, d)
	}
	c, err := s.Collection(coll).Info()
	if err != nil || len(c.Indexes) == 0 {
		return err
	}
	p := query.Params{Method: query.Voting, Votes: 1}
	found, err := s.Collection(coll).Search(ctx, db.Query{Vector: q},
		&db.SearchOptions{K: 5, Index: "x", Params: &p, Reuse: hits})
	if err != nil {
		return err
	}
	for _, h := range found.Hits {
		if live[string(h.Key)] == nil {
			return fmt.Errorf("hit %q is no row of the snapshot", h.Key)
		}
	}
	return nil
}

// reopened looks for what was acknowledged in the file.
func (r *Round) reopened(ctx context.Context) error {
	d, err := db.Open(ctx, r.path, &db.Options{MapReserve: 1 << 34, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	var known [writers]progress
	err = d.View(func(s *db.Snapshot) error {
		after, err := r.compare(ctx, s, &known, rand.New(rand.NewPCG(r.seed, 1)))
		for w, n := range after {
			if least := r.acked[w].Load(); int64(n) < least || int64(n) > least+1 {
				err = errors.Join(err, fmt.Errorf("writer %d had %d batches acknowledged, the file has %d", w, least, n))
			}
		}
		return err
	})
	return errors.Join(err, d.Check(ctx, nil, nil), d.Close())
}

// linearizable checks the histories of the shared keys.
func (r *Round) linearizable() error {
	model := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			if op := input.(register); op.write {
				return true, op.value
			}
			return output.(int) == state.(int), state
		},
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			out := make([][]porcupine.Operation, shared)
			for _, o := range ops {
				k := o.Input.(register).key
				out[k] = append(out[k], o)
			}
			return out
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " ", output) },
	}
	r.counts["register operations"] += len(r.ops)
	switch porcupine.CheckOperationsTimeout(model, r.ops, time.Minute) {
	case porcupine.Illegal:
		return errors.New("what clients saw of a shared key is no history of a register")
	case porcupine.Unknown:
		return errors.New("whether the history of the shared keys is one of registers was not settled within a minute")
	}
	return nil
}
