package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
)

// The rows of a load, and how many reads and writes it makes in a second: two cores answer them easily.
const (
	loadRows   = 20_000
	loadDim    = 128
	loadReads  = 50
	loadWrites = 50
)

// load reads and writes at a fixed rate, by one gateway.
type load struct {
	b     *bench
	rows  client.Collection
	known [][]float32         // rows that nobody changes
	near  map[string][]string // the nearest of some, by key

	mu            sync.Mutex
	reads, writes sample
	acknowledged  []string
	failures      map[string]bool
	n             int
	counting      bool // requests that are due now are in the samples
}

// sample are the times of requests in a phase, from when they were due. Those that failed are in it as well.
type sample struct {
	times  []time.Duration
	failed int
}

// at returns the time that a share of the requests did not exceed.
func (s *sample) at(share float64) time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	slices.Sort(s.times)
	return s.times[min(int(share*float64(len(s.times))), len(s.times)-1)]
}

// phase is something that happens to the cluster again and again while it is under load. Requests count that
// are due while it happens.
type phase struct {
	name   string
	writes int // a second
	do     func(l *load, ctx context.Context) error
}

// Writes wait while a log has no leader, and a gateway takes 64 at once.
const fewWrites = 5

var phases = []phase{
	{"quiet", loadWrites, nil},
	{"add a replica", loadWrites, (*load).add},
	{"move a replica", loadWrites, (*load).move},
	{"quiet", loadWrites, nil},
	{"split a shard", loadWrites, (*load).split},
	{"quiet", loadWrites, nil},
	{"kill the log's leader", fewWrites, (*load).kill},
	{"pause the log's leader", fewWrites, (*load).pauseLeader},
}

