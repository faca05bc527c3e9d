package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/wire"
)

// token has the sequences that answers have had. A request that sends them sees at least these.
type token struct {
	mu   sync.Mutex
	seen node.Sequences
}

func newToken() *token { return &token{seen: node.Sequences{}} }

// sent returns a copy of the token.
func (t *token) sent() node.Sequences {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.seen)
}

// add adds the sequences of an answer. It fails if the answer has not seen what was sent.
func (t *token) add(header string, sent node.Sequences) (seen node.Sequences, err error) {
	if seen, err = node.ParseSequences(header); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for l, n := range seen {
		if n < sent[l] {
			return nil, fmt.Errorf("an answer has seen %d of log %v, the request wanted %d", n, l, sent[l])
		}
		t.seen.Raise(l, n)
	}
	return seen, nil
}

// outcome is what is known of a request.
type outcome int

const (
	done    outcome = iota
	refused         // it has changed nothing
	unknown         // it may have changed something, or may do so later
)

// answer is what a gateway has answered.
type answer struct {
	outcome
	code    string // of an error
	version string
	value   int // of a row, 0 if there is none
	seen    node.Sequences
	err     error
}

// actor is a client of the gateways. What it does depends on the seed, the round and its name.
type actor struct {
	b     *bench
	s     *story
	id    int
	rng   *rand.Rand
	token *token
	http  *http.Client
	at    string // the URL of a gateway; a random one if it is empty
}

// requestTime is how long a client waits at most for an answer.
const requestTime = 20 * time.Second

// uncertain are the codes of errors after which a write may be applied.
var uncertain = []string{"deadline", "unknown_state", "canceled", "internal"}

// do sends a request to one of the gateways.
func (a *actor) do(ctx context.Context, method, path string, body any, header ...string) (out answer) {
	ctx, cancel := context.WithTimeout(ctx, requestTime/time.Duration(1+a.rng.IntN(8)))
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		a.b.fail(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.gateway()+path, bytes.NewReader(text))
	if err != nil {
		a.b.fail(err)
		return answer{outcome: refused, err: err}
	}
	r.Header.Set("Content-Type", wire.JSON)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	sent := a.token.sent()
	if len(sent) > 0 {
		r.Header.Set(gateway.Sequence, sent.String())
	}
	res, err := a.http.Do(r)
	if err == nil {
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return answer{outcome: refused, err: err}
	case err != nil:
		return answer{outcome: unknown, err: err}
	case res.StatusCode < http.StatusBadRequest:
		out = a.parse(method, res.Header, text)
		if out.seen, err = a.token.add(res.Header.Get(gateway.Sequence), sent); err != nil {
			a.b.fail(fmt.Errorf("%s %s: %w", method, path, err))
		}
		return out
	}
	var f wire.Failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error == nil {
		a.b.fail(fmt.Errorf("%s %s: %s: %.200q, which is no error of a gateway", method, path, res.Status, text))
		return answer{outcome: unknown, err: err}
	}
	out = answer{outcome: refused, code: f.Error.Code, err: fmt.Errorf("%s %s: %w", method, path, f.Error)}
	if slices.Contains(uncertain, out.code) {
		out.outcome = unknown
	}
	if out.code == "internal" {
		a.b.fail(out.err)
	}
	return out
}

// parse returns what an answer without an error says.
func (a *actor) parse(method string, header http.Header, body []byte) (out answer) {
	out.version = strings.Trim(header.Get("ETag"), `"`)
	if method != http.MethodGet {
		return out
	}
	var r row
	if err := json.Unmarshal(body, &r); err != nil || len(r.Vector) != dim {
		a.b.fail(fmt.Errorf("a row %.200q: %w", body, err))
	}
	out.value = r.value()
	return out
}

const collection = "/v1/files/main/collections/c"

func rowPath(key string) string { return collection + "/rows/" + key }

// row is a row of the bench: its value is in its vector and a word of its text.
type row struct {
	Key    string   `json:"key"`
	Vector []int    `json:"vector"`
	Labels []string `json:"labels"`
	Text   string   `json:"text"`
}

const dim = 2

func newRow(key string, value int, label string) row {
	return row{key, []int{value, 1}, []string{label}, fmt.Sprint("word", value)}
}

