package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// many are n rows.
func many(n int) func(yield func(db.Row, error) bool) {
	return func(yield func(db.Row, error) bool) {
		for i := range n {
			if !yield(db.Row{Key: fmt.Append(nil, "k", i), Vector: make([]float32, 64)}, nil) {
				return
			}
		}
	}
}

// cutter ends the connection of an answer after some bytes, if that is not 0.
type cutter struct {
	http.ResponseWriter

	left int
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) >= c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// TestCutStreams ends connections in the middle of answers.
func TestCutStreams(t *testing.T) {
	d := open(t)
	var cut atomic.Int64
	b := serve(t, d, &client.Options{Retries: -1}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := cut.Load(); n > 0 {
				w = &cutter{w, int(n)}
			}
			h.ServeHTTP(w, r)
		})
	})
	ctx := t.Context()
	c, err := b.file.Create(ctx, "c", db.Schema{Dim: 64})
	must(t, err)
	if n, err := c.Load(ctx, many(3000), nil); n != 3000 || err != nil {
		t.Fatalf("load: %d, %v", n, err)
	}
	for _, after := range []int64{1, 100, 70_000, 200_000} {
		cut.Store(after)
		rows, last := 0, error(nil)
		for _, err := range c.Rows(ctx, nil) {
			if last = err; err == nil {
				rows++
			}
		}
		if !errors.Is(last, io.ErrUnexpectedEOF) || rows > int(after)/100 {
			t.Errorf("cut after %d bytes: %d rows, %v", after, rows, last)
		}
		var w bytes.Buffer
		if n, err := b.file.Backup(ctx, &w); !errors.Is(err, io.ErrUnexpectedEOF) || n != int64(w.Len()) {
			t.Errorf("cut after %d bytes: backup of %d, %v", after, n, err)
		}
	}
	cut.Store(10)
	if _, err := c.Get(ctx, []byte("k1")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut answer: %v", err)
	}
	cut.Store(0)
	rows := 0
	for _, err := range c.Rows(ctx, nil) {
		must(t, err)
		if rows++; rows == 10 {
			break
		}
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, err = range c.Rows(short, nil) {
		cancel()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("rows of a context that has ended: %v", err)
	}
	if n, err := c.Load(short, many(10), nil); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("load of a context that has ended: %d, %v", n, err)
	}
}

