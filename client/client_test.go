package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/server"
)

// bed is a database that is served on a Unix socket.
type bed struct {
	db     *db.DB
	socket string
	client *client.Client
	file   client.File
	server *server.Server
	stop   func() // ends the server

	net.Listener
	accepted atomic.Int64 // connections
}

// Accept counts connections.
func (b *bed) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	b.accepted.Add(1)
	return c, err
}

// manual has no background maintenance, which would change row numbers at any time.
var manual = db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}}

// must ends a test that has got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *db.DB {
	t.Helper()
	o := manual
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "x.anndb"), &o)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// serve serves a database on a new socket, behind wrap if that is not nil.
func serve(t testing.TB, d *db.DB, o *client.Options, wrap func(http.Handler) http.Handler) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "anndb") // the paths of sockets are short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &bed{db: d, socket: filepath.Join(dir, "x.sock")}
	if b.Listener, err = net.Listen("unix", b.socket); err != nil {
		t.Fatal(err)
	}
	s := server.New(map[string]*db.DB{"x": d}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	b.server = s
	end, serveOn := s.Shutdown, s.Serve
	if wrap != nil {
		h := &http.Server{Handler: wrap(s)}
		end, serveOn = h.Shutdown, h.Serve
	}
	go func() { _ = serveOn(b) }()
	b.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := end(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
	if b.client, err = client.New(b.socket, o); err != nil {
		t.Fatal(err)
	}
	b.file = b.client.File("x")
	t.Cleanup(func() {
		b.client.Close()
		b.stop()
	})
	return b
}

// sentinels are the errors that a client has to find as a library does.
var sentinels = []error{
	db.ErrInvalid, db.ErrNotFound, db.ErrExists, db.ErrUnsuitable, db.ErrClosed, db.ErrReadOnly, db.ErrCorrupt,
	db.ErrLocked, db.ErrNoSpace, db.ErrUnknownState, context.Canceled, context.DeadlineExceeded,
}

// sameError reports whether two errors are of the same kind.
func sameError(a, b error) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	for _, s := range sentinels {
		if errors.Is(a, s) != errors.Is(b, s) {
			return false
		}
	}
	return true
}

func TestNew(t *testing.T) {
	for _, bad := range []string{
		"", "http://", "ftp://a", "http://a/b", "http://a?x=1", "https://u:p@a", "http://a b",
	} {
		if _, err := client.New(bad, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("address %q: %v", bad, err)
		}
	}
	for _, good := range []string{"x.sock", "/a/b.sock", "http://127.0.0.1:7700", "https://example.org/"} {
		if _, err := client.New(good, nil); err != nil {
			t.Errorf("address %q: %v", good, err)
		}
	}
}

func TestErrors(t *testing.T) {
	d := open(t)
	b := serve(t, d, nil, nil)
	ctx := t.Context()
	if _, err := b.client.File("y").Stats(ctx); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("no such file: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.file.Stats(done); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	late, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	if _, err := b.file.Stats(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	must(t, d.Close())
	if _, err := b.file.Stats(ctx); !errors.Is(err, db.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestReadOnly writes to a file that is open for reading.
func TestReadOnly(t *testing.T) {
	d := open(t)
	if _, err := d.Create(t.Context(), "c", db.Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	must(t, d.Close())
	d, err := db.Open(t.Context(), d.Path(), &db.Options{ReadOnly: true})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	c := serve(t, d, nil, nil).file.Collection("c")
	err = c.Put(t.Context(), db.Row{Key: []byte("a"), Vector: []float32{1}})
	if !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if n, err := c.Count(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("count: %d, %v", n, err)
	}
}

// TestServerGone stops the server and starts another one on the same socket.
func TestServerGone(t *testing.T) {
	d := open(t)
	b := serve(t, d, &client.Options{Retries: 1}, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "c", db.Schema{Dim: 1})
	must(t, err)
	b.stop()
	var op *net.OpError
	if _, err := c.Count(ctx, nil); !errors.As(err, &op) {
		t.Errorf("count without a server: %v", err)
	}
	if err := c.Put(ctx, db.Row{Key: []byte("a"), Vector: []float32{1}}); !errors.As(err, &op) {
		t.Errorf("put without a server: %v", err)
	}
	n, err := c.Load(ctx, func(yield func(db.Row, error) bool) {
		for yield(db.Row{Key: []byte("a"), Vector: []float32{1}}, nil) {
		}
	}, nil)
	if n != 0 || !errors.As(err, &op) {
		t.Errorf("load without a server: %d, %v", n, err)
	}
	l, err := net.Listen("unix", b.socket)
	must(t, err)
	s := server.New(map[string]*db.DB{"x": d}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Serve(l) }()
	b.stop = func() { _ = s.Shutdown(context.Background()) }
	if n, err := c.Count(ctx, nil); n != 0 || err != nil {
		t.Errorf("count at another server: %d, %v", n, err)
	}
}

func TestTokens(t *testing.T) {
	d := open(t)
	o := &server.Options{Token: "right", Logger: slog.New(slog.DiscardHandler)}
	s := server.New(map[string]*db.DB{"x": d}, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	for token, want := range map[string]error{
		"": client.ErrUnauthorized, "wrong": client.ErrUnauthorized, "right": nil,
	} {
		c, err := client.New("http://"+l.Addr().String(), &client.Options{Token: token})
		must(t, err)
		if files, err := c.Files(t.Context()); !errors.Is(err, want) || want == nil && len(files) != 1 {
			t.Errorf("token %q: %v, %v", token, files, err)
		}
		n := 0
		_, err = c.File("x").Collection("c").Load(t.Context(), func(yield func(db.Row, error) bool) {
			for n < 100_000 && yield(db.Row{Key: []byte("a"), Vector: []float32{1}}, nil) {
				n++
			}
		}, nil)
		if want == nil {
			want = db.ErrNotFound
		}
		if !errors.Is(err, want) {
			t.Errorf("token %q: load: %v", token, err)
		}
		c.Close()
	}
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}
