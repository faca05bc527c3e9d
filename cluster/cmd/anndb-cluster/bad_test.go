package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/shardlog"
)

// badBed is a cluster of one node and a gateway, with one row.
type badBed struct {
	t       *testing.T
	servers *clustertest.Servers
	folder  string
	good    config
	node    []string // the command that runs the node
}

// write writes a configuration, and returns its folder.
func (b *badBed) write(name string, change func(c *config)) string {
	at := filepath.Join(b.folder, name)
	c := b.good
	change(&c)
	must(b.t, os.MkdirAll(at, 0o700))
	must(b.t, writeJSON(filepath.Join(at, "cluster.json"), c))
	return at
}

// start runs a command until it is ended.
func (b *badBed) start(args ...string) (end func(), out *bytes.Buffer) {
	cmd, out := command(b.t, args...)
	must(b.t, cmd.Start())
	ended := false
	end = func() {
		if !ended {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			ended = true
		}
	}
	b.t.Cleanup(end)
	return end, out
}

// store stores the row, whose text has so many words.
func (b *badBed) store(words int) string {
	path := filepath.Join(b.folder, "rows.jsonl")
	var text strings.Builder
	for i := range words {
		fmt.Fprintf(&text, "%x ", i*7919*7919)
	}
	must(b.t, os.WriteFile(path, fmt.Appendf(nil, "{\"key\":\"k\",\"text\":%q}\n", text.String()), 0o600))
	return path
}

// fails runs a command, whose error has the words.
func (b *badBed) fails(words string, args ...string) {
	b.t.Helper()
	cmd, out := command(b.t, args...)
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), words) {
		b.t.Errorf("%v: %v: %s, want an error with %q", args, err, out, words)
	}
}

// check counts the row once the node follows its log.
func (b *badBed) check() {
	b.t.Helper()
	at := filepath.Join(b.folder, "good")
	await(b.t, at, func(status string) bool { return strings.Contains(status, "following") })
	if out := run(b.t, at, "count", "docs"); out != "1\n" {
		b.t.Error(out)
	}
}

func newBadBed(t *testing.T) *badBed {
	if testing.Short() {
		t.Skip("many processes")
	}
	b := &badBed{t: t, servers: clustertest.Start(t, 1), folder: t.TempDir()}
	at := fmt.Sprint("127.0.0.1:", clustertest.Port(t))
	b.good = config{Cluster: "bad", Log: b.servers.URL(), Token: "secret", Gateway: "http://" + at}
	good := b.write("good", func(*config) {})
	run(t, good, "init", "a", "--shards", "1", "--replicas", "1")
	b.start("-c", good, "gateway", "--listen", at)
	b.node = []string{"-c", good, "node", "a", filepath.Join(b.folder, "a"), "--listen",
		fmt.Sprint("127.0.0.1:", clustertest.Port(t))}
	return b
}

// TestBadInput: wrong credentials, tokens, names, folders and too large rows are errors that say so, and nothing is
// lost.
func TestBadInput(t *testing.T) {
	b := newBadBed(t)
	b.start(b.node...)
	good := b.node[1]
	await(t, good, func(status string) bool { return strings.Contains(status, "following") })
	run(t, good, "create", "docs", "--text")
	run(t, good, "import", "docs", b.store(10))
	user := b.write("user", func(c *config) { c.Log = b.servers.URLWith("anndb:wrong") })
	b.fails("refuse the credentials", "-c", user, "status")
	none := filepath.Join(b.folder, "none.creds")
	b.fails("connect to nats://127.0.0.1", "-c", b.write("file", func(c *config) { c.Credentials = none }), "status")
	b.fails("token", "-c", b.write("token", func(c *config) { c.Token = "wrong" }), "count", "docs")
	b.fails(`no such cluster: "none"`, "-c", b.write("none", func(c *config) { c.Cluster = "none" }), "status")
	at := fmt.Sprint("127.0.0.1:", clustertest.Port(t))
	gate := b.write("gate", func(c *config) { c.Token, c.Gateway = "wrong", "http://"+at })
	end, _ := b.start("-c", gate, "gateway", "--listen", at)
	b.fails("refuses the token of this gateway", "-c", gate, "count", "docs")
	end()
	other := b.write("other", func(c *config) { c.Cluster = "other" })
	run(t, other, "init", "a", "--shards", "1", "--replicas", "1")
	b.fails("another cluster: folder", "-c", other, "node", "a", b.node[4], "--listen", "127.0.0.1:0")
	typo := filepath.Join(b.folder, "typo.json")
	must(t, os.WriteFile(typo, []byte(`{"cluster": "bad", "tokn": "secret"}`), 0o600))
	b.fails("tokn", "-c", typo, "status")
	b.fails(`node "b" does not run, but ["a"] do`, "-c", good, "move", "0", "b")
	b.fails("end it, or use another name", "-c", good, "node", "a", filepath.Join(b.folder, "b"), "--listen", "127.0.0.1:0")
	b.fails("argument: JSON", "-c", good, "search", "docs", "--vector", "[1,2")
	b.fails("argument: JSON", "-c", good, "search", "docs", "--features", "{")
	b.fails("others cannot reach it", "-c", good, "node", "b", filepath.Join(b.folder, "b"), "--listen", ":0")
	b.fails("others cannot reach it", "-c", good, "node", "b", filepath.Join(b.folder, "b"), "--listen",
		"127.0.0.1:0", "--address", "b:7701")
	b.fails("only replica", "-c", good, "remove", "0", "a")
	b.fails("at least 0 rows are stored: row 0", "-c", good, "import", "docs", b.store(200_000))
	b.check()
}