// TestEnding ends a server in the middle of a stream of rows.
func TestEnding(t *testing.T) {
	b := serve(t, open(t), nil, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "c", db.Schema{Dim: 64})
	must(t, err)
	if _, err := c.Load(ctx, many(20_000), nil); err != nil {
		t.Fatal(err)
	}
	n, ended := 0, make(chan struct{})
	for _, err = range c.Rows(ctx, nil) {
		if n++; n == 1 {
			now, cancel := context.WithCancel(ctx)
			cancel()
			go func() {
				defer close(ended)
				_ = b.server.Shutdown(now)
			}()
		}
		time.Sleep(100 * time.Microsecond) // the server must not be done before it is told to end
	}
	<-ended
	if !errors.Is(err, client.ErrEnding) || n < 2 || n >= 20_000 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestTLS calls a server by https, with a certificate that only the client trusts.
func TestTLS(t *testing.T) {
	h := server.New(map[string]*db.DB{"x": open(t)}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	defer s.Close()
	for known, roots := range map[bool]*x509.CertPool{true: x509.NewCertPool(), false: x509.NewCertPool()} {
		if known {
			roots.AddCert(s.Certificate())
		}
		c, err := client.New(s.URL, &client.Options{TLS: &tls.Config{RootCAs: roots}, Retries: -1})
		must(t, err)
		if _, err := c.Files(t.Context()); (err == nil) != known {
			t.Errorf("known %v: %v", known, err)
		}
		c.Close()
	}
}

// TestBackup opens a backup that came by a client.
func TestBackup(t *testing.T) {
	b := serve(t, open(t), nil, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "c", db.Schema{Dim: 64})
	must(t, err)
	if _, err := c.Load(ctx, many(100), nil); err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	if _, err := b.file.Backup(ctx, &w); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.anndb")
	write(t, path+".backup", w.Bytes())
	must(t, db.Restore(ctx, path+".backup", path, false))
	d, err := db.Open(ctx, path, &manual)
	must(t, err)
	defer d.Close()
	if n, err := d.Collection("c").Count(ctx, nil); n != 100 || err != nil {
		t.Errorf("backup has %d rows, %v", n, err)
	}
}

// TestLoadRefused loads a bad row in the middle of more than sockets buffer.
func TestLoadRefused(t *testing.T) {
	b := serve(t, open(t), nil, nil)
	_, err := b.file.Create(t.Context(), "c", db.Schema{Dim: 64})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = b.server.Serve(l) }()
	tcp, err := client.New("http://"+l.Addr().String(), nil)
	must(t, err)
	defer tcp.Close()
	refuse(t, b.file.Collection("c"))
	refuse(t, tcp.File("x").Collection("c"))
}

// refuse loads rows into a collection, of which one is bad.
func refuse(t *testing.T, c client.Collection) {
	t.Helper()
	for _, at := range []int{0, 10, 60_000} {
		asked := 0
		n, err := c.Load(t.Context(), func(yield func(db.Row, error) bool) {
			for r := range many(200_000) {
				if asked++; asked == at+1 {
					r.Vector = r.Vector[:3]
				}
				if !yield(r, nil) {
					return
				}
			}
		}, nil)
		stored, countErr := c.Count(t.Context(), nil)
		if !errors.Is(err, db.ErrInvalid) || countErr != nil || n > at || stored < n || at > 50_000 && n == 0 {
			t.Errorf("bad row %d: %d rows, %v; %d stored, %v", at, n, err, stored, countErr)
		}
		if asked == 200_000 {
			t.Errorf("bad row %d: all rows were asked for", at)
		}
	}
}

// flaky answers the first requests itself.
type flaky struct {
	next  http.Handler
	fail  func(http.ResponseWriter)
	times atomic.Int64 // how often
	seen  atomic.Int64 // requests
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.seen.Add(1)
	if f.times.Add(-1) >= 0 {
		_, _ = io.Copy(io.Discard, r.Body)
		f.fail(w)
		return
	}
	f.next.ServeHTTP(w, r)
}

// TestRetries counts the requests of calls to a server that fails.
func TestRetries(t *testing.T) {
	refuse := func(err error, after string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			e := wire.NewError(err)
			w.WriteHeader(e.Status)
			_ = json.NewEncoder(w).Encode(wire.Failure{Error: e})
		}
	}
	for name, c := range map[string]struct {
		fail       func(http.ResponseWriter)
		times      int64
		read, put  int64 // requests
		err, other error // of the read and the write, if it fails
	}{
		"busy":     {refuse(wire.ErrBusy, "0"), 2, 3, 3, nil, nil},
		"busier":   {refuse(wire.ErrBusy, ""), 9, 4, 4, client.ErrBusy, client.ErrBusy},
		"for long": {refuse(wire.ErrBusy, "60"), 9, 1, 1, client.ErrBusy, client.ErrBusy},
		"ending":   {refuse(wire.ErrEnding, ""), 1, 2, 1, nil, client.ErrEnding},
		"invalid":  {refuse(db.ErrInvalid, ""), 1, 1, 1, db.ErrInvalid, db.ErrInvalid},
		"unknown":  {refuse(db.ErrUnknownState, ""), 1, 1, 1, db.ErrUnknownState, db.ErrUnknownState},
		"cut":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1, 2, 1, nil, io.EOF},
		"no JSON":  {func(w http.ResponseWriter) { w.WriteHeader(404) }, 1, 1, 1, errAny, errAny},
		"redirect": {func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(307) }, 1, 1, 1, errAny, errAny},
		"cut body": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9") }, 1, 2, 1, nil, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flaky{fail: c.fail}
			b := serve(t, open(t), nil, func(h http.Handler) http.Handler { f.next = h; return f })
			coll, err := b.file.Create(t.Context(), "c", db.Schema{Dim: 1})
			must(t, err)
			check := func(what string, err, want error, requests int64) {
				t.Helper()
				if seen := f.seen.Swap(0); seen != requests || (err == nil) != (want == nil) || want != errAny && !errors.Is(err, want) {
					t.Errorf("%s: %d requests, %v; want %d, %v", what, seen, err, requests, want)
				}
			}
			f.seen.Store(0)
			f.times.Store(c.times)
			_, err = coll.Search(t.Context(), db.Query{Vector: []float32{1}}, nil)
			check("search", err, c.err, c.read)
			f.times.Store(c.times)
			check("put", coll.Put(t.Context(), db.Row{Key: []byte("a"), Vector: []float32{1}}), c.other, c.put)
		})
	}
}

