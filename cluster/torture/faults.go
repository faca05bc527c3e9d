package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
)

// fault is something that happens to the cluster. It is over when do returns.
type fault struct {
	name, group, doc string
	do               func(b *bench, ctx context.Context, rng *rand.Rand) error
}

// faults are all faults. Two of a round are of different groups.
var faults []fault

func init() { // the functions refer to the list
	for _, kind := range []string{"node", "server", "gateway"} {
		for _, verb := range []string{"kill", "pause", "cut", "delay", "clock"} {
			faults = append(faults, fault{verb + "-" + kind, kind, "a " + kind + ": " + verbs[verb],
				func(b *bench, ctx context.Context, rng *rand.Rand) error { return b.disturb(ctx, kind, verb, rng) }})
		}
	}
	faults = append(faults, []fault{
		{"power", "server", "all servers of the log lose what they have not synced", (*bench).losePower},
		{"kill-all", "server", "all servers of the log and all nodes are killed at once", (*bench).killAll},
		{"delete-folder", "disk", "a node loses its folder", (*bench).deleteFolder},
		{"damage-file", "disk", "the file of a shard on a node is damaged, anywhere or in an index",
			of((*bench).damageFile)},
		{"damage-snapshot", "disk", "a snapshot is damaged, a node loses its folder", of((*bench).damageSnapshot)},
		{"delete-snapshots", "disk", "all are deleted, a node loses its folder", of((*bench).deleteSnapshots)},
		{"full-disk", "disk", "the disk of a node is full for a time", (*bench).fillDisk},
		{"move", "map", "another node gets a replica", of((*bench).moveReplica)},
		{"split", "map", "a shard is split", of((*bench).splitShard)},
		{"lose-log", "log", "the log of a shard is deleted, and the shard recovered", of((*bench).loseLog)},
		{"damage-log", "log", "a server's copy of a log is damaged", of((*bench).damageLog)},
	}...)
}

// verbs are what may happen to any process.
var verbs = map[string]string{
	"kill":  "it is killed, and started later",
	"pause": "it stops for a time",
	"cut":   "its connections are closed, or silent",
	"delay": "its connections are slow",
	"clock": "it is killed, and started with a clock that is an hour ahead, or right again",
}

// hold returns how long a fault lasts: sometimes longer than leases and the patience of clients.
func (b *bench) hold(rng *rand.Rand) time.Duration {
	if rng.IntN(4) == 0 {
		return 3 * b.length
	}
	return b.length/4 + time.Duration(rng.Int64N(int64(b.length/2)))
}

// disturb does something to a process of a kind for a time.
func (b *bench) disturb(ctx context.Context, kind, verb string, rng *rand.Rand) error {
	name := b.pick(ctx, kind, rng)
	var begin, end func()
	p := b.processes[name]
	switch {
	case verb == "cut" || verb == "delay":
		var s state
		if verb == "delay" {
			s.delay = time.Duration(5+rng.IntN(300)) * time.Millisecond
		} else {
			s.silent = rng.IntN(2) == 0
			s.refuse = !s.silent
		}
		verb = fmt.Sprintf("%s %+v", verb, s)
		begin, end = func() { b.links.set(name, s) }, func() { b.links.set(name, state{}) }
	case p == nil:
		var i int
		_, _ = fmt.Sscanf(name, "s%d", &i)
		begin, end = func() { b.servers.Pause(i) }, func() { b.servers.Resume(i) }
		if verb != "pause" {
			begin, end = func() { b.servers.Kill(i) }, func() { b.servers.Restart(i) }
		}
		if verb == "clock" {
			b.servers.Configure(i, "always", b.turnClock(name))
		}
	case verb == "clock":
		begin, end = p.kill, p.start
		p.mu.Lock()
		p.env = b.turnClock(name)
		p.mu.Unlock()
	case verb == "kill":
		begin, end = p.kill, p.start
	default:
		begin, end = func() { p.signal(syscall.SIGSTOP) }, func() { p.signal(syscall.SIGCONT) }
	}
	b.say("%s %s", verb, name)
	begin()
	_ = shardlog.Pause(ctx, b.hold(rng))
	end()
	return nil
}

// turnClock sets the clock of a process an hour ahead, or right again, and returns the variable that does it.
func (b *bench) turnClock(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead[name] = !b.ahead[name]
	if !b.ahead[name] {
		return aheadVariable + "=0"
	}
	return aheadVariable + "=3600"
}

