package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

var schemas = map[string]db.Schema{
	"dense": {Dim: 4}, "cosine": {Dim: 4, Metric: vector.Cosine}, "numbered": {Sparse: true},
	"named": {Named: true}, "texts": {Text: &text.Schema{}}, "both": {Text: &text.Schema{}, Dim: 4},
}

var words = strings.Fields("red boot hat sea cold water ship old new blue sock tree")

// draw draws a row of a collection.
func draw(rng *rand.Rand, s db.Schema, i int) db.Row {
	r := db.Row{Key: fmt.Append(nil, "key ", i), Labels: []string{fmt.Sprint("label ", rng.IntN(3))}}
	r.Attributes = map[string]any{"n": i, "word": words[rng.IntN(len(words))]}
	if rng.IntN(9) == 0 {
		r.Attributes["rare"] = true
	}
	for range s.Dim {
		r.Vector = append(r.Vector, rng.Float32()*2-1)
	}
	switch {
	case s.Text != nil:
		for range 1 + rng.IntN(9) {
			r.Text += words[rng.IntN(len(words))] + " "
		}
	case s.Named:
		for _, j := range rng.Perm(len(words))[:4] {
			r.Features = append(r.Features, vector.Feature{Name: words[j], Value: rng.Float32() + 0.1})
		}
	case s.Sparse:
		for j := range uint32(9) {
			if rng.IntN(2) == 0 {
				r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, j*j), append(r.Sparse.Value, rng.Float32()+0.1)
			}
		}
	}
	return r
}

func query(r db.Row) db.Query {
	return db.Query{Vector: r.Vector, Sparse: r.Sparse, Features: r.Features, Text: r.Text}
}