func (r row) value() int { return r.Vector[0] }

// cell is what a key may have: the last acknowledged value, or one of a write with an unknown outcome. 0
// stands for no row.
type cell struct {
	value   int
	maybe   []int
	version string // of the value, "" if it is not known
}

// story is what actors have done with keys of their own prefix, and what must be there therefore.
type story struct {
	prefix string
	mu     sync.Mutex
	cells  map[string]*cell
	values int
	counts [3]int // of writes by outcome
	kept   int    // of logged ones in rounds that may lose a log
	reads  []time.Duration
	ops    []porcupine.Operation // on registers
	begun  time.Time
	shared *token
	logged []loggedWrite // acknowledged in a round that may lose a log
}

func newStory(prefix string) *story {
	return &story{
		prefix: prefix, cells: map[string]*cell{}, begun: time.Now(), shared: newToken(),
	}
}

// next returns a value that no write has had.
func (s *story) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values++
	return s.values
}

// wrote notes what came of a write to keys which no other actor writes. It reports whether it is known.
func (s *story) wrote(out *answer, value int, keys ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[out.outcome]++
	for _, key := range keys {
		c := s.cells[key]
		if c == nil {
			c = &cell{}
			s.cells[key] = c
		}
		switch out.outcome {
		case done:
			c.value, c.version = value, out.version
		case unknown:
			c.maybe = append(c.maybe, value)
		}
	}
	return out.outcome != unknown
}

func (s *story) cell(key string) cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cells[key]; c != nil {
		return *c
	}
	return cell{}
}

// loggedWrite is a write that was acknowledged when the log had it.
type loggedWrite struct {
	key   string
	value int
	seen  node.Sequences
}

// settle decides which of the writes with acknowledgement "logged" must be there: those that the log has, or
// that it had before another one continued it. A damaged log may have lost others.
func (s *story) settle(m *shardlog.Map, damaged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.logged {
		shard := m.Find([]byte(w.key))
		_, now := w.seen[node.LogOf(shard)]
		kept := now && !damaged
		if base := shard.Base; base != nil && !now {
			n, before := w.seen[node.Log{Shard: base.Shard, Epoch: base.Epoch}]
			kept = before && n <= base.Sequence
		}
		s.cells[w.key] = &cell{maybe: []int{w.value}}
		if kept {
			s.cells[w.key] = &cell{value: w.value}
			s.kept++
		}
	}
	s.logged = nil
}

// writer writes rows that no other actor writes: a key is left as soon as an outcome is unknown.
func (a *actor) writer(round int, logged bool) func(ctx context.Context) {
	keys := map[int]string{}
	return func(ctx context.Context) {
		slot := a.rng.IntN(8)
		if keys[slot] == "" {
			keys[slot] = fmt.Sprintf("%sown-%d-%d-%d", a.s.prefix, round, a.id, a.s.next())
		}
		key, value := keys[slot], a.s.next()
		was := a.s.cell(key)
		var out answer
		switch kind := a.rng.IntN(10); {
		case kind == 0 && was.value != 0:
			value = 0
			out = a.do(ctx, http.MethodDelete, rowPath(key), nil)
		case kind < 3 && was.value == 0:
			out = a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"), "If-None-Match", "*")
		case kind < 5 && was.version != "":
			out = a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"), "If-Match", `"`+was.version+`"`)
		case kind < 7 && !logged: // a key of its own, of which nothing is known until the end
			key = fmt.Sprintf("%slogged-%d-%d-%d", a.s.prefix, round, a.id, value)
			out = a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"), gateway.Acknowledge, "logged")
			a.s.wrote(&out, value, key)
			if out.outcome == done {
				a.s.mu.Lock()
				a.s.logged = append(a.s.logged, loggedWrite{key, value, out.seen})
				a.s.mu.Unlock()
			}
			return
		case kind < 7:
			out = a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"), gateway.Acknowledge, "logged")
		default:
			out = a.do(ctx, http.MethodPut, rowPath(key), newRow(key, value, "own"))
		}
		if slices.Contains([]string{"changed", "exists", "not_found", "invalid"}, out.code) {
			a.b.fail(fmt.Errorf("row %s, which only this actor writes: a write is lost or applied twice: %w", key,
				out.err))
		}
		if !a.s.wrote(&out, value, key) {
			keys[slot] = ""
		} else if a.rng.IntN(3) == 0 {
			a.readOwn(ctx, key)
		}
		if out.outcome != done {
			_ = shardlog.Pause(ctx, 50*time.Millisecond)
		}
	}
}

