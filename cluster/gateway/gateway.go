// Package gateway answers the requests of package server for a cluster: it sends each change to the log
// of the shard that has the row's key, asks one replica of every shard for searches, predictions and
// counts, and merges what they say. docs/CLUSTER.md describes what clients see.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// Cluster is what a gateway needs of a *shardlog.Cluster.
type Cluster interface {
	Map(ctx context.Context) (shardlog.Map, error)
	Nodes(ctx context.Context) ([]shardlog.NodeInfo, error)
	Publish(ctx context.Context, s *shardlog.Shard, id string, m *shardlog.Message) (uint64, error)
	Find(ctx context.Context, s *shardlog.Shard, id string) (uint64, bool, error)
	Watch(ctx context.Context, f func(shardlog.Map) bool) error
	MaxMessage() int // bytes
}

// Options selects how a Gateway works; zero fields have the defaults.
type Options struct {
	Token  string       // that nodes want
	HTTP   *http.Client // calls nodes
	Logger *slog.Logger
	// Logged acknowledges writes that have no conditions once the log has them, unless requests say
	// otherwise. The default is that a majority of the shard's replicas has applied them.
	Logged bool
	// Deadline is how long a shard may take to answer a read, 10 s. Streams have none.
	Deadline time.Duration
	// MaxBehind is how many messages of a log a majority of the replicas may not have applied yet, 10,000;
	// then the shard takes no writes.
	MaxBehind uint64
}

// Headers of requests and answers.
const (
	// Sequence lists shards with the sequence numbers that an answer has seen, or that it must have seen:
	// "SHARD:EPOCH=N,SHARD:EPOCH=N".
	Sequence = node.SequenceHeader
	// Acknowledge says when a write is acknowledged: "logged" or "applied".
	Acknowledge = "Anndb-Acknowledge"
	// Missing lists the shards that a partial answer does not have.
	Missing = "Anndb-Missing"
)

// Gateway answers requests for one cluster.
type Gateway struct {
	o       Options
	name    string
	cluster Cluster
	times   times
	budget  budget
	slow    slow

	reading sync.Mutex    // held while the view is read
	waiting chan struct{} // has an element while a call waits for another map

	mu   sync.Mutex
	view *view
	at   time.Time      // when the last attempt to read it began
	seen node.Sequences // of the writes that this gateway has acknowledged

	infos  sync.Map // of collections by name, known
	models group.Models
	// describes is the number of the shard, modulo their number, that is asked what collections are.
	describes atomic.Uint32
}

// New returns a gateway of a cluster, which has the place of a file with the name.
func New(name string, c Cluster, o *Options) *Gateway {
	g := &Gateway{name: name, cluster: c, seen: node.Sequences{}, waiting: make(chan struct{}, 1)}
	if o != nil {
		g.o = *o
	}
	g.budget.tenths.Store(mostBudget)
	g.o.Logger = cmp.Or(g.o.Logger, slog.Default())
	g.o.Deadline = cmp.Or(g.o.Deadline, 10*time.Second)
	g.o.MaxBehind = cmp.Or(g.o.MaxBehind, 10_000)
	if g.o.HTTP == nil {
		g.o.HTTP = Caller(nil)
	}
	return g
}

// Caller returns a client that calls nodes, and checks their certificates by trust; nil is that of the
// system.
func Caller(trust *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: trust,
	}}
}

// view is what is known of the cluster.
type view struct {
	shardlog.Map

	addresses map[string]string // of nodes
	refused   map[string]error  // why shards take no writes now
}

// log returns a shard as the view has it, nil if the shard or its log is not there any more.
func (v *view) log(s *shardlog.Shard) *shardlog.Shard {
	if x := v.Shard(s.ID); x != nil && x.Epoch == s.Epoch {
		return x
	}
	return nil
}

// A view is used for viewTime, and then until it has been read again. After oldTime requests wait for that.
const (
	viewTime = time.Second
	oldTime  = 10 * time.Second
)

// read returns the view of the cluster, one that is read now if fresh is set.
func (g *Gateway) read(ctx context.Context, fresh bool) (*view, error) {
	now := time.Now()
	g.mu.Lock()
	v, age := g.view, now.Sub(g.at)
	g.mu.Unlock()
	switch {
	case v == nil || fresh:
		g.reading.Lock()
		g.mu.Lock()
		v, age = g.view, now.Sub(g.at)
		g.mu.Unlock()
		if v != nil && age < 0 { // another call has read it
			g.reading.Unlock()
			return v, nil
		}
	case age < viewTime || !g.reading.TryLock():
		return v, nil
	case age < oldTime:
		go func() {
			defer g.reading.Unlock()
			_, _ = g.readNow(context.WithoutCancel(ctx))
		}()
		return v, nil
	}
	defer g.reading.Unlock()
	return g.readNow(ctx)
}

