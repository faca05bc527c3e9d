package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/shardlog"
)

// options are those of a run.
type options struct {
	seed   uint64
	rounds int
	length time.Duration
	nodes  int
	// serverCount is the number of servers of the log.
	serverCount int
	folder      string
	faults      []string // names, empty for all
	race        bool
	other       string        // another version of the program, of half of the nodes and a gateway
	mount       bool          // a node has a disk of its own, if the user may mount one
	plain       bool          // programs are built without patches, which takes less time
	load        time.Duration // of a phase of measure
	out         io.Writer
}

// bench is a cluster with what has been done to it.
type bench struct {
	options
	host      *host
	links     links
	servers   *clustertest.Servers
	log       *shardlog.Cluster
	js        jetstream.JetStream // for what package shardlog does not do
	program   string
	processes map[string]*process
	story     *story
	skipped   map[string]string // faults that are not possible here, with the reason
	damaged   bool              // a log may lack messages from now on
	losing    bool              // it is damaged in this round
	front     string            // what actors use in place of gateways, of a control

	mu      sync.Mutex
	failure error
	said    []string                     // what has happened in the round
	applied map[string]shardlog.Position // by node, its life and shard: the latest that was seen
	first   map[string]use               // of processes, after the first round
	ahead   map[string]bool              // processes whose clocks are wrong
}

const serverPackage = "github.com/nats-io/nats-server/v2"

// start starts a cluster with the rows that nobody changes.
func start(ctx context.Context, o *options) (b *bench, err error) {
	b = &bench{
		options: *o, processes: map[string]*process{}, skipped: map[string]string{},
		applied: map[string]shardlog.Position{}, first: map[string]use{},
		ahead: map[string]bool{}, story: newStory(""),
	}
	b.folder, err = os.MkdirTemp(o.folder, "torture-")
	if err == nil {
		b.folder, err = filepath.Abs(b.folder)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.out, "torture: -seed %d, folder %s\n", b.seed, b.folder)
	b.host = &host{ctx: ctx, folder: b.folder}
	b.mountDisk()
	if b.serverCount == 1 {
		b.skipped["damage-log"] = "there is no other copy"
	}
	for _, f := range faults {
		if b.plain && (f.name == "power" || strings.HasPrefix(f.name, "clock-")) {
			b.skipped[f.name] = "the programs have no patches"
		}
	}
	begun := time.Now()
	var server string
	if server, err = b.build(ctx, "nats-server", serverPackage); err == nil {
		b.program, err = b.build(ctx, "anndb-cluster", "github.com/anndb/anndb/cluster/cmd/anndb-cluster")
	}
	limited, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	if err == nil {
		err = b.startCluster(limited, server)
	}
	if err == nil {
		err = b.fill(limited)
	}
	if err != nil {
		b.end()
		return nil, fmt.Errorf("start of the cluster: %w (logs: %s)", err, b.folder)
	}
	fmt.Fprintf(b.out, "started in %.1f s\n", time.Since(begun).Seconds())
	return b, nil
}

// end ends all processes.
func (b *bench) end() {
	for _, p := range b.processes {
		p.kill()
	}
	for _, f := range slices.Backward(b.host.after) {
		f()
	}
	b.links.close()
}

// fill stores the rows that nobody changes.
func (b *bench) fill(ctx context.Context) error {
	a := b.actor("fill", 0)
	sent := func(method, path string, body any, had string) error {
		return again(ctx, func() error {
			if out := a.do(ctx, method, path, body); out.outcome != done && out.code != had {
				return out.err
			}
			return nil
		})
	}
	err := sent(http.MethodPost, "/v1/files/main/collections",
		map[string]any{"name": "c", "dim": dim, "text": map[string]any{}}, "exists")
	for i := 0; i < baseRows && err == nil; i++ {
		r := baseRow(i)
		err = sent(http.MethodPut, rowPath(r.Key), r, "")
	}
	if err == nil {
		err = sent(http.MethodPost, collection+"/indexes/words", map[string]any{"kind": "postings"}, "")
	}
	return errors.Join(err, b.failed())
}

// fail notes that something is wrong.
func (b *bench) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == nil {
		b.failure = err
	}
}

func (b *bench) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// say notes what has happened in the round.
func (b *bench) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, fmt.Sprintf(format, args...))
}

// random returns the source of random numbers of an actor.
func (b *bench) random(actor string, round int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, actor, "/", round)
	return rand.New(rand.NewPCG(b.seed, h.Sum64()))
}

