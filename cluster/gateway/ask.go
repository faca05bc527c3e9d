package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/internal/wire"
)

// question is a request to a replica of a shard.
type question struct {
	kind   string // what it asks for: questions of a kind take similar times
	method string
	path   string // after the address
	body   []byte // JSON
	header http.Header
}

// reply is the answer of a node, without an error.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask asks a replica of a shard, and another one as soon as the first fails or takes longer than 95 of 100
// recent questions of the kind. It returns the first answer.
func (c *call) ask(s *shardlog.Shard, q *question) (*reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.g.o.Deadline)
	defer cancel() // of the slower one, too
	nodes := c.replicas(s, q.kind == "model" || q.kind == "sums")
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: shard %s has no replica with an address", wire.ErrUnavailable, s.ID)
	}
	type result struct {
		node  int
		reply *reply
		err   error
	}
	results := make(chan result, len(nodes))
	begin, asked, waiting := time.Now(), 0, 0
	send := func() {
		if asked == len(nodes) || ctx.Err() != nil {
			return
		}
		node := asked
		asked, waiting = asked+1, waiting+1
		go func() {
			answer, err := c.send(ctx, s, nodes[node], q)
			results <- result{node, answer, err}
		}()
	}
	recent := c.g.times.of(q.kind)
	c.g.budget.earn()
	send()
	hedge := time.NewTimer(recent.late())
	defer hedge.Stop()
	var failed error
	for waiting > 0 {
		select {
		case r := <-results:
			waiting--
			switch {
			case r.err == nil:
				recent.add(time.Since(begin))
				if r.node > 0 {
					c.g.slow.mark(nodes[0])
				}
				return r.reply, nil
			case !elsewhere(r.err) && ctx.Err() == nil:
				return nil, r.err
			}
			failed = r.err
			c.g.slow.mark(nodes[r.node])
			send()
		case <-hedge.C:
			if asked == 1 && c.g.budget.take() {
				send()
			}
		}
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	c.g.forget()
	if ctx.Err() != nil {
		failed = fmt.Errorf("no answer within %v of a replica that has applied message %d",
			c.g.o.Deadline, c.leastOf(s))
	}
	return nil, fmt.Errorf("%w: shard %s: %w", wire.ErrUnavailable, s.ID, failed)
}

// mostAsked is the number of replicas that a question is sent to at most.
const mostAsked = 2

// forget has the view of the cluster read again for the next request.
func (g *Gateway) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = time.Time{}
}

// elsewhere reports whether another replica may have an answer.
func elsewhere(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return true // of the connection
	}
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
}

// replicas returns the addresses of the replicas of a shard to ask, those last that were slow. The order
// of the others is random, unless each replica has a label model of its own, and the gateway what it has
// merged of one.
func (c *call) replicas(s *shardlog.Shard, own bool) (addresses []string) {
	first := 0
	if !own {
		first = rand.IntN(max(1, len(s.Replicas)))
	}
	for i := range s.Replicas {
		id := s.Replicas[(first+i)%len(s.Replicas)]
		if a := c.view.addresses[id]; a != "" {
			addresses = append(addresses, a)
		}
	}
	now := time.Now()
	slices.SortStableFunc(addresses, func(x, y string) int {
		return cmp.Compare(c.g.slow.at(x, now), c.g.slow.at(y, now))
	})
	return addresses[:min(mostAsked, len(addresses))]
}

// slow are nodes that have failed, answered later than another one, or are silent.
type slow struct{ until sync.Map }

// slowTime is how long a slow node is asked only if the others fail: until the view has been read again.
const slowTime = 2 * viewTime

func (s *slow) mark(node string) { s.until.Store(node, time.Now().Add(slowTime)) }

// at returns 1 for a slow node and 0 for others.
func (s *slow) at(node string, now time.Time) int {
	if until, ok := s.until.Load(node); ok && now.Before(until.(time.Time)) {
		return 1
	}
	return 0
}