// losePower has all servers of the log lose what they have not synced. Nodes are cut off before, so that
// the end of the logs is nowhere else.
func (b *bench) losePower(ctx context.Context, rng *rand.Rand) error {
	for i := range b.nodes {
		b.links.setFrom(nodeName(i), state{silent: true})
	}
	a, logged := b.actor("power", 0), 0
	defer a.http.CloseIdleConnections()
	for end := time.Now().Add(b.hold(rng) / 2); time.Now().Before(end); {
		value := a.s.next()
		key := fmt.Sprint(a.s.prefix, "power-", value)
		out := a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"), gateway.Acknowledge, "logged")
		if a.s.wrote(&out, value, key); out.outcome == done {
			logged++
		}
		_ = shardlog.Pause(ctx, 10*time.Millisecond)
	}
	b.say("the servers lose their power, after %d writes that only they have", logged)
	var err error
	for i := range b.serverCount {
		b.servers.Kill(i)
	}
	for i := range b.serverCount {
		err = errors.Join(err, cutUnsynced(b.servers.Store(i)))
		b.servers.Restart(i)
	}
	for i := range b.nodes {
		b.links.setFrom(nodeName(i), state{})
	}
	return err
}

// pick returns the name of a process of a kind: of servers in half of the cases one that leads the log of a
// shard.
func (b *bench) pick(ctx context.Context, kind string, rng *rand.Rand) string {
	switch kind {
	case "node":
		return nodeName(rng.IntN(b.nodes))
	case "gateway":
		return gatewayName(rng.IntN(gatewayCount))
	}
	name := serverName(rng.IntN(b.serverCount))
	if rng.IntN(2) == 0 {
		return name
	}
	if s, err := b.shard(ctx, rng); err == nil {
		if leader, err := b.leader(ctx, &s); err == nil {
			return leader
		}
	}
	return name
}

// leader returns the server that leads the log of a shard.
func (b *bench) leader(ctx context.Context, s *shardlog.Shard) (string, error) {
	stream, err := b.js.Stream(ctx, streamName(s))
	if err != nil {
		return "", err
	}
	if c := stream.CachedInfo().Cluster; c != nil && c.Leader != "" {
		return c.Leader, nil
	}
	return "", fmt.Errorf("%s has no leader", streamName(s))
}

// streamName returns the name of the log of a shard on the servers.
func streamName(s *shardlog.Shard) string { return fmt.Sprintf("anndb_main_%s_%d", s.ID, s.Epoch) }

func (b *bench) killAll(ctx context.Context, rng *rand.Rand) error {
	b.say("kill all servers and nodes")
	for i := range b.serverCount {
		b.servers.Kill(i)
	}
	for i := range b.nodes {
		b.processes[nodeName(i)].kill()
	}
	_ = shardlog.Pause(ctx, b.hold(rng)/4)
	for i := range b.serverCount {
		b.servers.Restart(i)
	}
	for i := range b.nodes {
		b.processes[nodeName(i)].start()
	}
	return nil
}

// shard returns a shard that is not being split.
func (b *bench) shard(ctx context.Context, rng *rand.Rand) (s shardlog.Shard, err error) {
	err = again(ctx, func() error {
		m, err := b.log.Map(ctx)
		if err == nil {
			s = m.Shards[rng.IntN(len(m.Shards))]
		}
		return err
	})
	return s, err
}

// of returns a fault of a shard.
func of(do func(*bench, context.Context, *rand.Rand, shardlog.Shard) error) func(*bench, context.Context,
	*rand.Rand) error {
	return func(b *bench, ctx context.Context, rng *rand.Rand) error {
		s, err := b.shard(ctx, rng)
		if err != nil {
			return err
		}
		return do(b, ctx, rng, s)
	}
}

// while kills a process, calls f after a time, and starts it.
func (p *process) while(ctx context.Context, d time.Duration, f func() error) error {
	p.kill()
	defer p.start()
	_ = shardlog.Pause(ctx, d)
	return f()
}

// lose has a node lose its files.
func (b *bench) lose(ctx context.Context, p *process, rng *rand.Rand) error {
	b.say("delete the folder of %s", p.name)
	return p.while(ctx, b.hold(rng)/2, func() error {
		b.reborn(p)
		list, err := os.ReadDir(p.files()) // the folder may be a disk of its own
		for _, e := range list {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.files(), e.Name())))
		}
		return err
	})
}

