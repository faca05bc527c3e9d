package shardlog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/internal/wire"
)

// Map has the shards of a cluster.
type Map struct {
	ID     string  `json:"id"`     // of the cluster, by chance: the files of nodes have it as well
	Shards []Shard `json:"shards"` // by their ranges, which cover all hashes
	Splits []Split `json:"splits,omitempty"`

	version uint64
}

// Shard is a range of hashes, whose rows are in files of nodes, and whose changes are in a log.
type Shard struct {
	ID    string `json:"id"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"` // inclusive
	// Epoch counts the logs that the shard has had, from 1. Sequences begin again with each.
	Epoch int `json:"epoch"`
	// Created is when the servers made the log, in nanoseconds.
	Created  int64    `json:"created,omitempty"`
	Replicas []string `json:"replicas"`
	// Joining are nodes that copy the shard and do not count as replicas yet.
	Joining []string `json:"joining,omitempty"`
	// Base is what precedes the log: a file that has this of another log may continue with it. Without it
	// the shard was empty.
	Base *Position `json:"base,omitempty"`
	// Parent is the shard that was split into this one and another, until there is a snapshot of this one.
	// Replicas that do not have its log up to Base yet follow it.
	Parent *Shard `json:"parent,omitempty"`
}

// Position is a place in a log: behind the message with the sequence and the mark.
type Position struct {
	Shard    string `json:"shard"`
	Epoch    int    `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	Mark     Mark   `json:"mark"`
}

// Split is a split in progress: the replicas of a shard make files of its parts, which follow its log.
type Split struct {
	Shard string   `json:"shard"`
	Parts [2]Shard `json:"parts"`
}

// Owns reports whether the row of a key is in the shard.
func (s *Shard) Owns(key []byte) bool {
	h := Hash(key)
	return s.First <= h && h <= s.Last
}

// On reports whether a node has the shard, or copies it.
func (s *Shard) On(node string) bool {
	return slices.Contains(s.Replicas, node) || slices.Contains(s.Joining, node)
}

// Hash returns the hash that selects the shard of a row, the first eight bytes of the SHA-256 of its key.
func Hash(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}

// Ranges returns n shards "0", "1", … with ranges of equal width and no replicas.
func Ranges(n int) []Shard {
	out := make([]Shard, n)
	width := math.MaxUint64 / uint64(n)
	for i := range out {
		out[i] = Shard{ID: strconv.Itoa(i), First: uint64(i) * width, Last: uint64(i+1)*width - 1, Epoch: 1}
	}
	out[n-1].Last = math.MaxUint64
	return out
}

// Find returns the shard of a key.
func (m *Map) Find(key []byte) *Shard {
	i := slices.IndexFunc(m.Shards, func(s Shard) bool { return s.Owns(key) })
	return &m.Shards[i] // a valid map has one
}

// Shard returns the shard with the id, nil if there is none.
func (m *Map) Shard(id string) *Shard {
	if i := slices.IndexFunc(m.Shards, func(s Shard) bool { return s.ID == id }); i >= 0 {
		return &m.Shards[i]
	}
	return nil
}

// All returns the shards, and the parts of splits in progress.
func (m *Map) All() []Shard {
	out := slices.Clone(m.Shards)
	for _, s := range m.Splits {
		out = append(out, s.Parts[:]...)
	}
	return out
}

// check returns an error for shards with gaps, overlaps or names that they cannot have.
func (m *Map) check() error {
	next, ids := uint64(0), map[string]bool{}
	if m.ID == "" || len(m.Shards) == 0 {
		return fmt.Errorf("%w: the map of the cluster is empty", ErrCorrupt)
	}
	for i, s := range m.Shards {
		if s.First != next || s.Last < s.First || (i == len(m.Shards)-1) != (s.Last == math.MaxUint64) {
			return fmt.Errorf("%w: the map of the cluster has a gap or an overlap at shard %q", ErrCorrupt, s.ID)
		}
		next = s.Last + 1
	}
	for _, s := range m.All() {
		if err := CheckName(s.ID); err != nil || ids[s.ID] || s.Epoch < 1 {
			return fmt.Errorf("%w: the map of the cluster has a bad shard %.40q", ErrCorrupt, s.ID)
		}
		ids[s.ID] = true
		on := slices.Sorted(slices.Values(slices.Concat(s.Replicas, s.Joining)))
		if len(slices.Compact(on)) < len(s.Replicas)+len(s.Joining) {
			return fmt.Errorf("%w: the map of the cluster has a node twice in shard %q", ErrCorrupt, s.ID)
		}
	}
	return nil
}

// leases returns the store of what nodes say about themselves, and makes it if it is not there. It is
// in memory, since servers (2.15.2) that lose power can fail for ever to elect a leader of a stream in
// files whose first messages expire; a single server that ends loses it.
func (c *Cluster) leases(ctx context.Context) (jetstream.KeyValue, error) {
	o := jetstream.KeyValueConfig{
		Bucket: c.store("_nodes"), TTL: Lease, Replicas: c.copies(), Storage: jetstream.MemoryStorage,
	}
	s, err := c.js.KeyValue(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = c.js.CreateOrUpdateKeyValue(ctx, o)
	}
	return s, err
}

// mapKey is the key of the map.
const mapKey = "map"

// Create makes a cluster of shards with empty logs. Errors: ErrExists.
func (c *Cluster) Create(ctx context.Context, shards []Shard) (m Map, err error) {
	m = Map{ID: rand.Text(), Shards: slices.Clone(shards)}
	if err := m.check(); err != nil {
		return m, err
	}
	if old, err := c.Map(ctx); err == nil {
		return old, fmt.Errorf("%w: %q", ErrExists, c.o.Cluster)
	}
	n := c.copies()
	keep := jetstream.KeyValueConfig{Bucket: c.store(""), History: 5, Replicas: n}
	_, err = c.js.CreateOrUpdateKeyValue(ctx, keep)
	if err == nil {
		_, err = c.leases(ctx)
	}
	if err == nil {
		_, err = c.objects(ctx)
	}
	if err != nil {
		return m, failure(err, "create the stores of cluster "+c.o.Cluster)
	}
	st, err := c.stores(ctx)
	if err != nil {
		return m, err
	}
	for i := range m.Shards {
		if err := c.CreateLog(ctx, &m.Shards[i]); err != nil {
			return m, err
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	m.version, err = st.maps.Create(ctx, mapKey, body)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return m, fmt.Errorf("%w: %q", ErrExists, c.o.Cluster)
	}
	return m, failure(err, "store the map")
}

// Map returns the map, since the last Change of this connection at least. Errors: ErrNoCluster, ErrFormat.
func (c *Cluster) Map(ctx context.Context) (m Map, err error) {
	for end := time.Now().Add(staleness); ; {
		least := c.changed.Load()
		if m, err = c.readMap(ctx); err != nil || m.version >= least {
			return m, err
		}
		if time.Now().After(end) { // the servers were restored
			c.changed.CompareAndSwap(least, 0)
			return m, nil
		}
		if err = Pause(ctx, 10*time.Millisecond); err != nil {
			return m, err
		}
	}
}

// staleness is how far a server that answers may be behind the others.
const staleness = 3 * time.Second

// readMap returns the map as one of the servers has it, which may be behind the others.
func (c *Cluster) readMap(ctx context.Context) (m Map, err error) {
	e, err := ask(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		st, err := c.stores(ctx)
		if err != nil {
			return nil, err
		}
		return st.maps.Get(ctx, mapKey)
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return m, c.missing()
	case errors.Is(err, ErrNoCluster):
		return m, err
	case err != nil:
		return m, failure(err, "read the map")
	}
	return c.decodeMap(e)
}

func (c *Cluster) decodeMap(e jetstream.KeyValueEntry) (m Map, err error) {
	if err = wire.Unmarshal(e.Value(), &m); err != nil {
		kind := ErrFormat
		if !json.Valid(e.Value()) {
			kind = ErrCorrupt
		}
		err = fmt.Errorf("%w: the map of the cluster: %w", kind, err)
	} else {
		m.version, err = e.Revision(), m.check()
	}
	if err != nil {
		err = fmt.Errorf("%w (earlier ones: nats kv history %s %s)", err, c.store(""), mapKey)
	}
	return m, err
}

// Change changes the map by a function, again as often as others change it at the same time.
func (c *Cluster) Change(ctx context.Context, change func(*Map) error) (Map, error) {
	for {
		m, err := c.Map(ctx)
		if err != nil {
			return m, err
		}
		if err := change(&m); err != nil {
			return m, err
		}
		if err := m.check(); err != nil {
			return m, err
		}
		body, err := json.Marshal(m)
		if err != nil {
			return m, err
		}
		st, err := c.stores(ctx)
		if err != nil {
			return m, err
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		version, err := st.maps.Update(limited, mapKey, body, m.version)
		cancel()
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // another version
			continue
		}
		if err == nil {
			m.version = version
			c.changed.Store(version)
		}
		return m, failure(err, "store the map")
	}
}

// Watch calls f with the map, and whenever it has become another one, until the context ends or f
// returns false.
func (c *Cluster) Watch(ctx context.Context, f func(Map) bool) error {
	var seen Map // servers that were restored have an older version
	for ctx.Err() == nil {
		var err error
		if seen, err = c.follow(ctx, seen, f); err != nil {
			return nil
		}
		m, err := c.Map(ctx)
		if err != nil && !errors.Is(err, ErrUnreachable) {
			return err
		}
		if err == nil && !reflect.DeepEqual(m, seen) {
			if seen = m; !f(m) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// errEnough: a function wants no more maps.
var errEnough = errors.New("enough")

// follow calls f with each later version of the map, for two seconds, and returns the last one. Errors:
// errEnough.
func (c *Cluster) follow(ctx context.Context, seen Map, f func(Map) bool) (Map, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var updates <-chan jetstream.KeyValueEntry // which never comes if the servers do not answer
	if st, err := c.stores(ctx); err == nil {
		if w, err := st.maps.Watch(ctx, mapKey); err == nil {
			defer func() { _ = w.Stop() }()
			updates = w.Updates()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return seen, nil
		case e, open := <-updates:
			if !open { // the connection is closed
				updates = nil
			}
			if e == nil || e.Revision() <= seen.version {
				continue
			}
			if m, err := c.decodeMap(e); err == nil {
				if seen = m; !f(m) {
					return seen, errEnough
				}
			}
		}
	}
}

// NodeInfo is what a node says about itself.
type NodeInfo struct {
	ID      string            `json:"id"`
	Address string            `json:"address"` // the URL of its server
	Shards  map[string]Status `json:"shards"`
}

// States of a shard on a node.
const (
	Restoring = "restoring" // the node copies a snapshot
	Following = "following" // it serves the shard, and applies the log
	Stopped   = "stopped"   // it serves nothing; Error is the reason
)

// Status is the state of a shard on a node.
type Status struct {
	Position        // of the file: what it has applied
	Last     uint64 `json:"last"`               // that of the last message of the log, a second ago
	Snapshot uint64 `json:"snapshot,omitempty"` // that of the newest snapshot
	State    string `json:"state"`
	Lost     bool   `json:"lost,omitempty"`    // the node has messages that the log has lost
	Foreign  uint64 `json:"foreign,omitempty"` // messages of other programs, which changed nothing
	Error    string `json:"error,omitempty"`   // what prevents progress
}

// Behind returns the number of messages that the log has and the node has not applied.
func (s *Status) Behind() uint64 { return max(s.Last, s.Sequence) - s.Sequence }

// Announce stores what a node says about itself, for the time of a Lease.
func (c *Cluster) Announce(ctx context.Context, n *NodeInfo) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	st, err := c.stores(ctx)
	if err != nil {
		return err
	}
	_, err = ask(ctx, func(ctx context.Context) (uint64, error) { return st.nodes.Put(ctx, "node."+n.ID, body) })
	if err != nil {
		c.found.Store(nil) // the next call makes a store that is lost
	}
	return failure(err, "announce node "+n.ID)
}

// Nodes returns the nodes that have announced themselves during the last Lease, by the clock of the servers.
func (c *Cluster) Nodes(ctx context.Context) ([]NodeInfo, error) { return ask(ctx, c.nodes) }

func (c *Cluster) nodes(ctx context.Context) ([]NodeInfo, error) {
	st, err := c.stores(ctx)
	if err != nil {
		return nil, err
	}
	w, err := st.nodes.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		c.found.Store(nil)
		return nil, failure(err, "list the nodes")
	}
	defer func() { _ = w.Stop() }()
	var out []NodeInfo
	for {
		select {
		case <-ctx.Done():
			return nil, failure(ctx.Err(), "list the nodes")
		case e := <-w.Updates():
			if e == nil {
				return out, nil
			}
			var n NodeInfo
			if json.Unmarshal(e.Value(), &n) == nil {
				out = append(out, n)
			}
		}
	}
}
