// Package node runs the node of a cluster: for each shard that the map gives to it, it applies the shard's
// log to a file of its own, in order and each message once, serves the file, and stores snapshots of it.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// Options selects how a node works; zero fields but for the first three have defaults.
type Options struct {
	ID      string       // of letters, digits and "-", the same at each start
	Folder  string       // of the files, which no other node uses
	Address string       // the URL at which others find its server
	Token   string       // that requests need, see server.Options
	HTTP    *http.Client // calls other nodes
	Logger  *slog.Logger
	DB      *db.Options // of the files
	// SnapshotMessages and SnapshotBytes are how long a log becomes before the shard gets a new snapshot,
	// 100,000 messages and 256 MiB.
	SnapshotMessages, SnapshotBytes uint64
	// Handlers returns further routes of the server. find returns the file of a shard for a request.
	Handlers func(find server.Find) map[string]http.Handler
}

// Node is a running node.
type Node struct {
	o       Options
	c       *shardlog.Cluster
	server  *server.Server
	cluster string // the id of the map
	stop    context.CancelFunc
	ctx     context.Context
	work    sync.WaitGroup
	changed chan struct{} // something to announce
	// splitting is held while the file of a part of a shard is made.
	splitting sync.Mutex

	mu       sync.Mutex
	replicas map[string]*replica
	// leaving are replicas that the map does not have any more, which are read by gateways with an older one.
	leaving map[string]*replica
}

// Start starts a node of an existing cluster. Errors: shardlog.ErrNoCluster, shardlog.ErrCluster if the
// folder is one of another cluster or node.
func Start(ctx context.Context, c *shardlog.Cluster, o *Options) (*Node, error) {
	n := &Node{o: *o, c: c, replicas: map[string]*replica{}, leaving: map[string]*replica{}}
	n.changed = make(chan struct{}, 1)
	n.o.Logger = cmp.Or(o.Logger, slog.Default()).With("node", o.ID)
	n.o.HTTP = cmp.Or(o.HTTP, http.DefaultClient)
	n.o.SnapshotMessages = cmp.Or(o.SnapshotMessages, 100_000)
	n.o.SnapshotBytes = cmp.Or(o.SnapshotBytes, 256<<20)
	if err := shardlog.CheckName(o.ID); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	m, err := c.Map(ctx)
	if err != nil {
		return nil, err
	}
	n.cluster = m.ID
	if err := n.claim(); err != nil {
		return nil, err
	}
	n.server = server.New(nil, &server.Options{
		Token: o.Token, Logger: n.o.Logger, Handlers: n.handlers(), Metrics: n.metrics, Find: n.file,
		Failed: n.failed, MaxRequests: maxRequests,
	})
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.assign(&m)
	n.clean()
	n.work.Go(func() {
		for n.ctx.Err() == nil {
			err := c.Watch(n.ctx, func(m shardlog.Map) bool { n.assign(&m); return true })
			if shardlog.Pause(n.ctx, time.Second) == nil {
				n.o.Logger.Error("the map of the cluster", "error", err)
			}
		}
	})
	n.work.Go(n.announce)
	return n, nil
}

// maxRequests is the number of requests at the same time: gateways have their own limits, and some wait
// for the log.
const maxRequests = 1024

// identity is the file node.json of a folder.
type identity struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

// claim makes the folder one of this node, unless it is one of another.
func (n *Node) claim() error {
	if err := os.MkdirAll(n.o.Folder, 0o700); err != nil {
		return err
	}
	path := filepath.Join(n.o.Folder, "node.json")
	want := identity{n.cluster, n.o.ID}
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if body, err = json.Marshal(want); err == nil {
			err = os.WriteFile(path, body, 0o600)
		}
		return err
	}
	var has identity
	if err == nil {
		err = wire.Unmarshal(body, &has)
	}
	if err == nil && has != want {
		err = fmt.Errorf("%w: folder %s is that of node %q of cluster %s, not of %q of %s (use another folder)",
			shardlog.ErrCluster, n.o.Folder, has.Node, has.Cluster, want.Node, want.Cluster)
	}
	return err
}

