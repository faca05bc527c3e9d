package gateway

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/internal/wire"
)

// pressure returns, by shard, why it takes no writes now: a replica has lost messages of the log, or a
// majority of the replicas that are there is more than most messages behind the log.
func pressure(m *shardlog.Map, nodes []shardlog.NodeInfo, most uint64) map[string]error {
	out := map[string]error{}
	for _, s := range m.Shards {
		var applied []uint64
		last := uint64(0)
		for _, n := range nodes {
			st, ok := n.Shards[s.ID]
			if !ok || st.Epoch != s.Epoch || !slices.Contains(s.Replicas, n.ID) {
				continue
			}
			if st.Lost {
				out[s.ID] = fmt.Errorf("%w: shard %s on node %s: %s", wire.ErrUnavailable, s.ID, n.ID, st.Error)
			}
			applied, last = append(applied, st.Sequence), max(last, st.Last)
		}
		if len(applied) <= len(s.Replicas)/2 {
			continue // writes that want them to be applied wait
		}
		slices.Sort(applied)
		slices.Reverse(applied)
		at := applied[len(s.Replicas)/2]
		if out[s.ID] == nil && last > at && last-at > most {
			out[s.ID] = fmt.Errorf("%w: the replicas of shard %s are %d messages behind its log, at most %d may be",
				wire.ErrBusy, s.ID, last-at, most)
		}
	}
	return out
}
