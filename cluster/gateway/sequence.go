package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
)

// sequences are sequence numbers by shard and epoch, "SHARD:EPOCH": of the last message of the log that was
// applied.
type sequences map[string]uint64

// parseSequences reads the header Sequence.
func parseSequences(header string) (sequences, error) {
	out := sequences{}
	if header == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(header, ",") {
		shard, number, ok := strings.Cut(strings.TrimSpace(item), "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || shard == "" {
			return nil, fmt.Errorf("%w: header %s: %.40q, want SHARD=NUMBER", db.ErrInvalid, Sequence, item)
		}
		out.raise(shard, n)
	}
	return out, nil
}

// String returns the header.
func (s sequences) String() string {
	var items []string
	for _, shard := range slices.Sorted(maps.Keys(s)) {
		items = append(items, shard+"="+strconv.FormatUint(s[shard], 10))
	}
	return strings.Join(items, ",")
}

func (s sequences) raise(shard string, n uint64) { s[shard] = max(s[shard], n) }

// ahead returns a shard of the sequences that a map does not have yet, "" if there is none. What a shard is split
// into has its name and letters a and b.
func (s sequences) ahead(m *shardlog.Map) string {
	for name := range s {
		id, number, _ := strings.Cut(name, ":")
		epoch, err := strconv.Atoi(number)
		if err == nil && !slices.ContainsFunc(m.Shards, func(x shardlog.Shard) bool {
			rest, ok := strings.CutPrefix(x.ID, id)
			return ok && strings.Trim(rest, "ab") == "" && (rest != "" || x.Epoch >= epoch)
		}) {
			return name
		}
	}
	return ""
}
