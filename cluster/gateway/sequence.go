package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/internal/wire"
)

// ahead returns an error if a map does not have one of the logs yet. What a shard is split into has its
// name and letters a and b.
func ahead(s node.Sequences, m *shardlog.Map) error {
	for l := range s {
		if !slices.ContainsFunc(m.Shards, func(x shardlog.Shard) bool {
			rest, ok := strings.CutPrefix(x.ID, l.Shard)
			return ok && strings.Trim(rest, "ab") == "" && (rest != "" || x.Epoch >= l.Epoch)
		}) {
			return fmt.Errorf("%w: header %s: the map of the cluster does not have log %v yet", wire.ErrUnavailable,
				Sequence, l)
		}
	}
	return nil
}
