package operate

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/cluster/shardlog"
)

// TestPlan compares plans with the best of all placements.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		live := rapid.IntRange(1, nodes).Draw(t, "live")
		shards := shardlog.Ranges(rapid.IntRange(1, 5).Draw(t, "shards"))
		var before []uint
		for i := range shards {
			on := uint(rapid.IntRange(1, 1<<nodes-1).Draw(t, fmt.Sprint("on", i)))
			before = append(before, on)
			for j := range nodes {
				if on>>j&1 == 1 {
					shards[i].Replicas = append(shards[i].Replicas, names[j])
				}
			}
		}
		steps := plan(shards, names[:live])
		for _, step := range steps {
			i := slices.IndexFunc(shards, func(s shardlog.Shard) bool { return s.ID == step.Shard })
			from, to := slices.Index(names, step.From), slices.Index(names, step.To)
			if before[i]>>from&1 == 0 || before[i]>>to&1 == 1 || to >= live {
				t.Fatalf("%v of %v to %v", steps, shards, names[:live])
			}
			before[i] = before[i]&^(1<<from) | 1<<to
		}
		gone, spread := left(before, live), spreadOf(before, live)
		for _, on := range before {
			if all := uint(1<<live - 1); on>>live != 0 && on&all != all {
				t.Fatalf("%v of %v to %v: a replica could be moved", steps, shards, names[:live])
			}
		}
		if gone == 0 && spread > 1 {
			t.Fatalf("%v of %v to %v: numbers differ by %d", steps, shards, names[:live], spread)
		}
		if best := fewest(shards, names, live, gone, spread); len(steps) > best {
			t.Fatalf("%v of %v to %v: %d are enough", steps, shards, names[:live], best)
		}
	})
}

// left counts the replicas of nodes that are not live.
func left(on []uint, live int) (n int) {
	for _, x := range on {
		n += bits.OnesCount(x >> live)
	}
	return n
}

// spreadOf returns the difference of the numbers of replicas of live nodes.
func spreadOf(on []uint, live int) int {
	var loads []int
	for j := range live {
		n := 0
		for _, x := range on {
			n += int(x >> j & 1)
		}
		loads = append(loads, n)
	}
	return slices.Max(loads) - slices.Min(loads)
}

// fewest tries all placements that are as good, and returns the fewest moves.
func fewest(shards []shardlog.Shard, names []string, live, gone, spread int) int {
	on := make([]uint, len(shards))
	best := 1 << 20
	var try func(i, moves int)
	try = func(i, moves int) {
		if i == len(shards) {
			if moves < best && left(on, live) <= gone && spreadOf(on, live) <= spread {
				best = moves
			}
			return
		}
		var was uint
		for _, id := range shards[i].Replicas {
			was |= 1 << slices.Index(names, id)
		}
		for x := range uint(1 << len(names)) {
			more := bits.OnesCount(x &^ was)
			if bits.OnesCount(x) == bits.OnesCount(was) && x>>live&^(was>>live) == 0 && moves+more < best {
				on[i] = x
				try(i+1, moves+more)
			}
		}
	}
	try(0, 0)
	return best
}
