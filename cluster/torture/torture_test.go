package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/db"
)

// folder returns a folder in memory if there is room: servers and nodes sync each write.
func folder(t *testing.T) string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < 2<<30 {
		return t.TempDir()
	}
	path, err := os.MkdirTemp("/dev/shm", "anndb-torture-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// TestTorture plays a few rounds, and has the bench find what it must find.
func TestTorture(t *testing.T) {
	o := &options{seed: 3, rounds: 2, length: 2 * time.Second, nodes: 3, serverCount: 1, out: t.Output()}
	o.folder, o.plain = folder(t), testing.Short()
	if !testing.Short() {
		o.rounds, o.nodes, o.serverCount = 6, 4, 3
	}
	b, err := start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.end)
	for n := 1; n <= o.rounds; n++ {
		if err := b.round(t.Context(), n); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
	}
	for i, c := range controls {
		b.story, b.failure = newStory(c.name+"-"), nil
		err := b.control(t.Context(), 100+i, c)
		if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: the bench says %v, want %q", c.name, err, c.want)
		}
		t.Logf("%s: %v", c.name, err)
	}
}

// TestPower: of what a server has acknowledged, a loss of power leaves all if the server syncs each message, and not
// all if it syncs later.
func TestPower(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a patched server; run without -short")
	}
	b := &bench{options: options{folder: folder(t)}}
	program, err := b.build(t.Context(), "nats-server", serverPackage)
	if err != nil {
		t.Fatal(err)
	}
	const sent = 200
	left := func(interval string) uint64 {
		s := clustertest.StartWith(t, 1, &clustertest.Options{Program: program})
		js := s.JetStream()
		s.Kill(0)
		s.Configure(0, interval)
		s.Restart(0)
		c := jetstream.StreamConfig{Name: "log", Subjects: []string{"log"}}
		must(t, again(t.Context(), func() error { _, err := js.CreateStream(t.Context(), c); return err }))
		for range sent {
			_, err := js.Publish(t.Context(), "log", []byte("acknowledged"))
			must(t, err)
		}
		s.Kill(0)
		must(t, cutUnsynced(s.Store(0)))
		s.Restart(0)
		var info *jetstream.StreamInfo
		must(t, again(t.Context(), func() error {
			stream, err := js.Stream(t.Context(), "log")
			if err == nil {
				info, err = stream.Info(t.Context())
			}
			return err
		}))
		return info.State.Msgs
	}
	if n := left("always"); n != sent {
		t.Errorf("%d of %d messages are left that were synced", n, sent)
	}
	if n := left("2m"); n == sent {
		t.Errorf("all %d messages are left that were not synced", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// control is a fault that the bench must find.
type control struct {
	name, want string
	repeat     bool                                                   // the actors find it, and not the check
	front      func(f *front, w http.ResponseWriter, r *http.Request) // in place of a gateway
	before     func(b *bench)
	after      func(b *bench) error // before the check
}

var controls = []control{
	{name: "swallowed", want: "written", repeat: true, front: (*front).swallow},
	{name: "early", want: "a write is lost", front: (*front).early},
	{name: "twice", want: "applied twice", repeat: true, front: (*front).twice},
	{name: "stale", want: "wanted|written", repeat: true, front: (*front).stale,
		before: func(b *bench) { // a replica that answers, and applies nothing
			b.links.setFrom("n0", state{silent: true})
		},
		after: func(b *bench) error { b.links.set("n0", state{}); return nil }},
	{name: "row", want: "replicas differ", after: deleteRow},
}

// control plays a round with a fault that has to be found.
func (b *bench) control(ctx context.Context, n int, c control) error {
	if c.front != nil {
		f := &front{b: b}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.front(f, w, r) }))
		defer s.Close()
		b.front = s.URL
		defer func() { b.front = "" }()
	}
	var err error
	// On a slow machine little happens in one try.
	for try := 0; err == nil && (try == 0 || c.repeat && try < 20); try++ {
		if try > 0 {
			err = again(ctx, func() error {
				_, err := b.quiet(ctx)
				return err
			})
		}
		if c.before != nil {
			c.before(b)
		}
		err = errors.Join(err, b.play(ctx, n, true, func(context.Context) {}))
		if c.after != nil {
			err = errors.Join(err, c.after(b))
		}
	}
	b.front = ""
	if err == nil {
		err = b.check(ctx, n)
	}
	return err
}

// front stands before the gateways.
type front struct {
	b *bench
	n atomic.Int64
}

// send passes a request on, to each gateway in turn.
func (f *front) send(r *http.Request, body []byte) (status int, header http.Header, answer []byte) {
	url := f.b.processes[gatewayName(int(f.n.Add(1)%gatewayCount))].url + r.URL.RequestURI()
	q, err := http.NewRequestWithContext(r.Context(), r.Method, url, bytes.NewReader(body))
	if err == nil {
		q.Header = r.Header
		var res *http.Response
		if res, err = http.DefaultClient.Do(q); err == nil {
			defer res.Body.Close()
			if answer, err = io.ReadAll(res.Body); err == nil {
				return res.StatusCode, res.Header, answer
			}
		}
	}
	return http.StatusGatewayTimeout, http.Header{}, []byte(`{"error":{"code":"unknown_state"}}`)
}

func (f *front) pass(w http.ResponseWriter, r *http.Request, times int) {
	body, _ := io.ReadAll(r.Body)
	status, header, answer := f.send(r, body)
	for range times - 1 {
		status, header, answer = f.send(r, body)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// swallow answers some writes without sending them on.
func (f *front) swallow(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && f.n.Load()%5 == 0 && r.Header.Get("If-Match") == "" {
		f.n.Add(1)
		return // 200
	}
	f.pass(w, r, 1)
}

// early acknowledges writes before the log has them, and ends before it sends them.
func (f *front) early(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		w.WriteHeader(http.StatusAccepted)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"code":"unavailable"}}`))
	}
}

// twice sends writes twice.
func (f *front) twice(w http.ResponseWriter, r *http.Request) {
	times := 1
	if r.Method == http.MethodPut {
		times = 2
	}
	f.pass(w, r, times)
}

// stale drops the token of requests.
func (f *front) stale(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(gateway.Sequence)
	f.pass(w, r, 1)
}

// deleteRow deletes a row from the file of one replica.
func deleteRow(b *bench) error {
	m, err := b.log.Map(b.host.ctx)
	if err != nil {
		return err
	}
	key := []byte(baseRow(0).Key)
	s := m.Find(key)
	p := b.processes[s.Replicas[0]]
	return p.while(b.host.ctx, 0, func() error {
		d, err := db.Open(b.host.ctx, filepath.Join(p.files(), s.ID+".anndb"), nil)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Update(b.host.ctx, func(tx *db.Tx) error { return tx.Collection("c").Delete(key) })
	})
}