// readNow reads the view. If it cannot, the present one stays, so that reads are answered without the
// key-value store. g.reading is held.
func (g *Gateway) readNow(ctx context.Context) (*view, error) {
	v, begun := &view{addresses: map[string]string{}}, time.Now()
	var err error
	if v.Map, err = g.cluster.Map(ctx); err == nil {
		var nodes []shardlog.NodeInfo
		nodes, err = g.cluster.Nodes(ctx)
		for _, n := range nodes {
			v.addresses[n.ID] = strings.TrimSuffix(n.Address, "/")
		}
		v.refused = pressure(&v.Map, nodes, g.o.MaxBehind)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil && len(v.Shards) == 0:
		return nil, fmt.Errorf("%w: cluster %q has no shards", wire.ErrUnavailable, g.name)
	case err == nil:
		v.remember(g)
		g.view = v
	case g.view == nil || ctx.Err() != nil:
		return nil, fmt.Errorf("%w: the map of the cluster: %w", wire.ErrUnavailable, err)
	default:
		g.o.Logger.Warn("the map of the cluster cannot be read", "error", err)
	}
	g.at = begun
	return g.view, nil
}

// remember adds nodes that do not announce themselves, and are asked after others: servers of the log that
// have no leader, or have lost what was announced, do not know them. g.mu is held.
func (v *view) remember(g *Gateway) {
	if g.view == nil {
		return
	}
	for id, address := range g.view.addresses {
		if v.addresses[id] == "" {
			v.addresses[id] = address
			g.slow.mark(address)
		}
	}
}

// call is a request in progress.
type call struct {
	g    *Gateway
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	view *view
	// least are the sequences that the answer must have seen, seen those that it has.
	least node.Sequences
	seen  node.Sequences
	mu    sync.Mutex // of seen
	begun bool       // a stream
	sent  []byte     // the body, once it was read
}

// route is a pattern of requests and what answers them.
type route struct {
	pattern string
	do      func(*call) (any, error) // returns what server.Reply sends
	names   []string                 // of parameters
}

// moved reads the view again, and reports whether it is another one: the shards may be elsewhere now.
func (c *call) moved() bool {
	ctx, cancel := context.WithTimeout(c.ctx, viewTime)
	defer cancel()
	v, err := c.g.read(ctx, true)
	if err != nil || reflect.DeepEqual(v.Shards, c.view.Shards) {
		return false
	}
	c.view = v
	return true
}

const collection = "/v1/files/{file}/collections/{collection}"

var routes = []route{
	{"GET /readyz", (*call).ready, nil},
	{"GET /v1/files", (*call).files, nil},
	{"GET /v1/files/{file}", (*call).stats, nil},
	{"POST /v1/files/{file}/transactions", (*call).transact, nil},
	{"GET /v1/files/{file}/collections", (*call).collections, nil},
	{"POST /v1/files/{file}/collections", (*call).create, nil},
	{"GET " + collection, (*call).describe, nil},
	{"DELETE " + collection, (*call).drop, nil},
	{"GET " + collection + "/rows", (*call).export, []string{"where", "vectors", "limit"}},
	{"POST " + collection + "/rows", (*call).load, []string{"insert"}},
	{"GET " + collection + "/rows/{key}", (*call).row, nil},
	{"PUT " + collection + "/rows/{key}", (*call).change, nil},
	{"PATCH " + collection + "/rows/{key}", (*call).change, nil},
	{"DELETE " + collection + "/rows/{key}", (*call).change, nil},
	{"POST " + collection + "/search", (*call).search, []string{"partial"}},
	{"POST " + collection + "/predict", (*call).predict, []string{"partial"}},
	{"POST " + collection + "/count", (*call).count, []string{"partial"}},
	{"GET " + collection + "/indexes", (*call).indexes, nil},
	{"POST " + collection + "/indexes/{index}", (*call).build, nil},
	{"DELETE " + collection + "/indexes/{index}", (*call).dropIndex, nil},
}