func (b *bench) deleteFolder(ctx context.Context, rng *rand.Rand) error {
	return b.lose(ctx, b.processes[nodeName(rng.IntN(b.nodes))], rng)
}

func (b *bench) damageFile(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	p := b.processes[s.Replicas[rng.IntN(len(s.Replicas))]]
	return p.while(ctx, b.hold(rng)/2, func() error {
		b.reborn(p)
		path := filepath.Join(p.files(), s.ID+".anndb")
		kinds := []uint16{0, 1, 3, 5, 18, 19, 19} // of blocks (codec/FORMAT.md): of rows, and of an index
		rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, kind := range kinds { // the first that the file has; all have what is without a kind
			n, err := 1, error(nil)
			if kind == 0 {
				err = overwrite(path)
			} else {
				n, err = clustertest.DamageBlocks(path, kind)
			}
			if errors.Is(err, os.ErrNotExist) { // a part of a split, or it is restored
				return nil
			}
			if err != nil || n > 0 {
				b.say("damage the file of shard %s on %s, %d blocks of kind %d", s.ID, p.name, n, kind)
				return err
			}
		}
		return nil
	})
}

// overwrite damages what a file begins with.
func overwrite(path string) error {
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = w.WriteAt(make([]byte, 20_000), 100)
	return errors.Join(err, w.Close())
}

// snapshots has two snapshots of a shard stored, so that the log is cut, and returns them.
func (b *bench) snapshots(ctx context.Context, s *shardlog.Shard) (list []shardlog.Snapshot, err error) {
	for i := 0; i < 2 && err == nil; i++ {
		err = again(ctx, func() error {
			m, err := b.log.Map(ctx)
			if err != nil {
				return err
			}
			now := m.Shard(s.ID)
			if now == nil || len(m.Splits) > 0 {
				return nil // it is being split
			}
			failed := errors.New("no replica")
			for _, id := range now.Replicas {
				if failed = b.storeSnapshot(ctx, id, s.ID); failed == nil {
					break
				}
			}
			return failed
		})
		_ = shardlog.Pause(ctx, b.length/10)
	}
	if err != nil {
		return nil, err
	}
	return list, again(ctx, func() (err error) {
		list, err = b.log.Snapshots(ctx, s.ID)
		return err
	})
}

func (b *bench) storeSnapshot(ctx context.Context, node, shard string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	url := "http://" + b.processes[node].address + "/cluster/snapshot?shard=" + shard
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	res, err := direct.Do(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("snapshot of shard %s on %s: %s", shard, node, res.Status)
	}
	return nil
}

func (b *bench) damageSnapshot(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	list, err := b.snapshots(ctx, &s)
	if err != nil || len(list) < 2 {
		return err // it has been split
	}
	b.say("damage snapshot %s %d", s.ID, list[0].Sequence)
	err = clustertest.DamageSnapshot(ctx, b.js, "main", &list[0])
	if err != nil {
		b.say("which has failed: %v", err) // with another fault at the same time
	}
	return b.lose(ctx, b.processes[s.Replicas[rng.IntN(len(s.Replicas))]], rng)
}

