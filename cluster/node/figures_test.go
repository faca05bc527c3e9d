package node_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// batchOf returns a transaction of rows with vectors of 128 coordinates.
func batchOf(first, rows int) *shardlog.Message {
	var ops []wire.Operation
	for i := range rows {
		var v []string
		for j := range 128 {
			v = append(v, fmt.Sprint((first+i*7+j*13)%256))
		}
		key := fmt.Sprint("k", first+i)
		line := fmt.Sprintf(`{"key":%q,"vector":[%s]}`, key, strings.Join(v, ","))
		ops = append(ops, wire.Operation{Op: wire.Put, Collection: "c", Key: wire.Key{Text: key},
			Row: json.RawMessage(line)})
	}
	return transaction(ops...)
}

// BenchmarkWrites has 16 writers write batches of rows to a shard with three servers and three replicas, each
// synced. It reports acknowledged rows a second, and the time that a batch takes.
func BenchmarkWrites(b *testing.B) {
	ctx, ns := startNodes(b, 3, 1, 3)
	ns.all(ctx, &shardlog.Message{Create: &wire.NewCollection{Name: "c", Schema: db.Schema{Dim: 128}}})
	s := &ns.m.Shards[0]
	var id atomic.Int64
	for _, kind := range []string{"logged", "applied"} {
		for _, rows := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/%d", kind, rows), func(b *testing.B) {
				const writers = 16
				var last atomic.Uint64
				var work sync.WaitGroup
				left := atomic.Int64{}
				left.Store(int64(b.N))
				for range writers {
					work.Go(func() {
						for left.Add(-1) >= 0 {
							n := id.Add(int64(rows))
							sequence, err := ns.publish(ctx, s, fmt.Sprint(n), batchOf(int(n), rows))
							if err == nil && kind == "applied" {
								_, err = ns.applied(ctx, s, sequence)
							}
							if err != nil {
								b.Error(err)
								return
							}
							last.Store(max(last.Load(), sequence))
						}
					})
				}
				work.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
				begin := time.Now()
				if _, err := ns.applied(ctx, s, last.Load()); err != nil {
					b.Error(err)
				}
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-behind")
			})
		}
	}
}

// BenchmarkReplica adds a replica to a shard of 20,000 rows of 128 coordinates, and measures the time until
// it serves.
func BenchmarkReplica(b *testing.B) {
	ctx, ns := startNodes(b, 1, 1, 1)
	ns.all(ctx, &shardlog.Message{Create: &wire.NewCollection{Name: "c", Schema: db.Schema{Dim: 128}}})
	s := &ns.m.Shards[0]
	for i := 0; i < 20_000; i += 100 {
		sequence, err := ns.publish(ctx, s, fmt.Sprint(i), batchOf(i, 100))
		if err == nil && i+100 == 20_000 {
			_, err = ns.applied(ctx, s, sequence)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	ns.status(ctx, "n0", "0", func(st shardlog.Status) bool { return st.Snapshot > 0 })
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("new", i)
		b.StopTimer()
		ns.start(id)
		for ns.get(ctx, id, "/healthz", nil) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		b.StartTimer()
		if err := operate.Move(ctx, ns.c, "0", "", id); err != nil {
			b.Fatal(err)
		}
	}
}
