package node_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
)

// TestMain runs a node in place of the tests if a test asks for one.
func TestMain(m *testing.M) {
	if o := os.Getenv("ANNDB_TEST_NODE"); o != "" {
		if err := child(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// childOptions are those of a node of its own process.
type childOptions struct {
	URL, ID, Folder, Address string
	Snapshots                uint64 // messages between them
	MaxSize                  int64
}

func child(text string) error {
	var o childOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return err
	}
	var c *shardlog.Cluster
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		c, err = shardlog.Connect(ctx, &shardlog.Options{URL: o.URL, Cluster: "a"})
		var n *node.Node
		if err == nil {
			n, err = node.Start(ctx, c, options(o))
		}
		if err == nil {
			return n.Serve(l)
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func options(o childOptions) *node.Options {
	return &node.Options{
		ID: o.ID, Folder: o.Folder, Address: "http://" + o.Address, SnapshotMessages: o.Snapshots,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), DB: &db.Options{MaxSize: o.MaxSize,
			Maintenance: &maintenance.Policy{Manual: true}},
	}
}

// nodes are processes of nodes.
type nodes struct {
	t       testing.TB
	servers *clustertest.Servers
	c       *shardlog.Cluster
	m       shardlog.Map
	folder  string
	list    map[string]*process
}

type process struct {
	o   childOptions
	cmd *exec.Cmd
}

// startNodes starts servers, a cluster with shards on all nodes, and the nodes. The context bounds the test, also on a
// machine that is busy.
func startNodes(t testing.TB, servers, shards, count int) (context.Context, *nodes) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	ns := &nodes{t: t, servers: clustertest.Start(t, servers), folder: t.TempDir(), list: map[string]*process{}}
	ns.c = ns.servers.Connect("a")
	var ids []string
	for i := range count {
		ids = append(ids, fmt.Sprint("n", i))
	}
	list := shardlog.Ranges(shards)
	for i := range list {
		list[i].Replicas = ids
	}
	for {
		var err error
		if ns.m, err = ns.c.Create(ctx, list); err == nil || errors.Is(err, shardlog.ErrExists) { // by the call before
			break
		}
		if ctx.Err() != nil || !errors.Is(err, shardlog.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		ns.start(id)
	}
	return ctx, ns
}

// snapshotEvery is the number of messages between snapshots.
const snapshotEvery = 100

func (ns *nodes) start(id string) {
	p := ns.list[id]
	if p == nil {
		address := fmt.Sprint("127.0.0.1:", clustertest.Port(ns.t))
		p = &process{o: childOptions{ns.servers.URL(), id, filepath.Join(ns.folder, id), address, snapshotEvery, 0}}
		ns.list[id] = p
		ns.t.Cleanup(func() {
			ns.kill(id)
			if log, err := os.ReadFile(p.o.Folder + ".log"); err == nil && ns.t.Failed() {
				ns.t.Logf("log of %s:\n%s", id, log[max(0, len(log)-20000):])
			}
		})
	}
	body, err := json.Marshal(p.o)
	if err != nil {
		ns.t.Fatal(err)
	}
	log, err := os.OpenFile(p.o.Folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		ns.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), "ANNDB_TEST_NODE="+string(body))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		ns.t.Fatal(err)
	}
}

func (ns *nodes) kill(id string) {
	if p := ns.list[id]; p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// get asks a node.
func (ns *nodes) get(ctx context.Context, id, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ns.list[id].o.Address+path, nil)
	if err != nil {
		return err
	}
	return answer(http.DefaultClient.Do(r))(into)
}

func answer(res *http.Response, err error) func(into any) error {
	return func(into any) error {
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		if res.StatusCode >= 400 {
			var f wire.Failure
			if json.Unmarshal(body, &f) == nil && f.Error != nil {
				return f.Error
			}
			return fmt.Errorf("%s: %s", res.Status, body)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(body, into)
	}
}

// applied waits until a majority of the replicas has applied a message, and returns its result.
func (ns *nodes) applied(ctx context.Context, s *shardlog.Shard, sequence uint64) (out node.Applied,
	err error) {
	type reply struct {
		node.Applied
		err error
	}
	replies := make(chan reply, len(s.Replicas))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, id := range s.Replicas {
		go func() {
			var r reply
			for {
				path := fmt.Sprintf("/cluster/applied?shard=%s&sequence=%d&epoch=%d", s.ID, sequence, s.Epoch)
				if r.err = ns.get(ctx, id, path, &r.Applied); r.err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			replies <- r
		}()
	}
	for good := 0; good <= len(s.Replicas)/2; good++ {
		r := <-replies
		if r.err != nil {
			return out, r.err
		}
		if r.Known {
			out = r.Applied
		}
	}
	return out, nil
}

// publish publishes a message until it is known to be in the log.
func (ns *nodes) publish(ctx context.Context, s *shardlog.Shard, id string, m *shardlog.Message) (uint64,
	error) {
	for {
		sequence, err := ns.c.Publish(ctx, s, id, m)
		if (errors.Is(err, shardlog.ErrUnknown) || errors.Is(err, shardlog.ErrUnreachable)) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		return sequence, err
	}
}

// all publishes a message to all shards, and waits for it.
func (ns *nodes) all(ctx context.Context, m *shardlog.Message) {
	ns.t.Helper()
	for i := range ns.m.Shards {
		sequence, err := ns.publish(ctx, &ns.m.Shards[i], rand.Text(), m)
		var a node.Applied
		if err == nil {
			a, err = ns.applied(ctx, &ns.m.Shards[i], sequence)
		}
		if err != nil || a.Error != nil {
			ns.t.Fatalf("%+v: %v, %v", m, err, a.Error)
		}
	}
}

func row(key string, x, y int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"key":%q,"vector":[%d,%d]}`, key, x, y))
}

func putRow(key string, x, y int) wire.Operation {
	return wire.Operation{Op: wire.Put, Collection: "c", Key: wire.Key{Text: key}, Row: row(key, x, y)}
}

func transaction(ops ...wire.Operation) *shardlog.Message {
	return &shardlog.Message{Transaction: &wire.Transaction{Operations: ops}, Versions: true}
}

var create = &shardlog.Message{Create: &wire.NewCollection{Name: "c", Schema: db.Schema{Dim: 2}}}

// rows returns the rows of a shard on a node, sorted.
func (ns *nodes) rows(ctx context.Context, id, shard string, least uint64) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+ns.list[id].o.Address+"/v1/files/"+shard+"/collections/c/rows", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(node.SequenceHeader, node.Sequences{{Shard: shard}: least}.String())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	slices.Sort(lines)
	return lines, err
}

// difference returns the lines that one of two sorted lists has alone.
func difference(a, b []string) (out []string) {
	for _, line := range slices.Concat(a, b) {
		if slices.Contains(a, line) != slices.Contains(b, line) {
			out = append(out, line)
		}
	}
	return out
}

// equal compares the rows of all replicas of all shards once they have applied all, and returns them.
func (ns *nodes) equal(ctx context.Context) map[string]string {
	ns.t.Helper()
	out := map[string]string{}
	for _, s := range ns.read(ctx).Shards {
		// A message that every replica refuses is the last one: a server that has just become the leader may not
		// know yet which one is.
		end := &shardlog.Message{Drop: "none"}
		last, err := ns.publish(ctx, &s, fmt.Sprint("end", time.Now().UnixNano()), end)
		if err != nil {
			ns.t.Fatal(err)
		}
		var first []string
		for i, id := range s.Replicas {
			var lines []string
			for {
				if lines, err = ns.rows(ctx, id, s.ID, last); err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if err != nil {
				ns.t.Fatalf("shard %s on %s: %v", s.ID, id, err)
			}
			if i == 0 {
				first = lines
			} else if !slices.Equal(lines, first) {
				ns.t.Errorf("shard %s, log at %d: %s and %s have %d and %d rows, not in both: %q", s.ID, last, id,
					s.Replicas[0], len(lines), len(first), difference(lines, first))
			}
		}
		for _, line := range first {
			var r struct {
				Key    string
				Vector []int
			}
			if line == "" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				ns.t.Fatalf("%s: %v", line, err)
			}
			out[r.Key] = fmt.Sprint(r.Vector)
		}
	}
	return out
}

// TestApply applies messages of each kind, some of which are refused.
func TestApply(t *testing.T) {
	t.Parallel()
	ctx, ns := startNodes(t, 1, 1, 1)
	ns.all(ctx, create)
	s := &ns.m.Shards[0]
	n := 0
	do := func(m *shardlog.Message, want error) node.Applied {
		t.Helper()
		n++
		sequence, err := ns.publish(ctx, s, fmt.Sprint(n), m)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ns.applied(ctx, s, sequence)
		if err != nil || !a.Known {
			t.Fatalf("%+v, %v", a, err)
		}
		if want == nil && a.Error != nil || want != nil && (a.Error == nil || !errors.Is(a.Error, want)) {
			t.Fatalf("message %d: %v, want %v", n, a.Error, want)
		}
		return a
	}
	do(create, db.ErrExists)
	version := do(transaction(putRow("a", 1, 2), putRow("b", 3, 4)), nil).Versions[0]
	insert := putRow("a", 5, 6)
	insert.Op = wire.Insert
	do(transaction(putRow("x", 1, 1), insert), db.ErrExists)
	condition := func(version string, ops ...wire.Operation) *shardlog.Message {
		m := transaction(ops...)
		m.Transaction.If = []wire.Condition{{Collection: "c", Key: wire.Key{Text: "a"}, Version: version}}
		return m
	}
	do(condition("other", putRow("a", 7, 8)), wire.ErrChanged)
	do(condition(version, putRow("a", 7, 8)), nil)
	do(condition(version, putRow("a", 9, 9)), wire.ErrChanged)
	do(transaction(wire.Operation{Op: wire.Put, Collection: "c",
		Row: json.RawMessage(`{"key":"d","vector":[1]}`)}), db.ErrInvalid)
	do(transaction(wire.Operation{Op: wire.Put, Collection: "c",
		Row: json.RawMessage(`{"key":"d","vector":[1,2],"expires":"2040-01-01"}`)}),
		db.ErrInvalid)
	do(transaction(wire.Operation{Op: wire.Put, Collection: "none", Row: row("d", 1, 2)}), db.ErrNotFound)
	do(transaction(wire.Operation{Op: wire.Delete, Collection: ".cluster", Key: wire.Key{Text: "position"}}),
		db.ErrNotFound)
	do(&shardlog.Message{Drop: "none"}, db.ErrNotFound)
	do(&shardlog.Message{Drop: ".cluster"}, db.ErrInvalid)
	do(&shardlog.Message{}, db.ErrInvalid)
	do(&shardlog.Message{Create: &wire.NewCollection{Name: "d", Schema: db.Schema{Dim: -2}}}, db.ErrInvalid)
	do(&shardlog.Message{Create: &wire.NewCollection{Name: "d", Schema: db.Schema{Dim: 1}}}, nil)
	do(&shardlog.Message{Drop: "d"}, nil)
	do(transaction(wire.Operation{Op: wire.Delete, Collection: "c", Key: wire.Key{Text: "b"}}), nil)
	want := map[string]string{"a": "[7 8]"}
	if rows := ns.equal(ctx); fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", rows, want)
	}
	var ops []wire.Operation
	for i := range 300 {
		ops = append(ops, putRow(fmt.Sprint(i), i, i*i))
	}
	do(transaction(ops...), nil)
	build := &shardlog.Build{Collection: "c", Index: "i"}
	at := do(&shardlog.Message{Build: build}, nil)
	var ended node.Applied
	if err := ns.get(ctx, "n0", fmt.Sprint("/cluster/built?shard=0&sequence=", at.Applied),
		&ended); err != nil || !ended.Known || ended.Error != nil {
		t.Errorf("%+v, %v", ended, err)
	}
	indexes := func(want int) {
		for {
			var list wire.Indexes
			if err := ns.get(ctx, "n0", "/v1/files/0/collections/c/indexes", &list); err != nil {
				t.Fatal(err)
			}
			if len(list.Indexes) == want {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	indexes(1)
	do(&shardlog.Message{Build: &shardlog.Build{Collection: "c", Index: "i", Drop: true}}, nil)
	indexes(0)
	url := "http://" + ns.list["n0"].o.Address
	for _, path := range []string{"transactions", "collections/c/indexes/search"} {
		res, err := http.Post(url+"/v1/files/0/"+path, wire.JSON, bytes.NewReader([]byte(`{}`)))
		if err := answer(res, err)(nil); !errors.Is(err, wire.ErrMethod) {
			t.Errorf("a write to a node, %s: %v", path, err)
		}
	}
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	for name, value := range map[string]uint64{"behind": 0, "applied": at.Applied + 1, "last": at.Applied + 1} {
		if want := fmt.Sprintf("\nanndb_shard_%s{shard=\"0\"} %d\n", name, value); !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %q: %s, %v", want, metrics, err)
		}
	}
	// A refused message is remembered.
	ns.kill("n0")
	ns.start("n0")
	if a, err := ns.applied(ctx, s, 2); err != nil || !errors.Is(a.Error, db.ErrExists) {
		t.Errorf("%+v, %v", a, err)
	}
}

// leader returns the server that leads the log of a shard.
func (ns *nodes) leader(ctx context.Context, shard int) int {
	ns.t.Helper()
	for js := ns.servers.JetStream(); ; time.Sleep(100 * time.Millisecond) {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		stream, err := js.Stream(short, fmt.Sprintf("anndb_a_%d_1", shard))
		cancel()
		if err == nil && stream.CachedInfo().Cluster.Leader != "" {
			var i int
			if _, err := fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "s%d", &i); err != nil {
				ns.t.Fatal(err)
			}
			return i
		}
		if ctx.Err() != nil {
			ns.t.Fatal(err)
		}
	}
}

// TestKills has writers write while nodes and leaders of logs are killed and paused, then all servers,
// and compares all replicas at the end.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers and three nodes, all of which are killed")
	}
	t.Parallel()
	ctx, ns := startNodes(t, 3, 2, 3)
	ns.all(ctx, create)
	want, mu := map[string]string{}, sync.Mutex{}
	counts := map[string]int{}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			key := fmt.Sprint("count", w)
			version, n := "", 0
			for i := 0; ; i++ {
				select {
				case <-stop:
					mu.Lock()
					counts[key] = n
					mu.Unlock()
					return
				default:
				}
				// A counter that is raised by one if it has not changed: applied twice, the second is refused.
				s := ns.m.Find([]byte(key))
				m := transaction(putRow(key, n+1, w))
				m.Transaction.If = []wire.Condition{{Collection: "c", Key: wire.Key{Text: key}, Version: version}}
				sequence, err := ns.publish(ctx, s, fmt.Sprint("c", w, "-", i), m)
				var a node.Applied
				if err == nil {
					a, err = ns.applied(ctx, s, sequence)
				}
				if err != nil || a.Error != nil || a.Known && len(a.Versions) != 1 {
					t.Errorf("count %d of %s: %v, %+v", n, key, err, a)
					return
				}
				if n++; !a.Known { // forgotten by a restart
					return
				}
				version = a.Versions[0]
				// A row of its own, acknowledged by the log.
				own := fmt.Sprint("row", w, "-", i)
				if _, err := ns.publish(ctx, ns.m.Find([]byte(own)), own, transaction(putRow(own, w, i))); err != nil {
					t.Errorf("row %s: %v", own, err)
					return
				}
				mu.Lock()
				want[own] = fmt.Sprintf("[%d %d]", w, i)
				mu.Unlock()
			}
		})
	}
	for round := range 3 {
		id := fmt.Sprint("n", round%3)
		time.Sleep(time.Second)
		ns.kill(id)
		time.Sleep(300 * time.Millisecond)
		ns.start(id)
		time.Sleep(700 * time.Millisecond)
		server := ns.leader(ctx, round%2)
		switch round {
		case 0:
			ns.servers.Kill(server)
			time.Sleep(time.Second)
			ns.servers.Restart(server)
		case 1:
			ns.servers.Pause(server)
			time.Sleep(3 * time.Second)
			ns.servers.Resume(server)
		default: // all at once
			for i := range ns.servers.Len() {
				ns.servers.Kill(i)
			}
			for i := range ns.servers.Len() {
				ns.servers.Restart(i)
			}
		}
	}
	time.Sleep(2 * time.Second)
	close(stop)
	writers.Wait()
	got := ns.equal(ctx)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("row %s is %s, want %s", key, got[key], value)
		}
	}
	for key, n := range counts {
		if value := fmt.Sprintf("[%d %s]", n, strings.TrimPrefix(key, "count")); got[key] != value {
			t.Errorf("%s is %s, want %s", key, got[key], value)
		}
	}
	t.Logf("%d rows, counts %v", len(want), counts)
	if len(want) == 0 {
		t.Error("nothing was written")
	}
}
