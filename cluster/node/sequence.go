package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
)

// SequenceHeader is the header with Sequences: of a request those that the answer must have seen, of an
// answer what it has.
const SequenceHeader = "Anndb-Sequence"

// Log is a log of a shard, which has another one in each epoch; 0 is the present one.
type Log struct {
	Shard string
	Epoch int
}

// LogOf returns the log of a shard.
func LogOf(s *shardlog.Shard) Log { return Log{s.ID, s.Epoch} }

func (l Log) String() string { return fmt.Sprintf("%s:%d", l.Shard, l.Epoch) }

// Sequences are the last messages of logs that have been applied.
type Sequences map[Log]uint64

// ParseSequences reads a header, "SHARD:EPOCH=N,SHARD:EPOCH=N". Errors: db.ErrInvalid.
func ParseSequences(header string) (Sequences, error) {
	out := Sequences{}
	if header == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(header, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(item), "=")
		shard, epoch, has := strings.Cut(name, ":")
		n, err := strconv.ParseUint(number, 10, 64)
		l := Log{Shard: shard}
		if has && err == nil {
			l.Epoch, err = strconv.Atoi(epoch)
		}
		if err != nil || shard == "" {
			return nil, fmt.Errorf("%w: header %s: %.40q, want SHARD:EPOCH=NUMBER",
				db.ErrInvalid, SequenceHeader, item)
		}
		out.Raise(l, n)
	}
	return out, nil
}

// String returns the header.
func (s Sequences) String() string {
	var items []string
	order := func(a, b Log) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Epoch, b.Epoch)) }
	for _, l := range slices.SortedFunc(maps.Keys(s), order) {
		items = append(items, fmt.Sprintf("%v=%d", l, s[l]))
	}
	return strings.Join(items, ",")
}

// Raise notes a message of a log.
func (s Sequences) Raise(l Log, n uint64) { s[l] = max(s[l], n) }

// newest returns the message of the newest log of a shard.
func (s Sequences) newest(shard string) (l Log, n uint64) {
	for x, m := range s {
		if x.Shard == shard && x.Epoch >= l.Epoch {
			l, n = x, m
		}
	}
	return l, n
}
