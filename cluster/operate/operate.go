// Package operate changes which nodes have the shards of a cluster, while the cluster serves.
package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
)

// every is the time between looks at what nodes say about themselves, which they do when it changes.
const every = 100 * time.Millisecond

// Move has a node take the place of another one as a replica of a shard: it copies the shard, and once it has
// all that the log had when it began to follow it, the other one leaves. An empty from only adds a replica.
// If the context ends before, the move continues when Move is called again; Remove takes it back.
func Move(ctx context.Context, c *shardlog.Cluster, shard, from, to string) error {
	err := change(ctx, c, shard, func(m *shardlog.Map, s *shardlog.Shard) error {
		switch {
		case from != "" && !slices.Contains(s.Replicas, from):
			return fmt.Errorf("shard %s: node %q is no replica, but %v are", shard, from, s.Replicas)
		case slices.Contains(s.Replicas, to):
			return fmt.Errorf("shard %s: node %q is a replica already", shard, to)
		case inSplit(m, shard):
			return fmt.Errorf("shard %s: it is being split", shard)
		case !slices.Contains(s.Joining, to):
			if err := await(ctx, c, to); err != nil {
				return fmt.Errorf("shard %s: %w", shard, err)
			}
			s.Joining = append(s.Joining, to)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = until(ctx, c, func(m *shardlog.Map, nodes map[string]shardlog.NodeInfo) (bool, error) {
		s := m.Shard(shard)
		if s == nil {
			return false, fmt.Errorf("shard %s is not there any more", shard)
		}
		st := nodes[to].Shards[shard]
		return st.State == shardlog.Following && st.Shard == s.ID && st.Epoch == s.Epoch &&
			st.Sequence >= st.Last, nil
	})
	if err != nil {
		return fmt.Errorf("shard %s: node %s does not become a replica (call again, or remove it): %w",
			shard, to, err)
	}
	return change(ctx, c, shard, func(_ *shardlog.Map, s *shardlog.Shard) error {
		if !slices.Contains(s.Joining, to) {
			return fmt.Errorf("%w: %s", errOther, shard)
		}
		s.Joining = without(s.Joining, to)
		s.Replicas = append(without(s.Replicas, from), to)
		return nil
	})
}

// change changes a shard of the map.
func change(
	ctx context.Context, c *shardlog.Cluster, shard string, f func(*shardlog.Map, *shardlog.Shard) error,
) error {
	_, err := c.Change(ctx, func(m *shardlog.Map) error {
		s := m.Shard(shard)
		if s == nil {
			return fmt.Errorf("the cluster has no shard %q", shard)
		}
		return f(m, s)
	})
	return err
}

func without(nodes []string, node string) []string {
	return slices.DeleteFunc(nodes, func(id string) bool { return id == node })
}

// await waits until a node runs, which may have been started just now.
func await(ctx context.Context, c *shardlog.Cluster, node string) error {
	ctx, cancel := context.WithTimeout(ctx, shardlog.Lease/2)
	defer cancel()
	var known []string
	err := until(ctx, c, func(_ *shardlog.Map, nodes map[string]shardlog.NodeInfo) (bool, error) {
		known = slices.Sorted(maps.Keys(nodes))
		return slices.Contains(known, node), nil
	})
	if err != nil {
		return fmt.Errorf("node %q does not run, but %q do: %w", node, known, err)
	}
	return nil
}

// Remove removes a replica of a shard, or a node that is joining.
func Remove(ctx context.Context, c *shardlog.Cluster, shard, node string) error {
	return change(ctx, c, shard, func(_ *shardlog.Map, s *shardlog.Shard) error {
		if !s.On(node) {
			return fmt.Errorf("node %q has no shard %q", node, shard)
		}
		s.Replicas, s.Joining = without(s.Replicas, node), without(s.Joining, node)
		if len(s.Replicas) == 0 {
			return fmt.Errorf("node %q is the only replica of shard %s", node, shard)
		}
		return nil
	})
}

// errOther: another operation has changed the map.
var errOther = errors.New("another operation has changed the shard")

func inSplit(m *shardlog.Map, shard string) bool {
	return slices.ContainsFunc(m.Splits, func(s shardlog.Split) bool { return s.Shard == shard })
}

// until looks at the map and the nodes until a condition holds.
func until(ctx context.Context, c *shardlog.Cluster,
	done func(*shardlog.Map, map[string]shardlog.NodeInfo) (bool, error),
) error {
	for {
		m, nodes, err := Look(ctx, c)
		if err == nil {
			ok, err := done(&m, nodes)
			if ok || err != nil {
				return err
			}
		}
		if ended := shardlog.Pause(ctx, every); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// Look returns the map, and the nodes that run by their names.
func Look(ctx context.Context, c *shardlog.Cluster) (shardlog.Map, map[string]shardlog.NodeInfo, error) {
	m, err := c.Map(ctx)
	if err != nil {
		return m, nil, err
	}
	list, err := c.Nodes(ctx)
	nodes := map[string]shardlog.NodeInfo{}
	for _, n := range list {
		nodes[n.ID] = n
	}
	return m, nodes, err
}

// Split divides a shard into two with half of its hashes each, whose names are that of the shard with a
// and b. The nodes of the shard make a file of each part, which follows the shard's log. Once they have
// caught up, the log is sealed, and the parts, which may not have its last messages yet, have logs of
// their own. Until then Split can be called again.
func Split(ctx context.Context, c *shardlog.Cluster, shard string) error {
	m, err := c.Map(ctx)
	if err != nil {
		return err
	}
	parent := m.Shard(shard)
	if parent == nil {
		return fmt.Errorf("the cluster has no shard %q", shard)
	}
	if !inSplit(&m, shard) {
		if err := prepare(ctx, c, parent); err != nil {
			return err
		}
	}
	var split shardlog.Split
	err = until(ctx, c, func(m *shardlog.Map, nodes map[string]shardlog.NodeInfo) (bool, error) {
		i := slices.IndexFunc(m.Splits, func(s shardlog.Split) bool { return s.Shard == shard })
		if i < 0 {
			return false, fmt.Errorf("%w: %s", errOther, shard)
		}
		split, parent = m.Splits[i], m.Shard(shard)
		// All that live, so that the parts need not be copied.
		return caughtUp(parent, &split, nodes), nil
	})
	if err != nil {
		return fmt.Errorf("split of shard %s: %w", shard, err)
	}
	final, err := c.Seal(ctx, parent)
	if err != nil {
		return err
	}
	base, err := c.At(ctx, parent, final)
	if err != nil {
		return fmt.Errorf("split of shard %s: its log is sealed (call again): %w", shard, err)
	}
	return change(ctx, c, shard, func(m *shardlog.Map, s *shardlog.Shard) error {
		if !inSplit(m, shard) {
			return fmt.Errorf("%w: %s", errOther, shard)
		}
		for j := range split.Parts {
			p := &split.Parts[j]
			p.Replicas, p.Base, p.Parent = slices.Clone(s.Replicas), &base, parent
		}
		i := slices.IndexFunc(m.Shards, func(s shardlog.Shard) bool { return s.ID == shard })
		m.Shards = slices.Replace(m.Shards, i, i+1, split.Parts[:]...)
		m.Splits = slices.DeleteFunc(m.Splits, func(s shardlog.Split) bool { return s.Shard == shard })
		return nil
	})
}

// prepare makes the logs of the parts of a split, and has the nodes begin.
func prepare(ctx context.Context, c *shardlog.Cluster, parent *shardlog.Shard) error {
	if parent.First == parent.Last {
		return fmt.Errorf("shard %s has only one hash", parent.ID)
	}
	middle := parent.First + (parent.Last-parent.First)/2
	split := shardlog.Split{Shard: parent.ID, Parts: [2]shardlog.Shard{
		{ID: parent.ID + "a", First: parent.First, Last: middle, Epoch: 1, Replicas: parent.Replicas},
		{ID: parent.ID + "b", First: middle + 1, Last: parent.Last, Epoch: 1, Replicas: parent.Replicas},
	}}
	for i := range split.Parts {
		if err := c.CreateLog(ctx, &split.Parts[i]); err != nil {
			return err
		}
	}
	return change(ctx, c, parent.ID, func(m *shardlog.Map, s *shardlog.Shard) error {
		if len(s.Joining) > 0 {
			return fmt.Errorf("shard %s: a node is joining", parent.ID)
		}
		if !inSplit(m, parent.ID) {
			m.Splits = append(m.Splits, split)
		}
		return nil
	})
}

// caughtUp reports whether a majority of the replicas, and all that live, have files of both parts, which
// have applied what they know of the parent's log.
func caughtUp(parent *shardlog.Shard, split *shardlog.Split, nodes map[string]shardlog.NodeInfo) bool {
	ready, live := 0, 0
	for _, id := range parent.Replicas {
		n, ok := nodes[id]
		if !ok {
			continue
		}
		live++
		behind := slices.ContainsFunc(split.Parts[:], func(part shardlog.Shard) bool {
			st := n.Shards[part.ID]
			return st.Shard != parent.ID || st.Epoch != parent.Epoch || st.Behind() > 0
		})
		if !behind {
			ready++
		}
	}
	return ready > len(parent.Replicas)/2 && ready == live
}

// Recover gives a shard whose log is lost a new one. The replica that has applied most is its beginning; what
// only the lost log had is lost. A majority of the replicas has to be there, so that one of them has each
// write that a majority has applied.
func Recover(ctx context.Context, c *shardlog.Cluster, shard string) error {
	m, nodes, err := Look(ctx, c)
	if err != nil {
		return err
	}
	s := m.Shard(shard)
	if s == nil {
		return fmt.Errorf("the cluster has no shard %q", shard)
	}
	log, err := c.OpenLog(ctx, s)
	lost := errors.Is(err, shardlog.ErrLogLost)
	if err != nil && !lost {
		return err
	}
	var most *shardlog.Status
	there, says := 0, ""
	for _, id := range s.Replicas {
		st, ok := nodes[id].Shards[shard]
		if !ok || st.Shard != s.ID || st.Epoch < s.Epoch {
			continue
		}
		there++
		if st.Error != "" {
			says += fmt.Sprintf("; node %s: %s", id, st.Error)
		}
		st.Lost = st.Lost || st.Epoch > s.Epoch // the map is an older one as well
		lost = lost || st.Lost
		// One that has what the log has lost comes before one that follows what the log has in its place.
		if most == nil || st.Lost && !most.Lost || st.Lost == most.Lost &&
			(st.Epoch > most.Epoch || st.Epoch == most.Epoch && st.Sequence > most.Sequence) {
			most = &st
		}
	}
	switch {
	case !lost:
		return fmt.Errorf("shard %s: its log has all that its replicas have applied, nothing to recover%s",
			shard, says)
	case there <= len(s.Replicas)/2:
		return fmt.Errorf("shard %s: only %d of %d replicas are there, want a majority (start the others)",
			shard, there, len(s.Replicas))
	}
	if log != nil { // what is published from now on would be in no file
		if _, err := c.Seal(ctx, s); err != nil && !errors.Is(err, shardlog.ErrLogLost) {
			return err
		}
	}
	next := *s
	next.Epoch, next.Base = most.Epoch+1, &most.Position
	if err := c.CreateLog(ctx, &next); err != nil {
		return err
	}
	return change(ctx, c, shard, func(_ *shardlog.Map, now *shardlog.Shard) error {
		if now.Epoch != s.Epoch {
			return fmt.Errorf("%w: %s", errOther, shard)
		}
		now.Epoch, now.Base, now.Created, now.Parent = next.Epoch, next.Base, next.Created, nil
		return nil
	})
}
