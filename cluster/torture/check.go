package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
)

// quietTime bounds how long the cluster may take until all replicas have applied all.
const quietTime = 5 * time.Minute

// watch looks at what the nodes have applied, which never goes back, until the context ends.
func (b *bench) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for i := range b.nodes {
			p := b.processes[nodeName(i)]
			life := p.life()
			if info, err := b.status(ctx, p); err == nil && life == p.life() {
				b.compare(fmt.Sprint(p.name, "/", life, "/"), &info)
			}
		}
		_ = shardlog.Pause(ctx, 100*time.Millisecond)
	}
}

// compare compares what a node has applied with what it had.
func (b *bench) compare(prefix string, info *shardlog.NodeInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, s := range info.Shards {
		was := b.applied[prefix+id]
		back := was.Shard == s.Shard && was.Epoch == s.Epoch && s.Sequence < was.Sequence
		if back && os.Remove(filepath.Join(b.processes[info.ID].files(), id+".anndb.damaged")) == nil {
			back = false // it has begun again; damage may be found long after the fault
		}
		if back && b.failure == nil {
			b.failure = fmt.Errorf("node %s, shard %s: %d messages of epoch %d are applied, and %d were before",
				info.ID, id, s.Sequence, s.Epoch, was.Sequence)
		}
		if s.Shard != "" {
			b.applied[prefix+id] = s.Position
		}
	}
}

func (p *process) life() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lives
}

// reborn notes that a node, which is down, loses files: it may have applied less then.
func (b *bench) reborn(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
}

// status asks a node about its shards.
func (b *bench) status(ctx context.Context, p *process) (info shardlog.NodeInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	res, err := p.get(ctx, "/cluster/status", nil)
	if err != nil {
		return info, err
	}
	defer res.Body.Close()
	return info, json.NewDecoder(res.Body).Decode(&info)
}

// check waits until the cluster is quiet, and compares it with the story.
func (b *bench) check(ctx context.Context, n int) error {
	limited, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	var m shardlog.Map
	err := again(limited, func() (err error) {
		if err := b.failed(); err != nil {
			cancel()
			return err
		}
		if m, err = b.quiet(limited); err != nil && b.damaged {
			_ = b.recoverLost(limited)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the cluster does not become quiet: %w", err)
	}
	for i := range registerCount * gatewayCount {
		if err := b.lastRead(limited, n, i/gatewayCount, i%gatewayCount); err != nil {
			return err
		}
	}
	var rows map[string]int
	tries := 0
	if err := again(limited, func() (err error) {
		rows, err = b.rows(limited, &m)
		// A write whose outcome is unknown may arrive now.
		if tries++; errors.Is(err, errDiffers) && tries == 20 {
			cancel()
		}
		return err
	}); err != nil {
		return err
	}
	b.story.settle(&m, b.losing)
	return errors.Join(b.failed(), b.story.compare(rows), b.story.linearizable(), b.leaks(limited))
}

// quiet returns the map if all replicas serve and have applied the logs, and gateways answer.
func (b *bench) quiet(ctx context.Context) (m shardlog.Map, err error) {
	if m, err = b.log.Map(ctx); err != nil {
		return m, err
	}
	if len(m.Splits) > 0 {
		return m, errors.New("a split is in progress")
	}
	for i := range m.Shards {
		s := &m.Shards[i]
		l, err := b.log.OpenLog(ctx, s)
		if err != nil {
			return m, err
		}
		now, err := l.State(ctx)
		if err != nil {
			return m, err
		}
		for _, id := range append(slices.Clone(s.Replicas), s.Joining...) {
			info, err := b.status(ctx, b.processes[id])
			if err != nil {
				return m, err
			}
			st := info.Shards[s.ID]
			serves := st.State == shardlog.Following && st.Error == "" && st.Shard == s.ID && st.Epoch == s.Epoch
			if !serves || st.Sequence < now.Last {
				return m, fmt.Errorf("shard %s on %s: %s, at %d of %d, %s", s.ID, id, st.State, st.Sequence, now.Last,
					st.Error)
			}
		}
	}
	for i := range gatewayCount {
		res, err := b.processes[gatewayName(i)].get(ctx, "/readyz", nil)
		if err != nil {
			return m, err
		}
		_ = res.Body.Close()
	}
	return m, nil
}

// lastRead reads a register of a round by a gateway.
func (b *bench) lastRead(ctx context.Context, n, i, gateway int) error {
	a := b.actor("last", n)
	a.token, a.id, a.at = b.story.shared, 100+i, b.processes[gatewayName(gateway)].url
	defer a.http.CloseIdleConnections()
	op := operation{key: registerKey(b.story, n, i), kind: "read"}
	return again(ctx, func() error {
		out := a.operate(ctx, op, "")
		if out.outcome != done && out.code != "not_found" {
			return out.err
		}
		b.story.mu.Lock()
		defer b.story.mu.Unlock()
		if c := b.story.cells[op.key]; c != nil {
			c.value = out.value
		} else {
			b.story.cells[op.key] = &cell{value: out.value}
		}
		return nil
	})
}

// errDiffers: replicas have different rows.
var errDiffers = errors.New("replicas differ")

// rows returns the values of all rows, if all replicas have the same rows.
func (b *bench) rows(ctx context.Context, m *shardlog.Map) (map[string]int, error) {
	out := map[string]int{}
	for i := range m.Shards {
		s := &m.Shards[i]
		l, err := b.log.OpenLog(ctx, s)
		if err != nil {
			return nil, err
		}
		now, err := l.State(ctx)
		if err != nil {
			return nil, err
		}
		var first map[string]string
		for _, id := range s.Replicas {
			lines, err := b.rowsOf(ctx, id, s.ID, now.Last)
			if err != nil {
				return nil, err
			}
			if first == nil {
				first = lines
			}
			if !maps.Equal(lines, first) {
				return nil, fmt.Errorf("%w: shard %s on %s and on %s: %s", errDiffers, s.ID, id, s.Replicas[0],
					difference(lines, first))
			}
		}
		for key, line := range first {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return nil, err
			}
			if _, twice := out[key]; twice || !s.Owns([]byte(key)) {
				return nil, fmt.Errorf("row %s is in shard %s, which is not its shard", key, s.ID)
			}
			out[key] = r.value()
		}
	}
	return out, nil
}

// difference returns a row that differs.
func difference(a, b map[string]string) string {
	for _, key := range append(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))...) {
		if a[key] != b[key] {
			return fmt.Sprintf("%q, %q", a[key], b[key])
		}
	}
	return "none"
}