// measure prints how long reads and writes take in each phase, which lasts for the length at least, and
// checks that no acknowledged write is lost and no answer wrong. It compares with all quiet phases before.
func measure(ctx context.Context, o *options) error {
	o.plain, o.mount = true, false
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	end := sync.OnceFunc(b.end)
	defer end()
	l := &load{b: b, near: map[string][]string{}, failures: map[string]bool{}}
	if err := l.fill(ctx); err != nil {
		return err
	}
	var quiet [2]sample
	fmt.Fprintf(o.out, "%-24s %35s %35s\n", "", "reads: p50 p99 max failed", "writes: p50 p99 max failed")
	for _, p := range phases {
		times, err := l.run(ctx, p)
		if err = errors.Join(err, b.failed()); err != nil {
			return fmt.Errorf("%s: %w (logs: %s)", p.name, err, b.folder)
		}
		fmt.Fprintf(o.out, "%-24s", p.name)
		for i := range times {
			s := &times[i]
			if p.do == nil {
				quiet[i].times = append(quiet[i].times, s.times...)
			}
			fmt.Fprintf(o.out, " %7.1f %7.1f %8.1f ms %d of %d, p99 %.1f times",
				ms(s.at(0.5)), ms(s.at(0.99)), ms(s.at(1)),
				s.failed, len(s.times), float64(s.at(0.99))/float64(quiet[i].at(0.99)))
		}
		fmt.Fprintln(o.out)
	}
	if err := errors.Join(l.check(ctx), b.failed()); err != nil {
		return err
	}
	for f := range l.failures {
		fmt.Fprintln(o.out, "failed:", f)
	}
	end()
	return os.RemoveAll(b.folder)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fill stores the rows that nobody changes.
func (l *load) fill(ctx context.Context) error {
	c, err := client.New(l.b.processes[gatewayName(0)].url, &client.Options{Retries: -1})
	if err != nil {
		return err
	}
	if l.rows, err = c.File("main").Create(ctx, "load", db.Schema{Dim: loadDim}); err != nil {
		return err
	}
	rng := l.b.random("load", 0)
	for range loadRows {
		v := make([]float32, loadDim)
		for j := range v {
			v[j] = rng.Float32()
		}
		l.known = append(l.known, v)
	}
	for i := range 100 {
		key := fmt.Sprint("base-", i)
		l.near[key] = l.nearest(l.known[i])
	}
	_, err = l.rows.Load(ctx, func(yield func(db.Row, error) bool) {
		for i, v := range l.known {
			if !yield(db.Row{Key: fmt.Append(nil, "base-", i), Vector: v}, nil) {
				return
			}
		}
	}, nil)
	return err
}

const loadK = 10

// nearest returns the keys of the known rows that are next to a vector.
func (l *load) nearest(q []float32) (keys []string) {
	distance := make([]float64, len(l.known))
	order := make([]int, len(l.known))
	for i, v := range l.known {
		order[i] = i
		for j := range v {
			d := float64(v[j]) - float64(q[j])
			distance[i] += d * d
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	for _, i := range order[:loadK] {
		keys = append(keys, fmt.Sprint("base-", i))
	}
	return keys
}

// run has a phase happen under load, and returns the times of reads and of writes.
func (l *load) run(ctx context.Context, p phase) (times [2]sample, err error) {
	l.reads, l.writes = sample{}, sample{}
	working, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	l.count(p.do == nil)
	begun := time.Now()
	work.Go(func() { l.repeat(ctx, working, loadReads, &l.reads, l.read) })
	work.Go(func() { l.repeat(ctx, working, p.writes, &l.writes, l.write) })
	for p.do != nil && err == nil &&
		(time.Since(begun) < l.b.load || l.few() && time.Since(begun) < 4*l.b.load) {
		err = p.do(l, ctx)
	}
	_ = shardlog.Pause(ctx, l.b.load-time.Since(begun))
	stop()
	work.Wait()
	if errors.Is(err, errNoMore) {
		err = nil
	}
	return [2]sample{l.reads, l.writes}, err
}

// count decides whether requests count.
func (l *load) count(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counting = yes
}

// few reports whether the phase has less than 1,000 reads.
func (l *load) few() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.reads.times) < 1000
}

// during calls f while requests count.
func (l *load) during(f func() error) error {
	l.count(true)
	defer l.count(false)
	return f()
}

// repeat makes requests at a rate until working ends, whether those before have been answered or not.
func (l *load) repeat(
	ctx, working context.Context, rate int, s *sample, do func(context.Context, *rand.Rand) error,
) {
	var requests sync.WaitGroup
	begun := time.Now()
	for i := 0; ; i++ {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if shardlog.Pause(working, time.Until(due)) != nil {
			break
		}
		rng := rand.New(rand.NewPCG(l.b.seed, rand.Uint64()))
		l.mu.Lock()
		counts := l.counting
		l.mu.Unlock()
		requests.Go(func() {
			err := do(ctx, rng)
			l.mu.Lock()
			defer l.mu.Unlock()
			if !counts && err == nil {
				return
			}
			s.times = append(s.times, time.Since(due))
			if err != nil {
				s.failed++
				l.failures[err.Error()] = true
			}
		})
	}
	requests.Wait()
}

// write stores a row that is far from the known ones.
func (l *load) write(ctx context.Context, rng *rand.Rand) error {
	l.mu.Lock()
	l.n++
	key := fmt.Sprint("written-", l.n)
	l.mu.Unlock()
	v := make([]float32, loadDim)
	for j := range v {
		v[j] = 100 + rng.Float32()
	}
	err := l.rows.Put(ctx, db.Row{Key: []byte(key), Vector: v})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.acknowledged = append(l.acknowledged, key)
	}
	return err
}

// read searches the rows that are next to a known one, or gets one that is written.
func (l *load) read(ctx context.Context, rng *rand.Rand) error {
	l.mu.Lock()
	n, key := len(l.acknowledged), ""
	if n > 0 {
		key = l.acknowledged[n-1-rng.IntN(min(n, loadWrites))]
	}
	l.mu.Unlock()
	if n > 0 && rng.IntN(2) == 0 {
		_, err := l.rows.Get(ctx, []byte(key))
		if errors.Is(err, db.ErrNotFound) {
			l.b.fail(fmt.Errorf("row %s, which was acknowledged, is not there", key))
		}
		return err
	}
	i := rng.IntN(len(l.near))
	found, err := l.rows.Search(ctx, db.Query{Vector: l.known[i]}, &db.SearchOptions{K: loadK, Index: db.Flat})
	if err != nil {
		return err
	}
	var keys []string
	for _, h := range found.Hits {
		keys = append(keys, string(h.Key))
	}
	if want := l.near[fmt.Sprint("base-", i)]; !slices.Equal(keys, want) {
		l.b.fail(fmt.Errorf("a search has found %v, want %v", keys, want))
	}
	return nil
}