func each(list []db.Row) func(yield func(db.Row, error) bool) {
	return func(yield func(db.Row, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestAnswers compares what a client gets of a cluster with a group of its files, and with one file.
func TestAnswers(t *testing.T) {
	b := newBed(t, 3, 2, nil)
	ctx := t.Context()
	one := b.newNode("one").db
	rng := rand.New(rand.NewPCG(1, 2))
	for name, schema := range schemas {
		c, err := b.file.Create(ctx, name, schema)
		must(t, err)
		d, err := one.Create(ctx, name, schema)
		must(t, err)
		var list []db.Row
		for i := range 300 {
			list = append(list, draw(rng, schema, i))
		}
		n, err := c.Load(ctx, each(list), nil)
		if must(t, err); n != len(list) {
			t.Fatalf("%d rows stored", n)
		}
		_, err = d.Load(ctx, each(list), nil)
		must(t, err)
		var sources []group.Source
		for _, s := range b.view.Shards {
			sources = append(sources, group.Source{DB: b.nodes[s.Replicas[0]].db, Collection: name})
		}
		oracle, err := group.Open(ctx, sources...)
		must(t, err)
		for _, f := range []*filter.Filter{
			nil, filter.HasLabel("label 1"), filter.Range("n", 20, 200), filter.Exists("rare"),
			filter.KeyPrefix([]byte("key 1")), filter.Not(filter.Eq("word", "sea")),
		} {
			wantN, err := d.Count(ctx, f)
			must(t, err)
			gotN, err := c.Count(ctx, f)
			if must(t, err); gotN != wantN {
				t.Errorf("%s: count of %v: %d, want %d", name, f, gotN, wantN)
			}
			for i := range 3 {
				q, o := query(draw(rng, schema, 0)), &db.SearchOptions{K: 1 + 25*i, Where: f, Include: 15}
				if i == 2 {
					q = db.Query{Key: []byte("key 7")}
				}
				same(t, name, c, d, oracle, q, o)
			}
		}
		oracle.Release()
		want, err := d.Labels()
		must(t, err)
		got, err := c.Labels(ctx)
		if must(t, err); !reflect.DeepEqual(got, want) {
			t.Errorf("labels %v, want %v", got, want)
		}
		seen := 0
		for r, err := range c.Rows(ctx, filter.Range("n", 0, 100)) {
			must(t, err)
			i := r.Attributes["n"].(int64)
			if w := list[i]; string(r.Key) != string(w.Key) || r.Text != w.Text || !reflect.DeepEqual(r.Labels, w.Labels) {
				t.Errorf("row %v, want %v", r, w)
			}
			seen++
		}
		if seen != 100 {
			t.Errorf("%d rows exported", seen)
		}
	}
	list, err := b.file.Collections(ctx)
	if must(t, err); len(list) != len(schemas) || list[0].Live != 300 {
		t.Errorf("collections %v", list)
	}
	st, err := b.file.Stats(ctx)
	if must(t, err); len(st.Collections) != len(schemas) {
		t.Errorf("stats %v", st)
	}
}

// hits are those of a result as JSON.
func hits(t *testing.T, r *db.Result) string {
	t.Helper()
	out, err := json.Marshal(wire.NewResult(r, false).Hits)
	must(t, err)
	return string(out)
}

// same compares a search.
func same(
	t *testing.T, name string, c client.Collection, d db.Collection, oracle *group.Group, q db.Query,
	o *db.SearchOptions,
) {
	t.Helper()
	ctx := t.Context()
	got, err := c.Search(ctx, q, o)
	must(t, err)
	want, err := oracle.Search(ctx, q, o)
	must(t, err)
	single, err := d.Search(ctx, q, o)
	must(t, err)
	if len(got.Hits) != len(want.Hits) || len(got.Hits) != len(single.Hits) {
		t.Fatalf("%s: %d hits, want %d and %d", name, len(got.Hits), len(want.Hits), len(single.Hits))
	}
	if x, w := hits(t, &got), hits(t, &want.Result); x != w {
		t.Fatalf("%s: hits of %v:\n%s\nwant\n%s", name, q, x, w)
	}
	for i := range got.Hits {
		if x, w := got.Hits[i], single.Hits[i]; x.Distance != w.Distance {
			t.Fatalf("%s: hit %d of %v has distance %v, want %v", name, i, q, x, w)
		}
	}
	batch, err := c.SearchBatch(ctx, []db.Query{q, q}, o)
	if must(t, err); len(batch) != 2 || hits(t, &batch[1]) != hits(t, &got) {
		t.Fatalf("%s: batch %v", name, batch)
	}
}

// TestWrites makes changes of single rows, with conditions.
func TestWrites(t *testing.T) {
	b := newBed(t, 2, 2, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 2})
	must(t, err)
	_, err = b.file.Create(ctx, "rows", db.Schema{Dim: 2})
	is(t, err, db.ErrExists)
	for i := range 20 {
		key := fmt.Append(nil, "k", i)
		must(t, c.Insert(ctx, db.Row{Key: key, Vector: []float32{float32(i), 1}}))
		is(t, c.Insert(ctx, db.Row{Key: key, Vector: []float32{1, 1}}), db.ErrExists)
		must(t, c.Update(ctx, key, func(r *db.Row) { r.Labels = []string{"a"} }))
		r, err := c.Get(ctx, key)
		if must(t, err); len(r.Labels) != 1 || r.Vector[0] != float32(i) {
			t.Fatalf("row %v", r)
		}
		if i%2 == 0 {
			must(t, c.Delete(ctx, key))
			_, err := c.Get(ctx, key)
			is(t, err, db.ErrNotFound)
		}
	}
	is(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1}}), db.ErrInvalid)
	is(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1, 1}, ExpiresAt: time.Now()}), wire.ErrNotBuilt)
	n, err := c.Count(ctx, nil)
	if must(t, err); n != 10 {
		t.Fatalf("%d rows", n)
	}
	// Rows of two shards in one transaction.
	err = b.file.Update(ctx, func(tx *client.Tx) error {
		for i := range 20 {
			if err := tx.Collection("rows").Put(db.Row{Key: fmt.Append(nil, "k", i), Vector: []float32{1, 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	is(t, err, wire.ErrNotBuilt)
	n, err = c.Load(ctx, each([]db.Row{{Key: []byte("new"), Vector: []float32{1, 1}}, {Key: []byte("k1"), Vector: []float32{1, 1}}}),
		&db.LoadOptions{Insert: true})
	if is(t, err, db.ErrExists); n > 1 {
		t.Fatalf("%d rows", n)
	}
	must(t, b.file.Drop(ctx, "rows"))
	is(t, b.file.Drop(ctx, "rows"), db.ErrNotFound)
	_, err = c.Count(ctx, nil)
	is(t, err, db.ErrNotFound)
}

// TestCounters changes one row by many clients at once: each change counts, although replies get lost.
func TestCounters(t *testing.T) {
	b := newBed(t, 2, 2, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	must(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1}, Attributes: map[string]any{"n": 0}}))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				b.mu.Lock()
				b.unknown = (i + j) % 3
				b.mu.Unlock()
				if err := c.Update(ctx, []byte("k"), func(r *db.Row) {
					r.Attributes = map[string]any{"n": r.Attributes["n"].(int64) + 1}
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r, err := c.Get(ctx, []byte("k"))
	if must(t, err); r.Attributes["n"] != int64(20) {
		t.Fatalf("row %v, want 20", r)
	}
}

// TestUnknown publishes a write whose outcome is not known, and which cannot be sent again.
func TestUnknown(t *testing.T) {
	b := newBed(t, 1, 1, nil)
	c, err := b.file.Create(t.Context(), "rows", db.Schema{Dim: 1})
	must(t, err)
	for _, after := range []error{shardlog.ErrFull, shardlog.ErrLogLost} {
		b.mu.Lock()
		b.unknown, b.after = 1, after
		b.mu.Unlock()
		is(t, c.Put(t.Context(), db.Row{Key: []byte("k"), Vector: []float32{1}}), db.ErrUnknownState)
	}
	b.mu.Lock()
	b.unknown, b.after = 1, shardlog.ErrUnreachable
	b.mu.Unlock()
	time.AfterFunc(200*time.Millisecond, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.after = nil
	})
	must(t, c.Put(t.Context(), db.Row{Key: []byte("k"), Vector: []float32{2}}))
}

// TestTokenOfSplit reads by a gateway that does not know of a split yet, with a token of a part.
func TestTokenOfSplit(t *testing.T) {
	b := newBed(t, 1, 1, nil)
	_, err := b.file.Create(t.Context(), "rows", db.Schema{Dim: 1})
	must(t, err)
	path := "/v1/files/c/collections/rows/rows/k"
	get := func(token string, want int) {
		t.Helper()
		if answer, body := b.send(t, "GET", path, "", gateway.Sequence, token); answer.StatusCode != want {
			t.Fatalf("%s: %s %s, want %d", token, answer.Status, body, want)
		}
	}
	get("0:1=1", http.StatusNotFound)
	get("0b:1=1", http.StatusServiceUnavailable)
	get("0:2=1", http.StatusServiceUnavailable)
	b.nodes["node-a"] = b.newNode("0a")
	b.nodes["node-b"] = b.newNode("0b")
	halves := shardlog.Ranges(2)
	halves[0].ID, halves[0].Replicas = "0a", []string{"node-a"}
	halves[1].ID, halves[1].Replicas = "0b", []string{"node-b"}
	b.mu.Lock()
	for _, id := range []string{"0a", "0b"} {
		b.logs[id] = append(b.logs[id], b.logs["0"]...)
	}
	b.view = shardlog.Map{Shards: halves}
	b.changed.Broadcast()
	b.mu.Unlock()
	for _, id := range []string{"node-a", "node-b"} {
		b.nodes[id].wait(t.Context(), 1)
	}
	b.nodes["node-0-0"].down.Store(true) // the gateway still has the map before
	answer, body := b.send(t, "POST", "/v1/files/c/collections/rows/count", "{}")
	if answer.StatusCode != http.StatusOK || answer.Header.Get(gateway.Missing) != "" {
		t.Fatalf("%s %s", answer.Status, body)
	}
	get("0:1=1,0a:1=1,0b:1=1", http.StatusNotFound) // no such row, in a part
}

// send sends a request, and returns the answer.
func (b *bed) send(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.gateway.URL+path, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer, string(out)
}

// hold has a node apply nothing, or all again.
func (f *fake) hold(id string, held bool) {
	f.nodes[id].paused.Store(held)
	f.wake()
}

// TestReadYourWrites reads by another gateway, with the token of a write, from a replica that is behind.
func TestReadYourWrites(t *testing.T) {
	b := newBed(t, 1, 2, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	must(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1}}))
	other := b.serve(nil)
	behind := b.view.Shards[0].Replicas[0]
	b.hold(behind, true)
	path := "/v1/files/c/collections/rows/rows/k"
	answer, body := b.send(t, "PUT", path, `{"vector":[2]}`, gateway.Acknowledge, "logged")
	at := answer.Header.Get(gateway.Sequence)
	if answer.StatusCode != http.StatusAccepted || at == "" {
		t.Fatalf("%s %q %s", answer.Status, at, body)
	}
	_, number, _ := strings.Cut(at, "=")
	for range 8 { // gateways that know nothing of the replicas; the epoch is the present one
		_, body = b.serve(nil).send(t, "GET", path, "", gateway.Sequence, "0="+number)
		if body != "{\"key\":\"k\",\"vector\":[2]}\n" {
			t.Fatalf("without an epoch: %s", body)
		}
	}
	for range 6 { // one of two replicas has it
		answer, body = other.send(t, "GET", path, "", gateway.Sequence, at)
		if answer.Header.Get(gateway.Sequence) != at || body != "{\"key\":\"k\",\"vector\":[2]}\n" {
			t.Fatalf("%s %q %s", answer.Status, answer.Header.Get(gateway.Sequence), body)
		}
		answer, body = b.send(t, "GET", path, "") // the gateway knows what it has acknowledged
		if body != "{\"key\":\"k\",\"vector\":[2]}\n" {
			t.Fatalf("%s %s", answer.Status, body)
		}
	}
	answer, body = b.send(t, "PATCH", path, `{"vector":[3]}`, gateway.Acknowledge, "logged")
	if answer.StatusCode != http.StatusBadRequest {
		t.Fatalf("a condition that nobody checks: %s %s", answer.Status, body)
	}
	done := make(chan error)
	go func() { done <- c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{4}}) }()
	select {
	case err := <-done:
		t.Fatalf("acknowledged by one of two replicas: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	b.hold(behind, false)
	must(t, <-done)
}

// TestReadWhileWriting: a read does not wait for a write that is not acknowledged yet.
func TestReadWhileWriting(t *testing.T) {
	b := newBed(t, 1, 2, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	must(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1}}))
	for id := range b.nodes {
		b.hold(id, true)
	}
	done := make(chan error)
	go func() { done <- c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{2}}) }()
	for n := 0; n < 3; { // the log has it
		b.mu.Lock()
		n = len(b.logs["0"])
		b.mu.Unlock()
	}
	time.Sleep(50 * time.Millisecond) // and the gateway knows it
	if row, err := c.Get(ctx, []byte("k")); err != nil || row.Vector[0] != 1 {
		t.Errorf("%v, %v", row.Vector, err)
	}
	for id := range b.nodes {
		b.hold(id, false)
	}
	must(t, <-done)
	if row, err := c.Get(ctx, []byte("k")); err != nil || row.Vector[0] != 2 {
		t.Errorf("%v, %v", row.Vector, err)
	}
}

