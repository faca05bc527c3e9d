package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/change"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// fake is a cluster in this process: logs are lists, and nodes apply them when they are told to.
type fake struct {
	t *testing.T

	mu      sync.Mutex
	changed *sync.Cond
	view    shardlog.Map
	logs    map[string][]*shardlog.Message // by shard
	ids     map[string]uint64              // sequences by shard and id
	sealed  map[string]bool
	unknown int   // so many publications are stored, and their outcome is not known
	after   error // of the next publication after these
	nodes   map[string]*fakeNode
	silent  atomic.Bool // the key-value store does not answer
	hidden  atomic.Bool // no node has announced itself
}

// fakeNode is a node with one replica of a shard.
type fakeNode struct {
	f       *fake
	shard   string
	db      *db.DB
	http    *httptest.Server
	results []node.Applied // by sequence
	paused  atomic.Bool    // applies nothing
	delay   atomic.Int64   // of answers
	down    atomic.Bool    // answers 503
	ended   chan struct{}
	status  shardlog.Status // that it announces
}

// bed is a cluster with a gateway and a client.
type bed struct {
	*fake

	gateway *httptest.Server
	client  *client.Client
	file    client.File
}

func newBed(t *testing.T, shards, replicas int, o *gateway.Options) *bed {
	t.Helper()
	f := &fake{
		t: t, logs: map[string][]*shardlog.Message{}, ids: map[string]uint64{}, sealed: map[string]bool{},
		nodes: map[string]*fakeNode{},
	}
	f.changed = sync.NewCond(&f.mu)
	f.view.Shards = shardlog.Ranges(shards)
	for i := range f.view.Shards {
		s := &f.view.Shards[i]
		for j := range replicas {
			id := fmt.Sprintf("node-%s-%d", s.ID, j)
			s.Replicas = append(s.Replicas, id)
			f.nodes[id] = f.newNode(s.ID)
		}
	}
	return f.serve(o)
}

// serve serves the cluster by a gateway.
func (f *fake) serve(o *gateway.Options) *bed {
	t := f.t
	quiet := slog.New(slog.DiscardHandler)
	if o == nil {
		o = &gateway.Options{}
	}
	o.Logger = quiet
	g := gateway.New("c", f, o)
	b := &bed{fake: f}
	b.gateway = httptest.NewServer(server.New(nil, &server.Options{Logger: quiet, Handlers: g.Handlers()}))
	t.Cleanup(b.gateway.Close)
	var err error
	if b.client, err = client.New(b.gateway.URL, &client.Options{Retries: -1, Timeout: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	b.file = b.client.File("c")
	return b
}

func (f *fake) newNode(shard string) *fakeNode {
	d, err := db.Open(f.t.Context(), filepath.Join(f.t.TempDir(), "x.anndb"),
		&db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		f.t.Fatal(err)
	}
	n := &fakeNode{f: f, shard: shard, db: d, ended: make(chan struct{})}
	find := func(_ http.ResponseWriter, _ *http.Request, s string) (*db.DB, error) {
		if s == shard {
			return d, nil
		}
		return nil, wire.ErrUnavailable
	}
	files := server.New(map[string]*db.DB{shard: d}, &server.Options{
		Logger: slog.New(slog.DiscardHandler),
		Handlers: map[string]http.Handler{
			gateway.PartPattern: gateway.PartHandler(find), "GET /cluster/applied": http.HandlerFunc(n.applied),
			"GET /cluster/built": http.HandlerFunc(n.applied), // builds end before they are applied
		},
	})
	n.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d := time.Duration(n.delay.Load()); d > 0 {
			select {
			case <-time.After(d):
			case <-n.ended:
			}
		}
		if n.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if _, least, ok := strings.Cut(r.Header.Get(gateway.Sequence), "="); ok {
			at, _ := strconv.ParseUint(least, 10, 64)
			n.wait(r.Context(), at)
		}
		w.Header().Set(gateway.Sequence, fmt.Sprintf("%s:1=%d", shard, n.wait(r.Context(), 0)))
		files.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { n.run(ctx) })
	f.t.Cleanup(func() {
		cancel()
		close(n.ended)
		f.wake()
		n.http.CloseClientConnections()
		n.http.Close()
		done.Wait()
		_ = d.Close()
	})
	return n
}

func (f *fake) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed.Broadcast()
}