// readOwn reads a row that only this actor writes.
func (a *actor) readOwn(ctx context.Context, key string) {
	want := a.s.cell(key)
	defer a.s.read(time.Now())
	out := a.do(ctx, http.MethodGet, rowPath(key), nil)
	if known := out.outcome == done || out.code == "not_found"; known && out.value != want.value {
		a.b.fail(fmt.Errorf("row %s is read as %d by who has written %d (0: no row)", key, out.value, want.value))
	}
}

// read notes a read that began at a time.
func (s *story) read(begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, time.Since(begun))
}

// pairs writes transactions of two rows, and counts their rows, of which there must be two or none.
func (a *actor) pairs(round int) func(ctx context.Context) {
	return func(ctx context.Context) {
		name := fmt.Sprintf("%spair-%d-%d-%d", a.s.prefix, round, a.id, a.s.next())
		keys := a.b.neighbors(name)
		value := a.s.next()
		var in wire.Transaction
		for _, key := range keys {
			line, err := json.Marshal(newRow(key, value, name))
			if err != nil {
				a.b.fail(err)
			}
			in.Operations = append(in.Operations, wire.Operation{
				Op: wire.Insert, Collection: "c", Key: wire.NewKey([]byte(key)), Row: line,
			})
		}
		out := a.do(ctx, http.MethodPost, "/v1/files/main/transactions", in)
		a.s.wrote(&out, value, keys...)
		if out.outcome != done {
			_ = shardlog.Pause(ctx, 50*time.Millisecond)
		}
		begun := time.Now()
		n, err := a.count(ctx, name)
		a.s.read(begun)
		right := n == 2 && out.outcome != refused || n == 0 && out.outcome != done
		if stale := out.outcome == done && n == 0; err == nil && !right && !stale { // another gateway may be behind
			a.b.fail(fmt.Errorf("%d rows of the transaction of %v", n, keys))
		}
	}
}

// count counts the rows with a label by package client.
func (a *actor) count(ctx context.Context, label string) (int, error) {
	c, err := client.New(a.gateway(), nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.File("main").Collection("c").Count(ctx, filter.HasLabel(label))
}

// gateway returns the URL of a gateway.
func (a *actor) gateway() string {
	if a.at != "" {
		return a.at
	}
	return a.b.gateway(a.rng)
}

// baseRows is the number of rows that nobody changes.
const baseRows = 60

func baseRow(i int) row { return newRow(fmt.Sprint("base-", i), (i+1)*(i+1), "base") }

// search searches and counts the rows that nobody changes. The answer is right, or an error.
func (a *actor) search(ctx context.Context) {
	defer a.s.read(time.Now())
	if a.rng.IntN(2) == 0 {
		if n, err := a.count(ctx, "base"); err == nil && n != baseRows {
			a.b.fail(fmt.Errorf("a count has %d of %d rows", n, baseRows))
		}
		return
	}
	c, err := client.New(a.gateway(), nil)
	if err != nil {
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	i := a.rng.IntN(baseRows-2) + 1
	want := []string{fmt.Sprint("base-", i), fmt.Sprint("base-", i-1), fmt.Sprint("base-", i+1)}
	o := &db.SearchOptions{K: 3, Index: db.Flat, Where: filter.HasLabel("base")}
	q := db.Query{Vector: []float32{float32(baseRow(i).value()), 1}}
	if a.rng.IntN(2) == 0 {
		q, o.Index, want = db.Query{Text: baseRow(i).Text}, "words", want[:1]
	}
	found, err := c.File("main").Collection("c").Search(ctx, q, o)
	if err != nil {
		_ = shardlog.Pause(ctx, 50*time.Millisecond)
		return
	}
	var keys []string
	for _, h := range found.Hits {
		keys = append(keys, string(h.Key))
	}
	if !slices.Equal(keys, want) {
		a.b.fail(fmt.Errorf("a search has found %v, want %v", keys, want))
	}
}