// open sends a question to a node, and returns an answer that is no error, with its body to close.
func (c *call) open(
	ctx context.Context, s *shardlog.Shard, address string, q *question,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, address+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	if q.body != nil {
		r.Header.Set("Content-Type", wire.JSON)
	}
	if c.g.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.g.o.Token)
	}
	if n := c.leastOf(s); n > 0 {
		r.Header.Set(Sequence, node.Sequences{node.LogOf(s): n}.String())
	}
	answer, err := c.g.o.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	if seen, err := node.ParseSequences(answer.Header.Get(Sequence)); err == nil { // perhaps of another epoch
		for l, n := range seen {
			c.note(l, n)
		}
	}
	if answer.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("node %s refuses the token of this gateway "+
			"(both have that of their cluster.json)", address)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var f wire.Failure
	if json.Unmarshal(body, &f) != nil || f.Error == nil {
		return nil, fmt.Errorf("node %s: %s: %.200q", address, answer.Status, body)
	}
	f.Error.Status = answer.StatusCode
	return nil, f.Error
}

// send sends a question to a node and reads the answer.
func (c *call) send(ctx context.Context, s *shardlog.Shard, address string, q *question) (*reply, error) {
	answer, err := c.open(ctx, s, address, q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return &reply{answer.StatusCode, answer.Header, body}, err
}

// leastOf returns the sequence of a shard that an answer must have seen: that of the request, and of the
// writes that this gateway has acknowledged.
func (c *call) leastOf(s *shardlog.Shard) uint64 {
	l := node.LogOf(s)
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	return max(c.least[l], c.least[node.Log{Shard: s.ID}], c.g.seen[l])
}

// scatter calls f with all shards at once. Its error is that of the first shard which failed.
func (c *call) scatter(f func(i int, s *shardlog.Shard) error) error {
	n := len(c.view.Shards)
	return par.Each(c.ctx, par.Work{N: n, Workers: n, Grain: 1}, func(i int) error {
		return f(i, &c.view.Shards[i])
	})
}

// file returns the path of a shard's file on its nodes, with what follows it in the path of the request.
func file(s *shardlog.Shard, rest string) string {
	return "/v1/files/" + wire.PathKey([]byte(s.ID)) + rest
}

// coll returns the path of the collection of the request in a shard.
func (c *call) coll(s *shardlog.Shard, rest string) string {
	return file(s, "/collections/"+wire.PathKey([]byte(c.name()))+rest)
}

// fetch asks for JSON.
func fetch[T any](c *call, s *shardlog.Shard, q *question) (out T, err error) {
	answer, err := c.ask(s, q)
	if err == nil {
		err = json.Unmarshal(answer.body, &out)
	}
	return out, err
}

// fetchAll asks all shards for JSON, at a path of their files.
func fetchAll[T any](c *call, path func(s *shardlog.Shard) string) ([]T, error) {
	out := make([]T, len(c.view.Shards))
	return out, c.scatter(func(i int, s *shardlog.Shard) (err error) {
		out[i], err = fetch[T](c, s, &question{kind: "get", method: http.MethodGet, path: path(s)})
		return err
	})
}

// recent are the times of recent answers.
type recent struct {
	mu     sync.Mutex
	times  [128]time.Duration
	n      int
	latest atomic.Int64 // the 95th percentile
}

const (
	leastTimes = 32                     // that a percentile needs
	firstLate  = 100 * time.Millisecond // until then
	leastLate  = time.Millisecond
)

// late returns the time after which an answer is late.
func (r *recent) late() time.Duration {
	if d := time.Duration(r.latest.Load()); d > 0 {
		return max(d, leastLate)
	}
	return firstLate
}

func (r *recent) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[r.n%len(r.times)] = d
	r.n++
	if r.n >= leastTimes && r.n%8 == 0 {
		sorted := slices.Clone(r.times[:min(r.n, len(r.times))])
		slices.Sort(sorted)
		r.latest.Store(int64(sorted[len(sorted)*95/100]))
	}
}

// times are those of each kind of question.
type times struct{ kinds sync.Map }

func (t *times) of(kind string) *recent {
	if r, ok := t.kinds.Load(kind); ok {
		return r.(*recent)
	}
	r, _ := t.kinds.LoadOrStore(kind, &recent{})
	return r.(*recent)
}

// budget bounds the questions that are asked twice because the first answer is late, to a tenth of all: when
// every node is slow, more questions make it worse.
type budget struct{ tenths atomic.Int64 }

const mostBudget = 100 // tenths

func (b *budget) earn() {
	if b.tenths.Add(1) > mostBudget {
		b.tenths.Add(-1)
	}
}

func (b *budget) take() bool {
	if b.tenths.Add(-10) < 0 {
		b.tenths.Add(10)
		return false
	}
	return true
}