// TestReadsGoOn reads while the log does not answer, and as many writes wait as a gateway takes.
func TestReadsGoOn(t *testing.T) {
	b := newBed(t, 1, 1, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	row := db.Row{Key: []byte("k"), Vector: []float32{1}}
	must(t, c.Put(ctx, row))
	unknown := func(n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unknown = n
	}
	unknown(1 << 30)
	results := make(chan error, 65)
	for range 65 {
		go func() { results <- c.Put(ctx, row) }()
	}
	is(t, <-results, wire.ErrBusy)
	for range 3 {
		_, err := c.Get(ctx, row.Key)
		must(t, err)
		_, err = c.Search(ctx, db.Query{Vector: row.Vector}, nil)
		must(t, err)
	}
	unknown(0)
	for range 64 {
		must(t, <-results)
	}
}

// TestOtherShards: a shard without replicas does not keep others from writes, which need the form of rows.
func TestOtherShards(t *testing.T) {
	b := newBed(t, 2, 1, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	for _, s := range b.view.Shards {
		n := b.nodes[s.Replicas[0]]
		n.down.Store(true)
		time.Sleep(1100 * time.Millisecond) // a description is used for a second
		for i := range 20 {
			row := db.Row{Key: fmt.Append(nil, i), Vector: []float32{1}}
			if !s.Owns(row.Key) {
				must(t, c.Put(ctx, row))
			}
		}
		n.down.Store(false)
	}
}

// TestReplicas asks replicas that are slow, down, and gone.
func TestReplicas(t *testing.T) {
	b := newBed(t, 2, 2, &gateway.Options{Deadline: 2 * time.Second})
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	for i := range 20 {
		must(t, c.Put(ctx, db.Row{Key: fmt.Append(nil, "k", i), Vector: []float32{float32(i)}}))
	}
	search := func() {
		t.Helper()
		found, err := c.Search(ctx, db.Query{Vector: []float32{3}}, &db.SearchOptions{K: 20})
		if must(t, err); len(found.Hits) != 20 {
			t.Fatalf("%d hits", len(found.Hits))
		}
	}
	late := []string{gateway.Sequence, b.view.Shards[0].ID + ":1=1000000"}
	answer, body := b.send(t, "GET", "/v1/files/c/collections/rows", "", late...)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "has applied message 1000000") {
		t.Fatalf("%s %s", answer.Status, body)
	}
	first := b.nodes[b.view.Shards[0].Replicas[0]]
	first.delay.Store(int64(time.Minute))
	begin := time.Now()
	for range 10 {
		search()
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("with a slow replica 10 searches took %v", took)
	}
	first.delay.Store(0)
	first.down.Store(true)
	for range 10 {
		search()
	}
	second := b.nodes[b.view.Shards[0].Replicas[1]]
	second.http.CloseClientConnections()
	second.down.Store(true)
	_, err = c.Search(ctx, db.Query{Vector: []float32{3}}, nil)
	is(t, err, wire.ErrUnavailable)

	path := "/v1/files/c/collections/rows/search?partial=true"
	answer, body = b.send(t, "POST", path, `{"vector":[3],"k":20}`)
	var out wire.Result
	must(t, json.Unmarshal([]byte(body), &out))
	missing := answer.Header.Get(gateway.Missing)
	if answer.StatusCode != http.StatusOK || missing != b.view.Shards[0].ID || len(out.Hits) == 0 || len(out.Hits) == 20 {
		t.Fatalf("%s %s", answer.Status, body)
	}
	answer, _ = b.send(t, "GET", "/readyz", "")
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("ready: %s", answer.Status)
	}
}

