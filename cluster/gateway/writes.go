package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/change"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// retryTime is the pause before a write is sent again whose outcome is not known, or a replica is asked
// again.
const retryTime = 50 * time.Millisecond

// change changes the row of the path if it has a version that the request wants.
func (c *call) change() (any, error) {
	key := []byte(c.r.PathValue("key"))
	o := wire.Operation{Op: wire.Delete, Collection: c.name(), Key: wire.NewKey(key)}
	var in wire.Transaction
	if c.r.Method != http.MethodDelete {
		o.Op = wire.Put
		if c.r.Method == http.MethodPatch {
			o.Op = wire.Update
		}
		var err error
		if o.Row, err = c.body(); err != nil {
			return nil, err
		}
	}
	if none := c.r.Header.Get("If-None-Match"); none != "" && o.Op == wire.Put {
		if strings.TrimSpace(none) != "*" {
			return nil, fmt.Errorf("%w: If-None-Match %.100q, want *", wire.ErrNotBuilt, none)
		}
		o.Op = wire.Insert
	}
	if want := strings.TrimSpace(c.r.Header.Get("If-Match")); want != "" {
		version, ok := strings.CutPrefix(want, `"`)
		version, ok2 := strings.CutSuffix(version, `"`)
		if !ok || !ok2 || version == "" || strings.Contains(version, `"`) {
			return nil, fmt.Errorf("%w: If-Match %.100q, want one version in quotes", wire.ErrNotBuilt, want)
		}
		in.If = []wire.Condition{{Collection: o.Collection, Key: o.Key, Version: version}}
	}
	in.Operations = []wire.Operation{o}
	versions, err := c.commit(&in)
	switch {
	case err != nil:
		return nil, err
	case versions == nil: // logged
		return server.Answer{Status: http.StatusAccepted, Value: wire.Stored{}}, nil
	case o.Op == wire.Delete:
		return nil, nil
	}
	c.w.Header().Set("ETag", `"`+versions[0]+`"`)
	return wire.Stored{Version: versions[0]}, nil
}

// transact makes all changes of a request in one commit of one shard if its conditions hold, otherwise none.
func (c *call) transact() (any, error) {
	var in wire.Transaction
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if len(in.If)+len(in.Operations) == 0 {
		return wire.Committed{Versions: []string{}}, nil
	}
	versions, err := c.commit(&in)
	if versions == nil { // logged
		return server.Answer{Status: http.StatusAccepted, Value: wire.Committed{Versions: []string{}}}, err
	}
	return wire.Committed{Versions: versions}, err
}