// check looks for all acknowledged rows.
func (l *load) check(ctx context.Context) error {
	there := map[string]bool{}
	for row, err := range l.rows.Rows(ctx, filter.KeyPrefix([]byte("written-"))) {
		if err != nil {
			return err
		}
		there[string(row.Key)] = true
	}
	for _, key := range l.acknowledged {
		if !there[key] {
			return fmt.Errorf("row %s, which was acknowledged, is lost", key)
		}
	}
	fmt.Fprintf(l.b.out, "all %d acknowledged rows are there\n", len(l.acknowledged))
	return nil
}

// widest returns a shard of the widest range, and a node that does not have it.
func (l *load) widest(ctx context.Context) (s shardlog.Shard, other string, err error) {
	m, err := l.b.log.Map(ctx)
	if err != nil {
		return s, "", err
	}
	s = slices.MaxFunc(m.Shards, func(a, b shardlog.Shard) int {
		return cmp.Compare(a.Last-a.First, b.Last-b.First)
	})
	for i := range l.b.nodes {
		if id := nodeName(i); !s.On(id) {
			other = id
		}
	}
	return s, other, nil
}

// add adds a replica, and removes it.
func (l *load) add(ctx context.Context) error {
	s, to, err := l.widest(ctx)
	if err == nil {
		err = l.during(func() error { return operate.Move(ctx, l.b.log, s.ID, "", to) })
	}
	if err == nil {
		err = operate.Remove(ctx, l.b.log, s.ID, to)
	}
	return errors.Join(err, l.forget(ctx, s.ID, to))
}

// move moves the first replica.
func (l *load) move(ctx context.Context) error {
	s, to, err := l.widest(ctx)
	if err == nil {
		err = l.during(func() error { return operate.Move(ctx, l.b.log, s.ID, s.Replicas[0], to) })
	}
	return errors.Join(err, l.forget(ctx, s.ID, s.Replicas[0]))
}

// forget deletes the file that a node keeps of a shard that has left it, so that it must copy the shard
// again.
func (l *load) forget(ctx context.Context, shard, node string) error {
	return again(ctx, func() error {
		return os.Remove(filepath.Join(l.b.processes[node].files(), shard+".anndb.left"))
	})
}

// errNoMore: a phase ends before its time.
var errNoMore = errors.New("no more")

// split splits a shard, until there are many.
func (l *load) split(ctx context.Context) error {
	m, err := l.b.log.Map(ctx)
	if err != nil {
		return err
	}
	if len(m.Shards) >= 10 {
		return errNoMore
	}
	s, _, err := l.widest(ctx)
	if err == nil {
		err = l.during(func() error { return operate.Split(ctx, l.b.log, s.ID) })
	}
	return err
}

func (l *load) kill(ctx context.Context) error {
	return l.disturb(ctx, l.b.servers.Kill, l.b.servers.Restart)
}

func (l *load) pauseLeader(ctx context.Context) error {
	return l.disturb(ctx, l.b.servers.Pause, l.b.servers.Resume)
}

// disturb has the server that leads the log of a shard end or stop, for longer than the others take to elect
// another.
func (l *load) disturb(ctx context.Context, begin, end func(server int)) error {
	s, _, err := l.widest(ctx)
	if err != nil {
		return err
	}
	leader, err := l.b.leader(ctx, &s)
	if err != nil {
		return err
	}
	var i int
	if _, err = fmt.Sscanf(leader, "s%d", &i); err != nil {
		return err
	}
	err = l.during(func() error {
		begin(i)
		return shardlog.Pause(ctx, 15*time.Second)
	})
	end(i)
	return errors.Join(err, shardlog.Pause(ctx, 5*time.Second))
}