// left is the end of the names of files whose shards have left the node. They are kept for a day: a map of
// the cluster that was restored from an older state may be wrong about it.
const left = ".left"

// putAside renames a file whose shard has left.
func (n *Node) putAside(path string) {
	err := os.Rename(path, path+left)
	if err == nil {
		err = os.Chtimes(path+left, time.Time{}, time.Now()) // the day begins now
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.o.Logger.Warn("put a file aside", "error", err)
	}
}

// clean puts files aside whose shards have left while the node was down, and deletes those that have been so
// for a day.
func (n *Node) clean() {
	files, err := os.ReadDir(n.o.Folder)
	if err != nil {
		n.o.Logger.Warn("files of shards that have left", "error", err)
	}
	for _, f := range files {
		path := filepath.Join(n.o.Folder, f.Name())
		shard, is := strings.CutSuffix(f.Name(), ".anndb")
		if is && n.replica(shard) == nil {
			n.putAside(path)
		}
		info, err := f.Info()
		if err == nil && filepath.Ext(path) == left && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(path)
		}
	}
}

// Close ends the node and closes its files.
func (n *Node) Close() {
	n.stop()
	_ = n.server.Shutdown(n.ctx) // at once
	n.work.Wait()
}

// assign starts and ends replicas as a map says.
func (n *Node) assign(m *shardlog.Map) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	if m.ID != n.cluster {
		n.o.Logger.Error("the map is not used", "error",
			fmt.Errorf("%w: the map is that of %s, the node is one of %s", shardlog.ErrCluster, m.ID, n.cluster))
		return
	}
	want := map[string]duty{}
	for _, s := range m.Shards {
		for at := &s; at != nil && at.On(n.o.ID); at = at.Parent {
			want[at.ID] = duty{shard: *at, parent: at.Parent}
		}
	}
	for _, split := range m.Splits {
		if parent := m.Shard(split.Shard); parent != nil && slices.Contains(parent.Replicas, n.o.ID) {
			for _, part := range split.Parts {
				want[part.ID] = duty{shard: part, parent: parent}
			}
		}
	}
	for id, r := range n.replicas {
		if _, ok := want[id]; !ok {
			delete(n.replicas, id)
			n.leaving[id] = r
			time.AfterFunc(leaveTime, func() { n.endLeaving(r) })
		}
	}
	for id, d := range want {
		if r := n.leaving[id]; r != nil { // it has come back
			delete(n.leaving, id)
			n.replicas[id] = r
		}
		if r := n.replicas[id]; r != nil {
			r.set(d)
			continue
		}
		n.replicas[id] = newReplica(n, d)
	}
	n.tell()
}

// leaveTime is how long a replica that has left is read, in which gateways read the map again.
const leaveTime = 3 * time.Second

// endLeaving ends a replica unless it has come back.
func (n *Node) endLeaving(r *replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leaving[r.id] == r {
		delete(n.leaving, r.id)
		r.end()
	}
}

// tell has the node announced soon.
func (n *Node) tell() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// announce tells the others about the node, until it ends.
func (n *Node) announce() {
	tick := time.NewTicker(shardlog.Lease / 5)
	defer tick.Stop()
	for {
		info := n.info()
		ctx, cancel := context.WithTimeout(n.ctx, shardlog.Lease/2)
		if err := n.c.Announce(ctx, &info); err != nil && n.ctx.Err() == nil {
			n.o.Logger.Warn("announce", "error", err)
		}
		cancel()
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		case <-n.changed:
			_ = shardlog.Pause(n.ctx, 100*time.Millisecond) // for further changes
		}
	}
}

func (n *Node) info() shardlog.NodeInfo {
	out := shardlog.NodeInfo{ID: n.o.ID, Address: n.o.Address, Shards: map[string]shardlog.Status{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.replicas {
		out.Shards[id] = r.state()
	}
	return out
}

// replica returns the replica of a shard, nil if the node has none.
func (n *Node) replica(shard string) *replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replicas[shard]
}

// reader returns the replica of a shard that answers reads, nil if the node has none.
func (n *Node) reader(shard string) *replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.replicas[shard], n.leaving[shard])
}