func (b *bench) deleteSnapshots(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	list, err := b.snapshots(ctx, &s)
	if err != nil {
		return err
	}
	b.say("delete %d snapshots of shard %s, and all others", len(list), s.ID)
	if err := again(ctx, func() error {
		err := b.js.DeleteObjectStore(ctx, "anndb_main_snapshots")
		if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return b.lose(ctx, b.processes[s.Replicas[rng.IntN(len(s.Replicas))]], rng)
}

// diskSize is that of a disk that can be full.
const diskSize = "256m"

// mountDisk gives the last node a disk of its own.
func (b *bench) mountDisk() {
	reason := "not asked for"
	if b.mount {
		folder := filepath.Join(b.folder, nodeName(b.nodes-1), "files")
		command := fmt.Sprintf("mkdir -p %q && mount -t tmpfs -o size=%s torture %q", folder, diskSize, folder)
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err == nil {
			b.host.Cleanup(func() { _ = exec.Command("umount", folder).Run() })
			return
		}
		reason = strings.TrimSpace(string(out))
	}
	b.skipped["full-disk"] = reason
	fmt.Fprintln(b.out, "SKIPPED fault full-disk:", reason)
}

func (b *bench) fillDisk(ctx context.Context, rng *rand.Rand) error {
	p := b.processes[nodeName(b.nodes-1)]
	path := filepath.Join(p.files(), "filler")
	b.say("fill the disk of %s", p.name)
	if err := exec.Command("dd", "if=/dev/zero", "of="+path, "bs=4096").Run(); err == nil {
		return errors.New("it is not full")
	}
	_ = shardlog.Pause(ctx, b.hold(rng))
	return os.Remove(path)
}

func (b *bench) moveReplica(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	from := s.Replicas[rng.IntN(len(s.Replicas))]
	to := ""
	for i := range b.nodes {
		if id := nodeName(i); !s.On(id) {
			to = id
		}
	}
	if to == "" {
		return nil // each node has it
	}
	b.say("move shard %s from %s to %s", s.ID, from, to)
	return again(ctx, func() error {
		m, err := b.log.Map(ctx)
		if err != nil {
			return err
		}
		now := m.Shard(s.ID)
		if now == nil || slices.Contains(now.Replicas, to) && !slices.Contains(now.Replicas, from) {
			return nil
		}
		return operate.Move(ctx, b.log, s.ID, from, to)
	})
}

// mostShards bounds the splits.
const mostShards = 5

func (b *bench) splitShard(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	return again(ctx, func() error {
		m, err := b.log.Map(ctx)
		if err != nil || m.Shard(s.ID) == nil || len(m.Shards) == mostShards && len(m.Splits) == 0 {
			return err
		}
		b.say("split shard %s", s.ID)
		return operate.Split(ctx, b.log, s.ID)
	})
}

// damageLog overwrites a part of a server's copy of a log while that is down. The others have it, but if the
// damaged one becomes the leader, the log may lack messages: nodes say so.
func (b *bench) damageLog(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	i := rng.IntN(b.serverCount)
	b.servers.Kill(i)
	defer b.servers.Restart(i)
	_ = shardlog.Pause(ctx, b.hold(rng)/4)
	stream := streamName(&s)
	blocks, err := filepath.Glob(filepath.Join(b.servers.Store(i), "jetstream/A/streams", stream, "msgs/*.blk"))
	if err != nil || len(blocks) == 0 {
		return fmt.Errorf("no blocks of %s: %w", stream, err)
	}
	w, err := os.OpenFile(blocks[rng.IntN(len(blocks))], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := w.Stat()
	if err != nil {
		return err
	}
	at := rng.Int64N(max(1, info.Size()-100))
	b.say("damage the log of shard %s on %s, 100 of %d bytes at %d", s.ID, serverName(i), info.Size(), at)
	_, err = w.WriteAt(make([]byte, 100), at)
	return errors.Join(err, w.Close())
}

// recoverLost gives shards new logs whose replicas say that theirs are lost.
func (b *bench) recoverLost(ctx context.Context) error {
	m, err := b.log.Map(ctx)
	if err != nil {
		return err
	}
	nodes, err := b.log.Nodes(ctx)
	for _, n := range nodes {
		for id, st := range n.Shards {
			if st.Lost && m.Shard(id) != nil {
				b.say("recover shard %s", id)
				err = errors.Join(err, operate.Recover(ctx, b.log, id))
			}
		}
	}
	return err
}

func (b *bench) loseLog(ctx context.Context, rng *rand.Rand, s shardlog.Shard) error {
	down := ""
	if rng.IntN(2) == 0 { // it has less than the others, and its log is lost
		down = s.Replicas[rng.IntN(len(s.Replicas))]
		b.processes[down].kill()
		defer b.processes[down].start()
		_ = shardlog.Pause(ctx, b.hold(rng)/4)
	}
	b.say("lose the log of shard %s, epoch %d, while %q is down", s.ID, s.Epoch, down)
	if err := b.log.DeleteLog(ctx, &s); err != nil {
		return err
	}
	_ = shardlog.Pause(ctx, b.hold(rng)/2)
	return again(ctx, func() error {
		m, err := b.log.Map(ctx)
		if err != nil || m.Shard(s.ID).Epoch > s.Epoch {
			return err
		}
		nodes, err := b.log.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes { // all, since reads may have seen what a minority has
			if n.ID != down && slices.Contains(s.Replicas, n.ID) && !n.Shards[s.ID].Lost {
				return fmt.Errorf("node %s has not seen it", n.ID)
			}
		}
		return operate.Recover(ctx, b.log, s.ID)
	})
}