// notBuilt are the routes of a server that a cluster does not have, and what to do instead.
var notBuilt = map[string]string{
	"GET " + collection + "/map":                   "ask a node",
	"GET " + collection + "/recall.svg":            "ask a node",
	"PATCH " + collection:                          "make another collection",
	"PATCH " + collection + "/indexes/{index}":     "name the index in requests",
	"POST /v1/files/{file}/check":                  "ask each node",
	"POST /v1/files/{file}/maintain":               "nodes maintain their indexes by themselves",
	"POST /v1/files/{file}/compact":                "nodes compact their files by themselves",
	"GET /v1/files/{file}/backup":                  "use anndb-cluster backup",
	"POST /v1/vector_stores/{store}/search":        "use the routes of files",
	"POST /v1/vector_stores/{store}/files":         "use the routes of files",
	"GET /v1/vector_stores/{store}/files/{key}":    "use the routes of files",
	"POST /v1/vector_stores/{store}/files/{key}":   "use the routes of files",
	"DELETE /v1/vector_stores/{store}/files/{key}": "use the routes of files",
}

// Handlers returns the routes of the gateway for server.Options, whose server has no files.
func (g *Gateway) Handlers() map[string]http.Handler {
	out := map[string]http.Handler{}
	for _, r := range routes {
		out[r.pattern] = g.handler(r)
	}
	for pattern, instead := range notBuilt {
		out[pattern] = g.handler(route{pattern, func(*call) (any, error) {
			return nil, fmt.Errorf("%w: %s", wire.ErrNotBuilt, instead)
		}, nil})
	}
	return out
}

// handler answers the requests of a route.
func (g *Gateway) handler(r route) http.Handler {
	return server.Reply(func(w http.ResponseWriter, q *http.Request) (out any, err error) {
		c := &call{g: g, w: w, r: q, ctx: q.Context(), seen: node.Sequences{}}
		if err = c.check(r); err != nil {
			return nil, err
		}
		out, err = r.do(c)
		if errors.Is(err, wire.ErrUnavailable) && server.Reads(q) && !c.begun && c.moved() {
			out, err = r.do(c)
		}
		c.mark()
		return out, err
	})
}

// check checks what all requests have, and reads the view of the cluster.
func (c *call) check(r route) (err error) {
	if name := c.r.PathValue("file"); name != "" && name != c.g.name {
		return fmt.Errorf("%w: no file %q is served, but %q", db.ErrNotFound, name, c.g.name)
	}
	if err := checkName(c.name()); err != nil {
		return err
	}
	for name := range c.r.URL.Query() {
		if !slices.Contains(r.names, name) {
			return fmt.Errorf("%w: unknown parameter %.40q in the address", db.ErrInvalid, name)
		}
	}
	if c.least, err = node.ParseSequences(c.r.Header.Get(Sequence)); err != nil {
		return err
	}
	if c.view, err = c.g.read(c.ctx, false); err != nil || ahead(c.least, &c.view.Map) == nil {
		return err
	}
	if c.view, err = c.g.read(c.ctx, true); err != nil {
		return err
	}
	return ahead(c.least, &c.view.Map)
}

// checkName refuses the collections that nodes have for themselves.
func checkName(collection string) error {
	if strings.HasPrefix(collection, ".") {
		return fmt.Errorf("%w: collection %q", db.ErrNotFound, collection)
	}
	return nil
}

// name returns the name of the collection of the path.
func (c *call) name() string { return c.r.PathValue("collection") }

// flag returns a parameter of the address that is true or false.
func (c *call) flag(name string) (bool, error) {
	switch value := c.r.URL.Query().Get(name); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%w: %s=%.20q, want true or false", db.ErrInvalid, name, value)
	}
}

// decode decodes a body of JSON.
func (c *call) decode(into any) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	return wire.Unmarshal(body, into)
}

// maxBody bounds the bodies that are held in memory.
const maxBody = 32 << 20

// body returns a body of JSON.
func (c *call) body() ([]byte, error) {
	if t, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";"); strings.TrimSpace(t) != wire.JSON {
		return nil, fmt.Errorf("%w: %.100q, want %s", wire.ErrType, c.r.Header.Get("Content-Type"), wire.JSON)
	}
	if c.sent != nil {
		return c.sent, nil
	}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("%w: more than %d bytes", wire.ErrTooLarge, maxBody)
	}
	if err == nil {
		c.sent = body
	}
	return body, err
}

// mark sets the sequences that the answer has seen.
func (c *call) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) > 0 {
		c.w.Header().Set(Sequence, c.seen.String())
	}
}

// note notes that the answer has seen a message of a log.
func (c *call) note(l node.Log, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Raise(l, n)
}