// TestSilence reads while the key-value store does not answer, and while it has lost what nodes have
// announced: what the gateway knows serves.
func TestSilence(t *testing.T) {
	b := newBed(t, 2, 1, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	must(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{1}}))
	b.hidden.Store(true)
	for range 6 {
		time.Sleep(500 * time.Millisecond)
		_, err := c.Get(ctx, []byte("k"))
		must(t, err)
		must(t, c.Put(ctx, db.Row{Key: []byte("k"), Vector: []float32{2}}))
	}
	b.hidden.Store(false)
	b.silent.Store(true)
	time.Sleep(1500 * time.Millisecond) // the map is not the latest any more
	begin := time.Now()
	for range 20 {
		if _, err := c.Get(ctx, []byte("k")); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("20 reads took %v", took)
	}
}

// TestPressure refuses writes to a shard whose replicas are far behind, or whose log has lost messages.
func TestPressure(t *testing.T) {
	row := `{"vector":[1,2]}`
	for name, c := range map[string]struct {
		status [3]shardlog.Status
		want   string
	}{
		"one behind": {[3]shardlog.Status{{Last: 200}, {Last: 290, Position: shardlog.Position{Sequence: 290}},
			{Last: 290, Position: shardlog.Position{Sequence: 200}}}, ""},
		"two behind": {[3]shardlog.Status{{Last: 200}, {Last: 290, Position: shardlog.Position{Sequence: 290}},
			{Last: 290, Position: shardlog.Position{Sequence: 180}}}, "busy"},
		"lost": {[3]shardlog.Status{{}, {Lost: true}, {}}, "unavailable"},
	} {
		b := newBed(t, 1, 3, nil)
		if _, err := b.file.Create(t.Context(), "v", db.Schema{Dim: 2}); err != nil {
			t.Fatal(err)
		}
		for i, n := range []string{"node-0-0", "node-0-1", "node-0-2"} {
			b.nodes[n].wait(t.Context(), 1) // until it has the collection
			c.status[i].Epoch = 1
			b.mu.Lock()
			b.nodes[n].status = c.status[i]
			b.mu.Unlock()
		}
		fresh := b.serve(&gateway.Options{MaxBehind: 100}) // which reads the statuses at its first request
		answer, body := fresh.send(t, "PUT", "/v1/files/c/collections/v/rows/a", row)
		if c.want == "" && answer.StatusCode != http.StatusOK || c.want != "" && !strings.Contains(body, `"`+c.want+`"`) ||
			(c.want == "") != (answer.Header.Get("Retry-After") == "") {
			t.Errorf("%s: %s, %s", name, answer.Status, body)
		}
	}
}