// TestLoadBusy loads into a server that refuses the first two requests.
func TestLoadBusy(t *testing.T) {
	var left atomic.Int64
	b := serve(t, open(t), nil, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if left.Add(-1) >= 0 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				_ = json.NewEncoder(w).Encode(wire.Failure{Error: wire.NewError(wire.ErrBusy)})
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	c, err := b.file.Create(t.Context(), "c", db.Schema{Dim: 64})
	must(t, err)
	left.Store(2)
	if n, err := c.Load(t.Context(), many(2000), nil); n != 2000 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	left.Store(9)
	if n, err := c.Load(t.Context(), many(2000), nil); n != 0 || !errors.Is(err, client.ErrBusy) {
		t.Errorf("%d rows, %v", n, err)
	}
}

var errAny = errors.New("any error")

// TestTimeout calls a server that does not answer.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	b := serve(t, open(t), &client.Options{Timeout: 20 * time.Millisecond}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
	})
	defer close(release)
	if err := b.file.Drop(t.Context(), "c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drop: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.file.Maintain(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("maintain: %v", err)
	}
}

// TestUpdateConflicts counts in several transactions at once.
func TestUpdateConflicts(t *testing.T) {
	b := serve(t, open(t), nil, nil)
	ctx := t.Context()
	if _, err := b.file.Create(ctx, "c", db.Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	const workers, times = 4, 10
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range times {
				err := b.file.Update(ctx, func(tx *client.Tx) error {
					c := tx.Collection("c")
					r, err := c.Get([]byte("n"))
					if errors.Is(err, db.ErrNotFound) {
						r, err = db.Row{Key: []byte("n"), Vector: []float32{0}}, nil
					}
					r.Vector[0]++
					return errors.Join(err, c.Put(r))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if r, err := b.file.Collection("c").Get(ctx, []byte("n")); err != nil || r.Vector[0] != workers*times {
		t.Errorf("%v, %v, want %d", r.Vector, err, workers*times)
	}
	stop := errors.New("stop")
	err := b.file.Update(ctx, func(tx *client.Tx) error {
		return errors.Join(tx.Collection("c").Delete([]byte("n")), stop)
	})
	if has, _ := b.file.Collection("c").Has(ctx, []byte("n")); !errors.Is(err, stop) || !has {
		t.Errorf("a transaction that fails: %v, row kept %v", err, has)
	}
}

// TestReuse counts connections.
func TestReuse(t *testing.T) {
	b := serve(t, open(t), nil, nil)
	c, err := b.file.Create(t.Context(), "c", db.Schema{Dim: 64})
	must(t, err)
	if _, err := c.Load(t.Context(), many(10), nil); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := c.Get(t.Context(), []byte("none")); !errors.Is(err, db.ErrNotFound) {
			t.Fatal(err)
		}
		for _, err := range c.Rows(t.Context(), nil) {
			must(t, err)
		}
	}
	if n := b.accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestStats compares what describes the file.
func TestStats(t *testing.T) {
	d := open(t)
	b := serve(t, d, nil, nil)
	ctx := t.Context()
	c, err := b.file.Create(ctx, "c", db.Schema{Dim: 64})
	must(t, err)
	if _, err := c.Load(ctx, many(50), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(ctx, "main", &index.Forest{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	want, err := d.Stats()
	must(t, err)
	got, err := b.file.Stats(ctx)
	if err != nil || got.Generation != want.Generation || got.Totals != want.Totals || len(got.Indexes) != 1 ||
		got.Indexes[0].Name != "main" || len(got.Collections) != 1 || got.Collections[0].Live != 50 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := b.file.Collections(ctx); err != nil || len(list) != 1 || list[0].Dim != 64 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := b.file.Check(ctx, nil); err != nil {
		t.Error(err)
	}
	if names, err := b.client.Files(ctx); err != nil || strings.Join(names, " ") != "x" {
		t.Errorf("%v, %v", names, err)
	}
}