// commit makes a transaction, and returns the versions of its rows; nil if it was acknowledged when the
// log had it.
func (c *call) commit(in *wire.Transaction) ([]string, error) {
	keys, err := c.keysOf(in)
	if err != nil {
		return nil, err
	}
	logged, err := c.logged(in)
	if err != nil {
		return nil, err
	}
	id := rand.Text()
	for {
		s := c.view.Find(keys[0])
		for _, key := range keys[1:] {
			if other := c.view.Find(key); other != s {
				return nil, fmt.Errorf("%w: a transaction of rows in two shards, %.40q in %s and %.40q in %s",
					wire.ErrNotBuilt, keys[0], s.ID, key, other.ID)
			}
		}
		n, err := c.publish(s, id, &shardlog.Message{Transaction: in, Versions: !logged})
		if errors.Is(err, shardlog.ErrSealed) {
			if c.view, err = c.again(s); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil && logged {
			c.g.acknowledge(s, n)
		}
		if err != nil || logged {
			return nil, err
		}
		result, err := c.applied(s, n)
		if err != nil {
			return nil, err
		}
		if len(result.Versions) != len(in.Operations) {
			return nil, fmt.Errorf("shard %s: %d versions of %d rows", s.ID, len(result.Versions), len(in.Operations))
		}
		return append([]string{}, result.Versions...), nil
	}
}

// again waits until the map does not have the log of a shard any more, which was sealed, and returns the
// view then.
func (c *call) again(s *shardlog.Shard) (*view, error) {
	g := c.g
	select {
	case g.waiting <- struct{}{}: // others use what this call has seen
		defer func() { <-g.waiting }()
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	v, err := g.read(c.ctx, false)
	if err != nil || v.log(s) == nil {
		return v, err
	}
	next := &view{addresses: v.addresses}
	err = g.cluster.Watch(c.ctx, func(m shardlog.Map) bool {
		next.Map = m
		return next.log(s) != nil
	})
	if next.log(s) != nil || len(next.Shards) == 0 {
		return nil, fmt.Errorf("%w: the log of shard %s is sealed, and the map has no other one yet "+
			"(if its split has failed, split it again): %w", wire.ErrUnavailable, s.ID, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.view = next
	return next, nil
}

// logged reports whether a transaction is acknowledged when the log has it. No replica has checked its
// conditions then, so it may have none.
func (c *call) logged(in *wire.Transaction) (bool, error) {
	logged := c.g.o.Logged
	conditional := len(in.If) > 0
	for _, o := range in.Operations {
		conditional = conditional || o.Op == wire.Insert || o.Op == wire.Update
	}
	switch how := c.r.Header.Get(Acknowledge); how {
	case "":
		return logged && !conditional, nil
	case "applied":
		return false, nil
	case "logged":
		if conditional {
			return false, fmt.Errorf("%w: header %s: logged, and the write has conditions, which are checked later",
				db.ErrInvalid, Acknowledge)
		}
		return true, nil
	default:
		return false, fmt.Errorf("%w: header %s: %.40q, want logged or applied", db.ErrInvalid, Acknowledge, how)
	}
}

// keysOf checks a transaction, and returns the keys of its rows.
func (c *call) keysOf(in *wire.Transaction) (keys [][]byte, err error) {
	infos := map[string]*db.CollectionInfo{}
	key := func(coll string, o *wire.Operation) error {
		info := infos[coll]
		if info == nil {
			i, err := c.info(coll)
			if err != nil {
				return err
			}
			info, infos[coll] = &i, &i
		}
		k, err := checkOperation(o, info)
		keys = append(keys, k)
		return err
	}
	for i, x := range in.If {
		if err := key(x.Collection, &wire.Operation{Op: wire.Delete, Key: x.Key}); err != nil {
			return nil, fmt.Errorf("condition %d: %w", i, err)
		}
	}
	for i := range in.Operations {
		if err := key(in.Operations[i].Collection, &in.Operations[i]); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return keys, nil
}

// checkOperation returns the key of the row of an operation. It refuses rows that a node would.
func checkOperation(o *wire.Operation, info *db.CollectionInfo) ([]byte, error) {
	ch, err := change.New(o, nil, info)
	if err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	if o.Op == wire.Update {
		_ = json.Unmarshal(o.Row, &parts)
	}
	row := ch.Row()
	if _, has := parts["expires"]; has || row != nil && !row.ExpiresAt.IsZero() {
		return nil, fmt.Errorf("%w: rows that expire: the clocks of replicas differ", wire.ErrNotBuilt)
	}
	key := ch.Key()
	if len(key) == 0 || len(key) > 512 {
		return nil, fmt.Errorf("%w: key %.40q has %d bytes, want 1 to 512", db.ErrInvalid, key, len(key))
	}
	if row != nil {
		return key, info.CheckRow(*row)
	}
	return key, nil
}

// info describes a collection, by one of its parts: a shard without replicas keeps no other from writes.
func (c *call) info(name string) (out db.CollectionInfo, err error) {
	if err := checkName(name); err != nil {
		return out, err
	}
	for range c.view.Shards {
		at := c.g.describes.Load()
		out, err = part{c: c, s: &c.view.Shards[int(at)%len(c.view.Shards)], name: name}.Info(c.ctx)
		if !errors.Is(err, wire.ErrUnavailable) {
			return out, err
		}
		c.g.describes.CompareAndSwap(at, at+1)
	}
	return out, err
}

// publish appends a message to the log of a shard: once, however often it has to be sent.
func (c *call) publish(s *shardlog.Shard, id string, m *shardlog.Message) (n uint64, err error) {
	if err := c.view.refused[s.ID]; err != nil {
		return 0, err
	}
	unknown := false
	for wait := retryTime; ; wait = min(2*wait, 8*retryTime) {
		n, err = c.g.cluster.Publish(c.ctx, s, id, m)
		if errors.Is(err, shardlog.ErrUnknown) || unknown && errors.Is(err, shardlog.ErrUnreachable) {
			unknown = true // until it is sent again
			if shardlog.Pause(c.ctx, wait) == nil {
				continue
			}
			return 0, fmt.Errorf("%w: whether the log of shard %s has the write: %w", db.ErrUnknownState, s.ID, err)
		}
		if errors.Is(err, shardlog.ErrSealed) && unknown {
			at, found, findErr := c.g.cluster.Find(c.ctx, s, id)
			switch {
			case findErr != nil:
				return 0, fmt.Errorf("%w: whether the log of shard %s has the write: %w", db.ErrUnknownState, s.ID,
					findErr)
			case found:
				n, err = at, nil
			}
		}
		break
	}
	switch {
	case errors.Is(err, shardlog.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", wire.ErrTooLarge, err)
	case errors.Is(err, shardlog.ErrSealed):
		return 0, err
	case err != nil && unknown:
		return 0, fmt.Errorf("%w: whether the log of shard %s has the write: %w", db.ErrUnknownState, s.ID, err)
	case err != nil:
		return 0, fmt.Errorf("%w: the log of shard %s: %w", wire.ErrUnavailable, s.ID, err)
	}
	c.note(node.LogOf(s), n)
	return n, nil
}

// acknowledge has all reads of the gateway see a message.
func (g *Gateway) acknowledge(s *shardlog.Shard, n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.Raise(node.LogOf(s), n)
}

// applied waits until a majority of the replicas of a shard has applied a message, and returns what became of
// it.
func (c *call) applied(s *shardlog.Shard, n uint64) (out node.Applied, err error) {
	return c.majority(s, n, "/cluster/applied")
}

// majority asks the replicas of a shard about a message until a majority answers that it is applied, or its
// build has ended, and returns what one of these knows. Replicas may change during the call.
func (c *call) majority(s *shardlog.Shard, n uint64, path string) (out node.Applied, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	type answer struct {
		id string
		node.Applied
	}
	q := &question{method: http.MethodGet, path: path + "?" + url.Values{
		"shard": {s.ID}, "epoch": {strconv.Itoa(s.Epoch)}, "sequence": {strconv.FormatUint(n, 10)},
	}.Encode()}
	answers := make(chan answer)
	wait := func(id string) {
		for ctx.Err() == nil {
			if v, err := c.g.read(ctx, false); err == nil && v.addresses[id] != "" {
				a := answer{id: id}
				reply, err := c.send(ctx, s, v.addresses[id], q)
				if err == nil && json.Unmarshal(reply.body, &a.Applied) == nil && a.Applied.Applied >= n {
					select {
					case answers <- a:
					case <-ctx.Done():
					}
					return
				}
			}
			_ = shardlog.Pause(ctx, retryTime)
		}
	}
	asked, has := map[string]bool{}, map[string]bool{}
	look := time.NewTicker(viewTime)
	defer look.Stop()
	for {
		done := 0
		for _, id := range s.Replicas {
			if has[id] {
				done++
			}
			if !asked[id] {
				asked[id] = true
				go wait(id)
			}
		}
		if done > len(s.Replicas)/2 {
			c.g.acknowledge(s, n)
			return out, outcome(&out, s, n)
		}
		select {
		case a := <-answers:
			has[a.id] = true
			if a.Known {
				out = a.Applied
			}
			if out.Error != nil {
				out.Error.Status = wire.NewError(out.Error).Status // which is not sent
			}
		case <-look.C:
			if s, err = c.g.current(ctx, s); err != nil {
				return out, err
			}
		case <-ctx.Done():
			return out, fmt.Errorf("the log has the write, sequence %d of shard %s, and a majority of the "+
				"%d replicas has not applied it yet: %w", n, s.ID, len(s.Replicas), ctx.Err())
		}
	}
}

// outcome returns the error of a message that is applied.
func outcome(a *node.Applied, s *shardlog.Shard, n uint64) error {
	switch {
	case !a.Known:
		return fmt.Errorf("%w: shard %s has applied sequence %d, and its result is forgotten",
			db.ErrUnknownState, s.ID, n)
	case a.Error != nil:
		return a.Error
	}
	return nil
}

// current returns a shard as the latest view has it.
func (g *Gateway) current(ctx context.Context, s *shardlog.Shard) (*shardlog.Shard, error) {
	v, err := g.read(ctx, false)
	if err != nil {
		return s, nil // another look may succeed
	}
	if now := v.log(s); now != nil {
		return now, nil
	}
	return nil, fmt.Errorf("%w: shard %s was split or recovered while it applied the write",
		db.ErrUnknownState, s.ID)
}

// everywhere appends a message to the logs of all shards, and waits until it is applied. It is done if some
// shards have done it, and the others had it done before, which is the error had.
func (c *call) everywhere(m *shardlog.Message, had error) error {
	defer c.g.infos.Clear() // collections and models may have changed
	id, done := rand.Text(), false
	for {
		failed := make([]error, len(c.view.Shards))
		err := c.scatter(func(i int, s *shardlog.Shard) error {
			n, err := c.publish(s, id, m)
			if err == nil {
				_, err = c.applied(s, n)
			}
			if err == nil && m.Build != nil {
				if _, err = c.majority(s, n, "/cluster/built"); err != nil {
					err = fmt.Errorf("shard %s: %w", s.ID, err)
				}
			}
			failed[i] = err
			return nil
		})
		if err != nil {
			return err
		}
		var sealed *shardlog.Shard
		for i, e := range failed {
			if errors.Is(e, shardlog.ErrSealed) {
				sealed = &c.view.Shards[i]
			}
			done = done || e == nil
			if e != nil && !(had != nil && errors.Is(e, had)) && err == nil {
				err = e
			}
		}
		switch {
		case sealed != nil:
			if c.view, err = c.again(sealed); err != nil {
				return err
			}
		case err == nil && !done:
			return failed[0]
		default:
			return err
		}
	}
}

// create makes a collection in all shards.
func (c *call) create() (any, error) {
	var in wire.NewCollection
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.Name, ".") {
		return nil, fmt.Errorf("%w: collection %.40q: names that begin with a dot are those of nodes",
			db.ErrInvalid, in.Name)
	}
	c.r.SetPathValue("collection", in.Name)
	if err := c.everywhere(&shardlog.Message{Create: &in}, db.ErrExists); err != nil {
		return nil, err
	}
	out, err := c.described()
	out.Labels = nil
	return server.Answer{Status: http.StatusCreated, Value: out}, err
}

// drop removes a collection from all shards.
func (c *call) drop() (any, error) {
	return nil, c.everywhere(&shardlog.Message{Drop: c.name()}, db.ErrNotFound)
}

// build builds an index in all shards.
func (c *call) build() (any, error) {
	var in wire.Build
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if _, err := in.Get(); err != nil {
		return nil, err
	}
	name := c.r.PathValue("index")
	m := &shardlog.Message{Build: &shardlog.Build{Collection: c.name(), Index: name, Build: in}}
	if err := c.everywhere(m, nil); err != nil {
		return nil, err
	}
	list, err := c.indexesOf()
	for _, x := range list.Indexes {
		if x.Name == name {
			return x, nil
		}
	}
	return nil, cmp.Or(err, fmt.Errorf("%w: index %q was dropped since it was built", db.ErrNotFound, name))
}

func (c *call) dropIndex() (any, error) {
	drop := &shardlog.Build{Collection: c.name(), Index: c.r.PathValue("index"), Drop: true}
	return nil, c.everywhere(&shardlog.Message{Build: drop}, db.ErrNotFound)
}