// TestSealed writes to a shard that is split at the same time.
func TestSealed(t *testing.T) {
	b := newBed(t, 1, 1, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Dim: 1})
	must(t, err)
	for _, id := range []string{"a", "b"} {
		b.nodes["node-"+id] = b.newNode(id)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 50 {
			if err := c.Put(ctx, db.Row{Key: fmt.Append(nil, "k", i), Vector: []float32{1}}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		var list []db.Row
		for i := range 5000 {
			list = append(list, db.Row{Key: fmt.Append(nil, "l", i), Vector: []float32{1}, Text: ""})
		}
		if n, err := c.Load(ctx, each(list), nil); err != nil || n != len(list) {
			t.Errorf("loaded %d: %v", n, err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	b.mu.Lock()
	b.sealed["0"] = true
	parent := b.logs["0"]
	last := uint64(len(parent))
	b.mu.Unlock()
	b.nodes["node-0-0"].wait(ctx, last)
	b.mu.Lock()
	for i, m := range parent { // the children have the parent's rows of their ranges
		for _, id := range []string{"a", "b"} {
			part := *m
			if m.Transaction != nil {
				part.Transaction = &wire.Transaction{}
				for _, o := range m.Transaction.Operations {
					key, _ := o.Key.Get()
					if (shardlog.Hash(key) < 1<<63) == (id == "a") {
						part.Transaction.Operations = append(part.Transaction.Operations, o)
					}
				}
			}
			b.logs[id] = append(b.logs[id], &part)
		}
		_ = i
	}
	b.changed.Broadcast()
	b.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	b.mu.Lock()
	halves := shardlog.Ranges(2)
	for i, id := range []string{"a", "b"} {
		halves[i].ID, halves[i].Replicas = id, []string{"node-" + id}
	}
	b.view = shardlog.Map{Shards: halves}
	b.mu.Unlock()
	all.Wait()
	n, err := c.Count(ctx, nil)
	if must(t, err); n != 5050 {
		t.Fatalf("%d rows", n)
	}
}

// TestRefused sends what a gateway refuses.
func TestRefused(t *testing.T) {
	b := newBed(t, 2, 1, nil)
	_, err := b.file.Create(t.Context(), "rows", db.Schema{Dim: 1})
	must(t, err)
	coll := "/v1/files/c/collections/rows"
	for _, x := range []struct {
		method, path, body, code string
		header                   []string
	}{
		{"GET", "/v1/files/d", "", "not_found", nil},
		{"GET", "/v1/files/c/collections/none", "", "not_found", nil},
		{"GET", "/v1/files/c/collections/.cluster", "", "not_found", nil},
		{"GET", "/v1/files/c/collections/.cluster/rows", "", "not_found", nil},
		{"POST", "/v1/files/c/collections/.cluster/search", `{"vector":[1]}`, "not_found", nil},
		{"PUT", "/v1/files/c/collections/.cluster/rows/k", `{"vector":[1]}`, "not_found", nil},
		{"POST", "/v1/files/c/collections", `{"name":".x","dim":1}`, "invalid", nil},
		{"POST", "/v1/files/c/collections", `{"name":"x","dim":-1}`, "invalid", nil},
		{"POST", coll + "/search", `{"vector":[1,2]}`, "invalid", nil},
		{"POST", coll + "/search", `{"vector":[1],"where":"n ="}`, "invalid", nil},
		{"POST", coll + "/search?all=1", `{"vector":[1]}`, "invalid", nil},
		{"POST", coll + "/search?partial=yes", `{"vector":[1]}`, "invalid", nil},
		{"POST", coll + "/search", `{"vector":[1],"x":1}`, "invalid_json", nil},
		{"POST", coll + "/search", `{"vector":[1]}`, "wrong_type", []string{"Content-Type", "text/plain"}},
		{"POST", coll + "/search", `{"vector":[1]}`, "invalid", []string{gateway.Sequence, "x"}},
		{"POST", coll + "/indexes/a", `{"kind":"none"}`, "invalid", nil},
		{"POST", coll + "/indexes/a", `{"kind":"postings"}`, "invalid", nil},
		{"DELETE", coll + "/indexes/a", "", "not_found", nil},
		{"PUT", coll + "/rows/k", `{"vector":[1]}`, "invalid", []string{gateway.Acknowledge, "soon"}},
		{"PUT", coll + "/rows/k", `{"vector":[1]}`, "changed", []string{"If-Match", `"0"`}},
		{"PUT", coll + "/rows/k", `{"vector":[1]}`, "not_in_cluster", []string{"If-Match", `"0", "1"`}},
		{"PATCH", coll + "/rows/k", `{"vector":[1]}`, "not_found", nil},
		{"GET", "/v1/files/c/backup", "", "not_in_cluster", nil},
		{"POST", "/v1/files/c/maintain", "{}", "not_in_cluster", nil},
		{"GET", coll + "/map", "", "not_in_cluster", nil},
	} {
		answer, body := b.send(t, x.method, x.path, x.body, x.header...)
		var f wire.Failure
		if err := json.Unmarshal([]byte(body), &f); err != nil || f.Error == nil || f.Error.Code != x.code ||
			answer.StatusCode != wire.NewError(f.Error).Status {
			t.Errorf("%s %s: %s %s, want %s", x.method, x.path, answer.Status, body, x.code)
		}
	}
	if _, body := b.send(t, "GET", "/v1/files", ""); body != "{\"files\":[\"c\"]}\n" {
		t.Errorf("files %s", body)
	}
	// The collection of a node is not listed, and the shard has its name.
	_, err = b.nodes["node-0-0"].db.Create(t.Context(), ".cluster", db.Schema{Dim: 1})
	must(t, err)
	_, err = b.file.Collection("none").Count(t.Context(), nil)
	if err == nil || err.Error() != `db: shard 0: no such collection: "none", the file has ["rows"]` {
		t.Error(err)
	}
}

// TestRoutes asks for every route that a server describes: the gateway answers, not the server, which has no files.
func TestRoutes(t *testing.T) {
	b := newBed(t, 1, 1, nil)
	_, body := b.send(t, "GET", "/openapi.json", "")
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	must(t, json.Unmarshal([]byte(body), &described))
	asked := 0
	for path, methods := range described.Paths {
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		for method := range methods {
			at := strings.NewReplacer("{file}", "c", "{collection}", "none", "{", "", "}", "").Replace(path)
			answer, body := b.send(t, strings.ToUpper(method), at, "{}")
			if strings.Contains(body, "GET /v1/files lists them") || answer.StatusCode == http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %s %s", method, at, answer.Status, body)
			}
			asked++
		}
	}
	if asked < 20 {
		t.Errorf("%d routes", asked)
	}
}

// TestIndexes builds and drops an index in all shards.
func TestIndexes(t *testing.T) {
	b := newBed(t, 2, 2, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "rows", db.Schema{Sparse: true})
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	var list []db.Row
	for i := range 200 {
		list = append(list, draw(rng, db.Schema{Sparse: true}, i))
	}
	_, err = c.Load(ctx, each(list), nil)
	must(t, err)
	built, err := c.Build(ctx, "words", &index.Postings{})
	if must(t, err); built.Rows != 200 || built.Name != "words" {
		t.Fatalf("built %v", built)
	}
	found, err := c.Search(ctx, query(list[3]), &db.SearchOptions{Index: "words", K: 1})
	if must(t, err); string(found.Hits[0].Key) != "key 3" || found.Index != "words" {
		t.Fatalf("found %v", found)
	}
	infos, err := c.Indexes(ctx)
	if must(t, err); len(infos) != 1 || infos[0].Rows != 200 {
		t.Fatalf("indexes %v", infos)
	}
	must(t, c.DropIndex(ctx, "words"))
	is(t, c.DropIndex(ctx, "words"), db.ErrNotFound)
}

// TestPredict predicts labels by the label models of all shards, as a group of the files does and, where no rows
// are equally near, one model of all rows.
func TestPredict(t *testing.T) {
	b := newBed(t, 3, 2, nil)
	ctx := t.Context()
	one := b.newNode("one").db
	rng := rand.New(rand.NewPCG(1, 2))
	for name, schema := range schemas {
		c, err := b.file.Create(ctx, name, schema)
		must(t, err)
		d, err := one.Create(ctx, name, schema)
		must(t, err)
		var list []db.Row
		for i := range 200 {
			list = append(list, draw(rng, schema, i))
		}
		_, err = c.Load(ctx, each(list), nil)
		must(t, err)
		_, err = d.Load(ctx, each(list), nil)
		must(t, err)
		_, err = c.Predict(ctx, query(list[0]), nil)
		is(t, err, db.ErrNotFound)
		for round := range 2 { // the second one with other models, while the gateway has those of the first
			o := &index.LCIF{Weight: "none", Params: &lcif.Params{K: 7, Lambda: 0.4, Thresholds: &labels.Thresholds{Single: 0.3}}}
			_, err = c.Build(ctx, "labels", o)
			must(t, err)
			_, err = d.Build(ctx, "labels", o, nil)
			must(t, err)
			comparePredictions(t, b, name, c, d, o.Params, func(i int) db.Query {
				return query(draw(rng, schema, i+20*round))
			})
			for i := range list {
				list[i] = draw(rng, schema, 200+i)
			}
			_, err = c.Load(ctx, each(list), nil)
			must(t, err)
			_, err = d.Load(ctx, each(list), nil)
			must(t, err)
		}
		_, err = c.Predict(ctx, query(list[0]), &db.PredictOptions{MinProbability: 0.5})
		is(t, err, db.ErrInvalid)
		_, err = c.Build(ctx, "alone", &index.LabelTree{})
		must(t, err)
		compareMeans(t, b, name, c, func(i int) db.Query { return query(draw(rng, schema, i)) })
	}
}

// compareMeans compares predictions by models that do not add up with those of a group of the shards' files.
func compareMeans(t *testing.T, b *bed, name string, c client.Collection, query func(i int) db.Query) {
	t.Helper()
	oracle := b.oracle(t, name)
	defer oracle.Release()
	for i := range 10 {
		q, o := query(i), &db.PredictOptions{Index: "alone", Top: 3 * (i % 2), MinProbability: 0.01 * float64(i%3)}
		got, err := c.Predict(t.Context(), q, o)
		must(t, err)
		want, err := oracle.Predict(t.Context(), q, o)
		must(t, err)
		if len(want.Labels) == 0 || !reflect.DeepEqual(got.Labels, want.Labels) {
			t.Fatalf("%s, query %d: got %v, want %v", name, i, got.Labels, want.Labels)
		}
	}
}

// oracle returns a group of the files of the shards.
func (b *bed) oracle(t *testing.T, collection string) *group.Group {
	t.Helper()
	var sources []group.Source
	for _, s := range b.view.Shards {
		sources = append(sources, group.Source{DB: b.nodes[s.Replicas[0]].db, Collection: collection})
	}
	g, err := group.Open(t.Context(), sources...)
	must(t, err)
	return g
}

// comparePredictions compares predictions of a collection with those of a group of the shards' files, and of a file
// with all rows.
func comparePredictions(
	t *testing.T, b *bed, name string, c client.Collection, d db.Collection, p *lcif.Params, query func(i int) db.Query,
) {
	t.Helper()
	ctx := t.Context()
	oracle := b.oracle(t, name)
	defer oracle.Release()
	text := oracle.Info().Text != nil
	for i := range 20 {
		q, ask := query(i), &db.PredictOptions{Index: "labels", Params: p}
		if i%3 == 0 {
			ask.Top, ask.Where = 2, filter.Range("n", 20, 180)
		}
		got, err := c.Predict(ctx, q, ask)
		must(t, err)
		want, err := oracle.Predict(ctx, q, ask)
		must(t, err)
		if !reflect.DeepEqual(got.Labels, want.Labels) {
			t.Fatalf("%s: %v, want %v", name, got.Labels, want.Labels)
		}
		want, err = d.Predict(ctx, q, ask)
		if must(t, err); !text && !reflect.DeepEqual(got.Labels, want.Labels) {
			t.Fatalf("%s: %v, want %v of one file", name, got.Labels, want.Labels)
		}
	}
}