// rowsOf returns the rows of a shard on a node, by key.
func (b *bench) rowsOf(ctx context.Context, id, shard string, least uint64) (map[string]string, error) {
	res, err := b.processes[id].get(ctx, "/v1/files/"+shard+"/collections/c/rows",
		http.Header{node.SequenceHeader: {node.Sequences{{Shard: shard}: least}.String()}})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := map[string]string{}
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Key == "" {
			return nil, fmt.Errorf("a line of rows %.200q: %w", line, err)
		}
		out[r.Key] = line
	}
}

// compare compares the rows of the cluster with what must be there.
func (s *story) compare(rows map[string]int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range baseRows {
		if r := baseRow(i); rows[r.Key] != r.value() {
			return fmt.Errorf("row %s is %d, want %d", r.Key, rows[r.Key], r.value())
		}
	}
	for key, value := range rows {
		if s.cells[key] == nil && !strings.HasPrefix(key, "base-") && strings.HasPrefix(key, s.prefix) {
			return fmt.Errorf("row %s has value %d, and nobody has written it", key, value)
		}
	}
	for key, c := range s.cells {
		if value := rows[key]; value != c.value && !slices.Contains(c.maybe, value) {
			return fmt.Errorf("row %s has value %d, acknowledged is %d, perhaps written %v (0: no row): "+
				"a write is lost, or applied twice", key, value, c.value, c.maybe)
		}
	}
	return nil
}

// leaks compares the open files and goroutines of processes with those after the first round.
func (b *bench) leaks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	for name, p := range b.processes {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
		if err != nil {
			continue // not Linux
		}
		var res *http.Response
		err = again(ctx, func() (err error) { // what was killed may have announced itself before, and start now
			res, err = p.get(ctx, "/metrics", nil)
			return err
		})
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		now := use{files: len(list)}
		_, line, _ := strings.Cut(string(body), "\ngo_goroutines ")
		if _, err := fmt.Sscan(line, &now.goroutines); err != nil {
			return fmt.Errorf("%s: /metrics has no goroutines: %w", name, err)
		}
		first, ok := b.first[name]
		if !ok {
			b.first[name] = now
		} else if now.files > 2*first.files+300 || now.goroutines > 2*first.goroutines+600 { // connections are kept
			return fmt.Errorf("%s leaks: %+v, %+v in the first round", name, now, first)
		}
	}
	return nil
}

// use is what a process uses.
type use struct{ files, goroutines int }