// wait waits until the node has applied a sequence, and returns the last one.
func (n *fakeNode) wait(ctx context.Context, at uint64) uint64 {
	defer context.AfterFunc(ctx, n.f.wake)()
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	for uint64(len(n.results)) < at && ctx.Err() == nil {
		n.f.changed.Wait()
	}
	return uint64(len(n.results))
}

func (n *fakeNode) applied(w http.ResponseWriter, r *http.Request) {
	at, _ := strconv.ParseUint(r.FormValue("sequence"), 10, 64)
	last := n.wait(r.Context(), at)
	out := node.Applied{Applied: last}
	if last >= at {
		n.f.mu.Lock()
		out = n.results[at-1]
		n.f.mu.Unlock()
		out.Applied, out.Known = last, true
	}
	_ = json.NewEncoder(w).Encode(out)
}

// run applies the log.
func (n *fakeNode) run(ctx context.Context) {
	for {
		n.f.mu.Lock()
		for ctx.Err() == nil && (n.paused.Load() || len(n.f.logs[n.shard]) == len(n.results)) {
			n.f.changed.Wait()
		}
		if ctx.Err() != nil {
			n.f.mu.Unlock()
			return
		}
		m := n.f.logs[n.shard][len(n.results)]
		n.f.mu.Unlock()
		var out node.Applied
		if err := n.apply(ctx, m, &out); err != nil {
			out = node.Applied{Error: wire.NewError(err)}
		}
		n.f.mu.Lock()
		n.results = append(n.results, out)
		n.f.changed.Broadcast()
		n.f.mu.Unlock()
	}
}

func (n *fakeNode) apply(ctx context.Context, m *shardlog.Message, out *node.Applied) error {
	switch {
	case m.Transaction != nil:
		t, err := change.NewTransaction(m.Transaction, func(name string) (db.CollectionInfo, error) {
			return n.db.Collection(name).Info()
		})
		if err != nil {
			return err
		}
		return n.db.Update(ctx, func(tx *db.Tx) (err error) {
			if !m.Versions {
				t.SkipVersions()
			}
			out.Versions, err = t.Apply(tx)
			return err
		})
	case m.Create != nil:
		_, err := n.db.Create(ctx, m.Create.Name, m.Create.Schema)
		return err
	case m.Drop != "":
		return n.db.Drop(ctx, m.Drop)
	case m.Build.Drop:
		return n.db.Collection(m.Build.Collection).DropIndex(ctx, m.Build.Index)
	default:
		o, err := m.Build.Get()
		if err == nil {
			_, err = n.db.Collection(m.Build.Collection).Build(ctx, m.Build.Index, o, nil)
		}
		return err
	}
}

// Map, Nodes, Publish, Find, Watch and MaxMessage are those of gateway.Cluster.
func (f *fake) Map(ctx context.Context) (shardlog.Map, error) {
	if f.silent.Load() { // as servers do that do not answer
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		return shardlog.Map{}, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, nil
}

func (f *fake) Nodes(context.Context) (out []shardlog.NodeInfo, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hidden.Load() {
		return nil, nil
	}
	for id, n := range f.nodes {
		out = append(out, shardlog.NodeInfo{ID: id, Address: n.http.URL, Shards: map[string]shardlog.Status{n.shard: n.status}})
	}
	return out, nil
}

func (f *fake) Publish(_ context.Context, s *shardlog.Shard, id string, m *shardlog.Message) (uint64, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	sent := &shardlog.Message{}
	if err := json.Unmarshal(raw, sent); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.ids[s.ID+id]
	if known && f.unknown == 0 && f.after != nil {
		return 0, f.after
	}
	switch {
	case f.sealed[s.ID]:
		return 0, shardlog.ErrSealed
	case !known:
		f.logs[s.ID] = append(f.logs[s.ID], sent)
		at = uint64(len(f.logs[s.ID]))
		f.ids[s.ID+id] = at
		f.changed.Broadcast()
	}
	if f.unknown > 0 {
		f.unknown--
		return 0, shardlog.ErrUnknown
	}
	return at, nil
}

func (f *fake) Find(_ context.Context, s *shardlog.Shard, id string) (uint64, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.ids[s.ID+id]
	return at, known, nil
}

func (f *fake) Watch(ctx context.Context, changed func(shardlog.Map) bool) error {
	for m, err := f.Map(ctx); ctx.Err() == nil; m, err = f.Map(ctx) {
		if err == nil && !changed(m) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

func (f *fake) MaxMessage() int { return 1 << 20 }

// must fails the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails the test unless an error is another one.
func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