// TestChangedStream: messages of others, a purge and other settings of the stream lose nothing, and what is wrong is
// said; so are maps that are none.
func TestChangedStream(t *testing.T) {
	b, ctx := newBadBed(t), t.Context()
	end, out := b.start(b.node...)
	good := b.node[1]
	await(t, good, func(status string) bool { return strings.Contains(status, "following") })
	run(t, good, "create", "docs", "--text")
	js := b.servers.JetStream()
	_, err := js.Publish(ctx, "anndb_bad_0_1", []byte("hello"))
	must(t, err)
	run(t, good, "import", "docs", b.store(10))
	b.check()
	stream, err := js.Stream(ctx, "anndb_bad_0_1")
	must(t, err)
	must(t, stream.Purge(ctx))
	run(t, good, "import", "docs", b.store(11))
	b.check()
	end()
	if s := out.String(); !strings.Contains(s, "message 2 has no header") {
		t.Error(s)
	}

	end, _ = b.start(b.node...)
	b.check()
	o := stream.CachedInfo().Config
	changed := o
	changed.Subjects = []string{"other"}
	const report = "another program has changed the log"
	reported := func(status string) bool { return strings.Contains(status, report) }
	_, err = js.UpdateStream(ctx, changed)
	must(t, err)
	b.fails(report, "-c", good, "import", "docs", b.store(12))
	await(t, good, reported)
	_, err = js.UpdateStream(ctx, o)
	must(t, err)
	await(t, good, func(status string) bool { return !strings.Contains(status, "another program") })
	run(t, good, "import", "docs", b.store(12))
	b.check()
	end()

	changed = o
	changed.MaxMsgs, changed.Discard = 1, jetstream.DiscardOld
	_, err = js.UpdateStream(ctx, changed)
	must(t, err)
	end, _ = b.start(b.node...)
	await(t, good, reported)
	_, err = js.UpdateStream(ctx, o)
	must(t, err)
	b.check()

	maps, err := js.KeyValue(ctx, "anndb_bad")
	must(t, err)
	right, err := maps.Get(ctx, "map")
	must(t, err)
	for _, bad := range []struct{ from, to, words string }{
		{"{", "{{", "damaged, or written by another program: the map"},
		{`"shards"`, `"later":1,"shards"`, "a later version"},
		{`"first":0`, `"first":5`, "a gap or an overlap"},
		{`["a"]`, `["a","a"]`, "a node twice"},
		{`"epoch":1`, `"epoch":0`, "a bad shard"},
	} {
		_, err := maps.PutString(ctx, "map", strings.Replace(string(right.Value()), bad.from, bad.to, 1))
		must(t, err)
		b.fails(bad.words, "-c", good, "status")
		if out := run(t, good, "count", "docs"); out != "1\n" { // by the map before
			t.Error(out)
		}
	}
	_, err = maps.Put(ctx, "map", right.Value())
	must(t, err)
	b.check()
	end()
}

// TestLatest: a backup is of a replica that has all of the log, also if nodes have not said so yet.
func TestLatest(t *testing.T) {
	if testing.Short() {
		t.Skip("a server")
	}
	log := clustertest.Start(t, 1).Connect("main")
	shards, err := place(1, 2, []string{"a", "b"})
	must(t, err)
	m, err := log.Create(t.Context(), shards)
	must(t, err)
	s := &m.Shards[0]
	tell := func(id string, sequence uint64) {
		at := shardlog.Position{Shard: s.ID, Epoch: s.Epoch, Sequence: sequence}
		must(t, log.Announce(t.Context(), &shardlog.NodeInfo{ID: id, Address: "http://" + id,
			Shards: map[string]shardlog.Status{s.ID: {Position: at, State: shardlog.Following}}}))
	}
	tell("a", 0)
	tell("b", 0)
	_, err = log.Publish(t.Context(), s, "id", &shardlog.Message{Drop: "none"})
	must(t, err)
	time.AfterFunc(500*time.Millisecond, func() { tell("a", 1) })
	a := &app{ctx: t.Context()}
	if address, err := a.latest(log, s); err != nil || address != "http://a" {
		t.Errorf("%q, %v", address, err)
	}
}
