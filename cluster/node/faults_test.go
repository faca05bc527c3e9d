package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/text"
)

// read reads the map, until the servers answer.
func (ns *nodes) read(ctx context.Context) shardlog.Map {
	ns.t.Helper()
	for {
		m, err := ns.c.Map(ctx)
		if err == nil {
			return m
		}
		if ctx.Err() != nil {
			ns.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fill publishes n rows to their shards, several at a time, and waits until they are applied.
func (ns *nodes) fill(ctx context.Context, want map[string]string, prefix string, n int) {
	ns.t.Helper()
	m := ns.read(ctx)
	var mu sync.Mutex
	last := map[string]uint64{}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < n; i += 8 {
				key := fmt.Sprint(prefix, i)
				s := m.Find([]byte(key))
				sequence, err := ns.publish(ctx, s, key, transaction(putRow(key, i, n)))
				if err != nil {
					ns.t.Errorf("%s: %v", key, err)
					return
				}
				mu.Lock()
				want[key] = fmt.Sprintf("[%d %d]", i, n)
				last[s.ID] = max(last[s.ID], sequence)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	for id, sequence := range last {
		if _, err := ns.applied(ctx, m.Shard(id), sequence); err != nil {
			ns.t.Fatal(err)
		}
	}
}

// same compares the rows of all replicas with what was written.
func (ns *nodes) same(ctx context.Context, want map[string]string) {
	ns.t.Helper()
	if got := ns.equal(ctx); !maps.Equal(got, want) {
		for key := range want {
			if got[key] != want[key] {
				ns.t.Errorf("row %s is %q, want %q", key, got[key], want[key])
				break
			}
		}
		ns.t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// status waits until what a node says about a shard fulfils a condition.
func (ns *nodes) status(ctx context.Context, id, shard string,
	ok func(shardlog.Status) bool) shardlog.Status {
	ns.t.Helper()
	for {
		var info shardlog.NodeInfo
		err := ns.get(ctx, id, "/cluster/status", &info)
		if err == nil && ok(info.Shards[shard]) {
			return info.Shards[shard]
		}
		if ctx.Err() != nil {
			ns.t.Fatalf("node %s, shard %s: %+v, %v", id, shard, info.Shards[shard], err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func following(s shardlog.Status) bool { return s.State == shardlog.Following }

// TestSnapshots deletes the folder of a node, which then begins with the newest snapshot that is not damaged.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 2)
	ns.all(ctx, create)
	want := map[string]string{}
	for i := range 3 {
		ns.fill(ctx, want, fmt.Sprint("r", i, "-"), snapshotEvery+10)
		least := ns.status(ctx, "n1", "0", following).Sequence
		ns.status(ctx, "n0", "0", func(s shardlog.Status) bool { return s.Snapshot+20 > least })
	}
	s := &ns.m.Shards[0]
	l, err := ns.c.OpenLog(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	var list []shardlog.Snapshot
	for now := (shardlog.State{}); now.First < snapshotEvery || len(list) != 2; time.Sleep(50 * time.Millisecond) { // it is cut
		if now, err = l.State(ctx); err == nil {
			list, err = ns.c.Snapshots(ctx, "0")
		}
		if err != nil {
			t.Fatalf("snapshots %v, %v", list, err)
		}
	}
	lose := func() {
		t.Helper()
		ns.kill("n1")
		if err := os.RemoveAll(ns.list["n1"].o.Folder); err != nil {
			t.Fatal(err)
		}
		ns.fill(ctx, want, fmt.Sprint("while", len(want), "-"), 8) // no majority of two replicas
		ns.start("n1")
		ns.status(ctx, "n1", "0", following)
		ns.same(ctx, want)
	}
	ns.m.Shards[0].Replicas = []string{"n0"}
	if _, err := ns.c.Change(ctx, func(m *shardlog.Map) error {
		m.Shards[0].Replicas, m.Shards[0].Joining = []string{"n0"}, []string{"n1"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	lose()
	// A snapshot that is no database, and one that lacks a part.
	bad := shardlog.Snapshot{Shard: "0", Epoch: 1, Sequence: list[0].Sequence + 1}
	if err := ns.c.PutSnapshot(ctx, &bad, bytes.NewReader(make([]byte, 1<<20))); err != nil {
		t.Fatal(err)
	}
	js := ns.servers.JetStream()
	if err := clustertest.DamageSnapshot(ctx, js, "a", &list[0]); err != nil {
		t.Fatal(err)
	}
	lose()
	log, err := os.ReadFile(ns.list["n1"].o.Folder + ".log")
	if err != nil || strings.Count(string(log), "a snapshot is damaged") != 2 {
		t.Errorf("two damaged snapshots were not seen: %v", err)
	}
	// The servers have lost the store of snapshots: another replica makes it again.
	if err := js.DeleteObjectStore(ctx, "anndb_a_snapshots"); err != nil {
		t.Fatal(err)
	}
	lose()
	// The log has lost messages after the newest snapshot: another replica stores one that has them.
	ns.fill(ctx, want, "lost-", 8)
	now, err := l.State(ctx)
	if err == nil {
		err = l.Purge(ctx, now.Last)
	}
	if err != nil {
		t.Fatal(err)
	}
	lose()
	// A file that is damaged is put aside, and the shard restored.
	ns.kill("n1")
	path := filepath.Join(ns.list["n1"].o.Folder, "0.anndb")
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(body[100:], bytes.Repeat([]byte{0xff}, 20_000))
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	ns.start("n1")
	ns.status(ctx, "n1", "0", following)
	ns.same(ctx, want)
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
}

// TestLostLog loses the log in each way, and recovers from the replica that has most.
func TestLostLog(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 3)
	ns.all(ctx, create)
	want := map[string]string{}
	ns.fill(ctx, want, "a", 30)
	lost := func(id string) {
		t.Helper()
		ns.status(ctx, id, "0", func(s shardlog.Status) bool { return s.Lost && s.State == shardlog.Stopped })
		if _, err := ns.rows(ctx, id, "0", 0); err == nil || !strings.Contains(err.Error(), `"unavailable"`) {
			t.Errorf("node %s serves a shard without log: %v", id, err)
		}
	}
	recovered := func(epoch int) {
		t.Helper()
		if err := operate.Recover(ctx, ns.c, "0"); err == nil {
			t.Error("a log that is complete is replaced")
		}
		for _, id := range ns.m.Shards[0].Replicas {
			ns.status(ctx, id, "0", func(s shardlog.Status) bool { return following(s) && s.Epoch == epoch })
		}
		ns.same(ctx, want)
		ns.fill(ctx, want, fmt.Sprint("epoch", epoch, "-"), 20)
		ns.same(ctx, want)
	}
	recoverIt := func() {
		t.Helper()
		var err error
		for ctx.Err() == nil { // until enough nodes have announced it
			if err = operate.Recover(ctx, ns.c, "0"); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatal(err)
	}
	if err := operate.Recover(ctx, ns.c, "0"); err == nil {
		t.Error("a log that is complete is replaced")
	}
	// The stream is deleted.
	if err := ns.c.DeleteLog(ctx, &ns.m.Shards[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range ns.m.Shards[0].Replicas {
		lost(id)
	}
	if _, err := ns.publish(ctx, &ns.m.Shards[0], "x", create); !errors.Is(err, shardlog.ErrLogLost) {
		t.Errorf("publish: %v", err)
	}
	recoverIt()
	recovered(2)
	// The servers are restored to an older state, and get other messages in place of those that are lost.
	for name, more := range map[string]int{"shorter": 0, "other": 60} {
		ns.servers.Kill(0)
		older := t.TempDir()
		copyFolder(t, ns.servers.Store(0), filepath.Join(older, "store"))
		ns.servers.Restart(0)
		ns.fill(ctx, want, name, 25)
		ns.same(ctx, want)
		epoch := ns.status(ctx, "n0", "0", following).Epoch
		ns.servers.Kill(0)
		if err := os.RemoveAll(ns.servers.Store(0)); err != nil {
			t.Fatal(err)
		}
		copyFolder(t, filepath.Join(older, "store"), ns.servers.Store(0))
		for _, id := range ns.m.Shards[0].Replicas {
			if more > 0 {
				ns.kill(id) // what is written now is longer than what they have
			}
		}
		ns.servers.Restart(0)
		m := ns.read(ctx)
		for i := range more {
			key := fmt.Sprint("fork", i)
			if _, err := ns.publish(ctx, &m.Shards[0], key, transaction(putRow(key, 1, 1))); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range ns.m.Shards[0].Replicas {
			if more > 0 {
				ns.start(id)
			}
			lost(id)
		}
		recoverIt()
		recovered(epoch + 1)
	}
}

// TestRecoverInSplit: the log of a shard that is being split is lost. Its split ends after the recovery.
func TestRecoverInSplit(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 2)
	ns.all(ctx, create)
	want := map[string]string{}
	ns.fill(ctx, want, "a", 30)
	s := ns.m.Shards[0]
	split := shardlog.Split{Shard: s.ID, Parts: [2]shardlog.Shard{
		{ID: "0a", Last: s.Last / 2, Epoch: 1, Replicas: s.Replicas},
		{ID: "0b", First: s.Last/2 + 1, Last: s.Last, Epoch: 1, Replicas: s.Replicas},
	}}
	for i := range split.Parts {
		if err := ns.c.CreateLog(ctx, &split.Parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(m *shardlog.Map) error { m.Splits = append(m.Splits, split); return nil }
	if _, err := ns.c.Change(ctx, begin); err != nil {
		t.Fatal(err)
	}
	for _, id := range s.Replicas {
		ns.status(ctx, id, "0a", func(s shardlog.Status) bool { return s.Shard == "0" && following(s) })
		ns.status(ctx, id, "0b", func(s shardlog.Status) bool { return s.Shard == "0" && following(s) })
	}
	if err := ns.c.DeleteLog(ctx, &s); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "recover", func() bool { return operate.Recover(ctx, ns.c, "0") == nil })
	ns.fill(ctx, want, "b", 30)
	limited, cancel := context.WithTimeout(ctx, time.Minute/2)
	defer cancel()
	if err := operate.Split(limited, ns.c, "0"); err != nil {
		t.Fatal(err)
	}
	ns.same(ctx, want)
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-r", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestMoveAndSplit moves replicas and splits shards while rows are written.
func TestMoveAndSplit(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 2)
	ns.start("n2")
	ns.all(ctx, create)
	want := map[string]string{}
	ns.fill(ctx, want, "a", 150)
	stop := make(chan struct{})
	var writer sync.WaitGroup
	var slowest time.Duration
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			begin, key := time.Now(), fmt.Sprint("w", i)
			for {
				m, err := ns.c.Map(ctx)
				if err == nil {
					_, err = ns.publish(ctx, m.Find([]byte(key)), key, transaction(putRow(key, i, 0)))
				}
				if err == nil {
					break
				}
				if !errors.Is(err, shardlog.ErrSealed) {
					t.Errorf("%s: %v", key, err)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			slowest = max(slowest, time.Since(begin))
			want[key] = fmt.Sprintf("[%d 0]", i)
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	check(operate.Move(ctx, ns.c, "0", "n0", "n2"))
	// Gateways that do not know it yet may read for 3 s, unless the test was slow.
	if _, err := ns.rows(ctx, "n0", "0", 0); err != nil && time.Since(began) < 3*time.Second {
		t.Errorf("the replica that has left: %v", err)
	}
	check(operate.Split(ctx, ns.c, "0"))
	for _, id := range []string{"n1", "n2"} { // before the parts have all of the parent's log, perhaps
		ns.kill(id)
		ns.start(id)
	}
	check(operate.Move(ctx, ns.c, "0a", "n2", "n0"))
	killer := time.AfterFunc(200*time.Millisecond, func() { ns.kill("n1"); ns.start("n1") })
	defer killer.Stop()
	check(operate.Split(ctx, ns.c, "0b"))
	check(operate.Move(ctx, ns.c, "0bb", "", "n0"))
	check(operate.Remove(ctx, ns.c, "0bb", "n2"))
	close(stop)
	writer.Wait()
	m, err := ns.c.Map(ctx)
	check(err)
	var ids []string
	for _, s := range m.Shards {
		ids = append(ids, fmt.Sprint(s.ID, s.Replicas))
	}
	if got := fmt.Sprint(ids); got != "[0a[n1 n0] 0ba[n1 n2] 0bb[n1 n0]]" {
		t.Errorf("shards %s", got)
	}
	ns.same(ctx, want)
	// What belongs to a shard that was split is deleted once its parts have snapshots.
	ns.fill(ctx, want, "more", 5*snapshotEvery)
	for gone := false; !gone; time.Sleep(50 * time.Millisecond) {
		list, err := ns.c.Snapshots(ctx, "0")
		check(err)
		_, err = ns.c.OpenLog(ctx, &shardlog.Shard{ID: "0", Epoch: 1, Created: ns.m.Shards[0].Created})
		if gone = len(list) == 0 && errors.Is(err, shardlog.ErrLogLost); err != nil && !gone && len(list) == 0 {
			t.Fatal(err)
		}
	}
	ns.same(ctx, want)
	// What has left a node is put aside.
	for path := ""; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if path = filepath.Join(ns.list["n2"].o.Folder, "0bb.anndb"); !exists(path) &&
			!exists(filepath.Join(ns.list["n2"].o.Folder, "0.anndb")) {
			break
		}
	}
	for _, err := range []error{
		operate.Move(ctx, ns.c, "none", "n0", "n1"), operate.Move(ctx, ns.c, "0a", "n2", "n2"),
		operate.Move(ctx, ns.c, "0a", "n0", "n1"), operate.Move(ctx, ns.c, "0a", "", "none"),
		operate.Split(ctx, ns.c, "none"), operate.Remove(ctx, ns.c, "0a", "n2"),
	} {
		if err == nil {
			t.Error("no error")
		}
	}
	t.Logf("%d rows, the slowest write took %v", len(want), slowest)
}

// TestBuiltIndex adds a replica after a build, which gets the index with a snapshot and does not build it.
func TestBuiltIndex(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 1)
	ns.all(ctx, create)
	ns.fill(ctx, map[string]string{}, "a", snapshotEvery+50)
	s := &ns.m.Shards[0]
	before := ns.status(ctx, "n0", "0", func(st shardlog.Status) bool { return st.Snapshot > 0 }).Snapshot
	build := &shardlog.Message{Build: &shardlog.Build{Collection: "c", Index: "i"}}
	at, err := ns.publish(ctx, s, "build", build)
	if err != nil {
		t.Fatal(err)
	}
	later := ns.status(ctx, "n0", "0", func(st shardlog.Status) bool { return st.Snapshot > before })
	if later.Snapshot != at {
		t.Errorf("a snapshot at %d, the build is message %d", later.Snapshot, at)
	}
	created := func(id string) (out wire.Indexes) {
		t.Helper()
		if err := ns.get(ctx, id, "/v1/files/0/collections/c/indexes", &out); err != nil || len(out.Indexes) != 1 {
			t.Fatalf("%s: %+v, %v", id, out, err)
		}
		return out
	}
	ns.start("n1")
	if err := operate.Move(ctx, ns.c, "0", "", "n1"); err != nil {
		t.Fatal(err)
	}
	if a, b := created("n0").Indexes[0].Created, created("n1").Indexes[0].Created; !a.Equal(b) {
		t.Errorf("the new replica has built its index itself: %v and %v", a, b)
	}
}

// TestRebalance adds a node, loses another one, and moves replicas each time.
func TestRebalance(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 3, 2)
	ns.all(ctx, create)
	want := map[string]string{}
	ns.fill(ctx, want, "a", 150)
	rebalance := func(moves int, each map[string]int) {
		t.Helper()
		var steps []operate.Step
		for len(steps) != moves { // nodes may not have announced themselves, or their leases not be over
			var err error
			if steps, err = operate.Rebalance(ctx, ns.c, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range steps {
			if err := operate.Move(ctx, ns.c, x.Shard, x.From, x.To); err != nil {
				t.Fatal(err)
			}
		}
		if steps, err := operate.Rebalance(ctx, ns.c, time.Minute); err != nil || len(steps) > 0 {
			t.Errorf("moves %v are left, %v", steps, err)
		}
		got := map[string]int{}
		for _, s := range ns.read(ctx).Shards {
			for _, id := range s.Replicas {
				got[id]++
			}
		}
		if !maps.Equal(got, each) {
			t.Errorf("replicas %v, want %v", got, each)
		}
		ns.fill(ctx, want, fmt.Sprint("b", moves), 50)
		ns.same(ctx, want)
	}
	ns.start("n2")
	rebalance(2, map[string]int{"n0": 2, "n1": 2, "n2": 2})
	ns.start("n3")
	rebalance(1, map[string]int{"n0": 1, "n1": 2, "n2": 2, "n3": 1})
	ns.kill("n1")
	rebalance(2, map[string]int{"n0": 2, "n2": 2, "n3": 2})
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestBadInput has a node meet files and messages that are not its own.
func TestBadInput(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 2, 1)
	ns.all(ctx, create)
	want := map[string]string{}
	ns.fill(ctx, want, "a", 10)
	js := ns.servers.JetStream()
	// A message of another program changes nothing, and is shown.
	if _, err := js.Publish(ctx, "anndb_a_0_1", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	ns.fill(ctx, want, "b", 10)
	ns.same(ctx, want)
	ns.status(ctx, "n0", "0", func(st shardlog.Status) bool { return st.Foreign == 1 })
	// The folder of another cluster, or of another node.
	other := ns.servers.Connect("b")
	if _, err := other.Create(ctx, shardlog.Ranges(1)); err != nil {
		t.Fatal(err)
	}
	o := options(ns.list["n0"].o)
	for _, c := range []*shardlog.Cluster{other, ns.c} {
		if c == ns.c {
			o.ID = "n1"
		}
		if _, err := node.Start(ctx, c, o); !errors.Is(err, shardlog.ErrCluster) {
			t.Errorf("the folder of another: %v", err)
		}
	}
	// The map of a later version has a field that this one does not know.
	maps, err := js.KeyValue(ctx, "anndb_a")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := maps.Get(ctx, "map")
	if err != nil {
		t.Fatal(err)
	}
	later := append([]byte(`{"format":2,`), entry.Value()[1:]...)
	if _, err := maps.Put(ctx, "map", later); err != nil {
		t.Fatal(err)
	}
	o = options(ns.list["n0"].o)
	o.Folder = t.TempDir()
	if _, err := node.Start(ctx, ns.c, o); !errors.Is(err, shardlog.ErrFormat) {
		t.Errorf("a map of a later version: %v", err)
	}
	ns.kill("n0") // and its files stay as they are
	ns.start("n0")
	time.Sleep(300 * time.Millisecond)
	if _, err := os.Stat(filepath.Join(ns.list["n0"].o.Folder, "0.anndb")); err != nil {
		t.Error(err)
	}
	if _, err := maps.Put(ctx, "map", entry.Value()); err != nil {
		t.Fatal(err)
	}
	ns.same(ctx, want)
	// A message of a later version stops the shard where it is, and so does a damaged one.
	for i, h := range []nats.Header{{"Anndb-Format": {"2"}}, {"Anndb-Format": {"1"}, "Anndb-Sum": {"0"}}} {
		shard := fmt.Sprint(i)
		at := ns.status(ctx, "n0", shard, following).Sequence
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "anndb_a_" + shard + "_1", Header: h,
			Data: []byte(`{"drop":"c"}`)}); err != nil {
			t.Fatal(err)
		}
		st := ns.status(ctx, "n0", shard, func(st shardlog.Status) bool { return st.Error != "" })
		if text := []string{"later version", "checksum"}[i]; !strings.Contains(st.Error, text) ||
			st.Sequence != at {
			t.Errorf("%q at %d, want %q at %d", st.Error, st.Sequence, text, at)
		}
		if _, err := ns.rows(ctx, "n0", shard, at); err != nil {
			t.Errorf("what was applied before is not served: %v", err)
		}
		eventually(ctx, t, "recover does not say why the shard stops", func() bool {
			err := operate.Recover(ctx, ns.c, shard)
			return err != nil && strings.Contains(err.Error(), st.Error)
		})
	}
}

// TestDamage damages rows and then an index in the file of a replica that is down. Its answers are right or
// errors, and it replaces the file.
func TestDamage(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 2)
	ns.all(ctx, &shardlog.Message{Create: &wire.NewCollection{Name: "c", Schema: db.Schema{Dim: 2,
		Text: &text.Schema{}}}})
	want := map[string]string{}
	ns.fill(ctx, want, "a", 120)
	for i := range 20 {
		key := fmt.Sprint("t", i)
		ns.all(ctx, transaction(wire.Operation{Op: wire.Put, Collection: "c",
			Row: fmt.Appendf(nil, `{"key":%q,"vector":[%d,1],"text":"word"}`, key, i)}))
		want[key] = fmt.Sprintf("[%d 1]", i)
	}
	ns.all(ctx, &shardlog.Message{Build: &shardlog.Build{Collection: "c", Index: "i",
		Build: wire.Build{Kind: "postings"}}})
	last := ns.status(ctx, "n0", "0", following).Sequence
	built := func() bool {
		var e node.Applied
		err := ns.get(ctx, "n1", fmt.Sprint("/cluster/built?shard=0&sequence=", last), &e)
		return err == nil && e.Known
	}
	eventually(ctx, t, "the index is built", built)
	aside := filepath.Join(ns.list["n1"].o.Folder, "0.anndb.damaged")
	for _, x := range []struct {
		kind       uint16
		path, body string
	}{
		{5, "rows", ""}, {19, "search", `{"text":"word","index":"i"}`},
	} {
		ns.kill("n1")
		n, err := clustertest.DamageBlocks(filepath.Join(ns.list["n1"].o.Folder, "0.anndb"), x.kind)
		if err != nil || n == 0 {
			t.Fatalf("%d blocks of kind %d: %v", n, x.kind, err)
		}
		ns.start("n1")
		ns.status(ctx, "n1", "0", following)
		eventually(ctx, t, "it is put aside", func() bool {
			url := "http://" + ns.list["n1"].o.Address + "/v1/files/0/collections/c/" + x.path
			if x.body == "" {
				_, _ = ns.rows(ctx, "n1", "0", 0)
			} else if res, err := http.Post(url, wire.JSON, strings.NewReader(x.body)); err == nil {
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				t.Logf("%s: %.300s", res.Status, body)
			}
			_, err := os.Stat(aside)
			return err == nil
		})
		if err := os.Remove(aside); err != nil {
			t.Fatal(err)
		}
		ns.same(ctx, want)
		eventually(ctx, t, "the index is built again", built)
	}
}

func eventually(ctx context.Context, t *testing.T, what string, f func() bool) {
	t.Helper()
	for !f() {
		if ctx.Err() != nil {
			t.Fatal(what, ctx.Err())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestFull has a file reach the size that it may have: the node serves what it has and says so. With
// more room it applies the rest.
func TestFull(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 2)
	ns.all(ctx, create)
	ns.kill("n1")
	ns.list["n1"].o.MaxSize = 2 << 20
	ns.start("n1")
	want := map[string]string{}
	s := &ns.m.Shards[0]
	payload := strings.Repeat("x", 100_000)
	for i := range 40 {
		key := fmt.Sprint("k", i)
		line := fmt.Sprintf(`{"key":%q,"vector":[%d,0],"payload":%q}`, key, i, payload)
		m := transaction(wire.Operation{Op: wire.Put, Collection: "c", Row: []byte(line)})
		if _, err := ns.publish(ctx, s, key, m); err != nil {
			t.Fatal(err)
		}
		want[key] = fmt.Sprintf("[%d 0]", i)
	}
	st := ns.status(ctx, "n1", "0", func(s shardlog.Status) bool { return s.Error != "" })
	if rows, err := ns.rows(ctx, "n1", "0", 0); err != nil || len(rows) == 0 {
		t.Errorf("%d rows are served, %v", len(rows), err)
	}
	t.Log(st.Error)
	if err := ns.get(ctx, "n1", "/readyz", nil); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("a full node is ready: %v", err)
	}
	ns.kill("n1")
	ns.list["n1"].o.MaxSize = 0
	ns.start("n1")
	ns.same(ctx, want)
	if err := ns.get(ctx, "n1", "/readyz", nil); err != nil {
		t.Error(err)
	}
}