func (b *bench) actor(name string, round int) *actor {
	return &actor{
		b: b, s: b.story, rng: b.random(name, round), token: newToken(),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
}

// gateway returns the URL of one of the gateways.
func (b *bench) gateway(rng *rand.Rand) string {
	if b.front != "" {
		return b.front
	}
	return b.processes[gatewayName(rng.IntN(gatewayCount))].url
}

// neighbors returns two keys that are in one shard also after several splits.
func (b *bench) neighbors(name string) []string {
	first := name + "-0"
	for i := 1; ; i++ {
		next := fmt.Sprint(name, "-", i)
		if shardlog.Hash([]byte(first))>>56 == shardlog.Hash([]byte(next))>>56 {
			return []string{first, next}
		}
	}
}

// round has actors at work while there are faults, waits until the cluster is quiet, and checks it.
func (b *bench) round(ctx context.Context, n int) error {
	rng := b.random("faults", n)
	chosen := b.choose(rng)
	b.mu.Lock()
	b.said = nil
	b.mu.Unlock()
	before := b.story.counts
	b.story.reads = nil
	logged := !slices.ContainsFunc(chosen, func(f fault) bool { return f.group == "log" })
	b.losing = slices.ContainsFunc(chosen, func(f fault) bool { return f.name == "damage-log" })
	b.damaged = b.damaged || b.losing
	err := b.play(ctx, n, logged, func(ctx context.Context) {
		var all sync.WaitGroup
		for _, f := range chosen {
			own := b.random("fault "+f.name, n)
			all.Go(func() {
				_ = shardlog.Pause(ctx, time.Duration(own.Int64N(int64(b.length/4))))
				limited, cancel := context.WithTimeout(ctx, quietTime)
				defer cancel()
				if err := f.do(b, limited, own); err != nil && ctx.Err() == nil {
					b.fail(fmt.Errorf("%s: %w", f.name, err))
				}
			})
		}
		all.Wait()
	})
	begun := time.Now()
	if err == nil {
		err = b.check(ctx, n)
	}
	s := b.story
	slices.Sort(s.reads)
	times := append(s.reads, 0)
	fmt.Fprintf(b.out, "round %d: %s: ", n, strings.Join(b.said, "; "))
	fmt.Fprintf(b.out, "writes %d done, %d refused, %d unknown; %d reads, p50 %v, p99 %v; %.1f s to check\n",
		s.counts[done]-before[done], s.counts[refused]-before[refused],
		s.counts[unknown]-before[unknown], len(s.reads), times[len(s.reads)/2].Round(time.Millisecond),
		times[len(s.reads)*99/100].Round(time.Millisecond), time.Since(begun).Seconds())
	return err
}

// play has actors at work for the length of a round, and longer if the faults take longer.
func (b *bench) play(ctx context.Context, n int, logged bool, disturb func(ctx context.Context)) error {
	watching, stopWatching := context.WithCancel(ctx)
	working, stop := context.WithCancel(ctx)
	var watchers, actors sync.WaitGroup
	watchers.Go(func() { b.watch(watching) })
	id := 0
	work := func(name string, of func(a *actor) func(context.Context)) {
		id++
		a := b.actor(fmt.Sprint(name, id), n)
		a.id = id
		step := of(a)
		actors.Go(func() {
			defer a.http.CloseIdleConnections()
			for working.Err() == nil && b.failed() == nil {
				step(ctx) // a step is not interrupted at the end of the round
				_ = shardlog.Pause(working, time.Duration(a.rng.IntN(10))*time.Millisecond)
			}
		})
	}
	for range 3 {
		work("writer", func(a *actor) func(context.Context) { return a.writer(n, logged) })
		work("registers", func(a *actor) func(context.Context) {
			a.token = a.s.shared
			return a.registers(n)
		})
	}
	work("pairs", func(a *actor) func(context.Context) { return a.pairs(n) })
	work("search", func(a *actor) func(context.Context) { return a.search })
	end := time.Now().Add(b.length)
	disturb(working)
	for time.Now().Before(end) && b.failed() == nil && shardlog.Pause(working, 20*time.Millisecond) == nil {
		continue
	}
	stop()
	actors.Wait()
	stopWatching()
	watchers.Wait()
	return errors.Join(ctx.Err(), b.failed())
}

// choose chooses one or two faults of different groups.
func (b *bench) choose(rng *rand.Rand) (chosen []fault) {
	var list []fault
	for _, f := range faults {
		if b.skipped[f.name] == "" && (len(b.faults) == 0 || slices.Contains(b.faults, f.name)) {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return nil
	}
	chosen = append(chosen, list[rng.IntN(len(list))])
	second := list[rng.IntN(len(list))]
	alone := chosen[0].group == "log" || second.group == "log" || second.group == chosen[0].group
	if rng.IntN(2) == 0 && !alone {
		chosen = append(chosen, second)
	}
	return chosen
}
