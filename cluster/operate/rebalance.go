package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
)

// Step is a move of a replica, see Move.
type Step struct{ Shard, From, To string }

// String returns the command that makes the move.
func (s Step) String() string { return fmt.Sprintf("move %s %s --from %s", s.Shard, s.To, s.From) }

// Rebalance returns the fewest moves after which each ready node has as many replicas as the others, or one
// more, and other nodes have none. A node is ready if it serves all of its shards without an error. Those
// that are not have so much time to become ready again.
func Rebalance(ctx context.Context, c *shardlog.Cluster, patience time.Duration) (steps []Step, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var shards []shardlog.Shard
	var ready []string
	err = until(waiting, c, func(m *shardlog.Map, nodes map[string]shardlog.NodeInfo) (bool, error) {
		shards = m.Shards
		ready, err = readyNodes(m, nodes)
		return err == nil && !slices.ContainsFunc(shards, func(s shardlog.Shard) bool {
			return slices.ContainsFunc(s.Replicas, func(id string) bool { return !slices.Contains(ready, id) })
		}), err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && len(ready) > 0 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("rebalance: %w", err)
	}
	return plan(shards, ready), nil
}

// readyNodes returns the nodes that can have replicas, and an error if none must be moved now.
func readyNodes(m *shardlog.Map, nodes map[string]shardlog.NodeInfo) (ready []string, err error) {
	bad := map[string]bool{}
	for _, s := range m.Shards {
		if len(s.Joining) > 0 {
			return nil, fmt.Errorf("shard %s: %s is joining: wait for the move, repeat it, or remove it",
				s.ID, s.Joining[0])
		}
		if inSplit(m, s.ID) {
			return nil, fmt.Errorf("shard %s is being split: wait for it, or repeat it", s.ID)
		}
		for _, id := range s.Replicas {
			st := nodes[id].Shards[s.ID]
			if st.Lost {
				return nil, fmt.Errorf("shard %s: the log has lost messages: recover it", s.ID)
			}
			bad[id] = bad[id] || st.State != shardlog.Following || st.Error != ""
		}
	}
	for id := range nodes {
		if !bad[id] {
			ready = append(ready, id)
		}
	}
	slices.Sort(ready)
	return ready, nil
}

// placement is where replicas are: has by node and shard. Those of had are there already.
type placement struct {
	ready     int // nodes with lower numbers are ready
	has, had  [][]bool
	cost      [][]int // of moving one replica from a node to another, by way of others
	next, via [][]int // the next node of that way, and the shard that is moved there
}

// unreachable is the cost of a way that does not exist.
const unreachable = math.MaxInt / 4

// plan moves replicas along the cheapest ways from full to empty nodes, as successive shortest paths find the
// cheapest flow; a replica that a step before has placed is free to be placed elsewhere.
func plan(shards []shardlog.Shard, ready []string) (steps []Step) {
	nodes := slices.Clone(ready)
	for _, s := range shards {
		for _, id := range s.Replicas {
			if !slices.Contains(nodes, id) {
				nodes = append(nodes, id)
			}
		}
	}
	p := &placement{ready: len(ready)}
	for _, id := range nodes {
		on := make([]bool, len(shards))
		for i := range shards {
			on[i] = slices.Contains(shards[i].Replicas, id)
		}
		p.has, p.had = append(p.has, on), append(p.had, slices.Clone(on))
		p.cost, p.next = append(p.cost, make([]int, len(nodes))), append(p.next, make([]int, len(nodes)))
		p.via = append(p.via, make([]int, len(nodes)))
	}
	for p.improve() {
	}
	for i := range shards {
		to := 0
		for from := len(nodes) - 1; from >= 0; from-- { // those that are not ready first
			if !p.had[from][i] || p.has[from][i] {
				continue
			}
			for p.had[to][i] || !p.has[to][i] {
				to++
			}
			steps = append(steps, Step{shards[i].ID, nodes[from], nodes[to]})
			to++
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		return slices.Index(nodes[len(ready):], b.From) - slices.Index(nodes[len(ready):], a.From)
	})
	return steps
}

// improve moves a replica to a node with fewer, and reports whether it has.
func (p *placement) improve() bool {
	p.ways()
	load := func(node int) (n int) {
		for _, has := range p.has[node] {
			if has {
				n++
			}
		}
		if n > 0 && node >= p.ready {
			return unreachable
		}
		return n
	}
	from, to, most := 0, 0, 0
	for a := range p.has {
		for b := range p.ready {
			gain := load(a) - load(b)
			if p.cost[a][b] < unreachable && gain > 1 &&
				(gain > most || gain == most && p.cost[a][b] < p.cost[from][to]) {
				from, to, most = a, b, gain
			}
		}
	}
	for most > 0 && from != to {
		n, i := p.next[from][to], p.via[from][p.next[from][to]]
		p.has[from][i], p.has[n][i] = false, true
		from = n
	}
	return most > 0
}

// ways computes the cheapest ways between all nodes.
func (p *placement) ways() {
	unplaced := func(node, shard int) int {
		if p.had[node][shard] {
			return 0
		}
		return 1
	}
	for a := range p.has {
		for b := range p.has {
			p.cost[a][b], p.next[a][b] = unreachable, b
			for i := range p.has[a] {
				c := unplaced(b, i) - unplaced(a, i)
				if b < p.ready && p.has[a][i] && !p.has[b][i] && c < p.cost[a][b] {
					p.cost[a][b], p.via[a][b] = c, i
				}
			}
		}
	}
	for mid := range p.has {
		for a := range p.has {
			for b := range p.has {
				if max(p.cost[a][mid], p.cost[mid][b]) == unreachable {
					continue
				}
				if c := p.cost[a][mid] + p.cost[mid][b]; c < p.cost[a][b] {
					p.cost[a][b], p.next[a][b] = c, p.next[a][mid]
				}
			}
		}
	}
}
