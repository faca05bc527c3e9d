package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// raw sends bytes on a connection of its own, and returns the status and the rest of the answer, "" if the
// connection ended without one.
func (b *bed) raw(text string, more ...func(net.Conn)) string {
	b.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, text)
	for _, f := range more {
		f(c)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

// unharmed checks that the database has the rows of testRows and is valid.
func (b *bed) unharmed(rows int) {
	b.t.Helper()
	if n, err := b.db.Collection("c").Count(b.t.Context(), nil); n != rows || err != nil {
		b.t.Errorf("%d rows, %v, want %d", n, err, rows)
	}
	if err := b.db.Check(b.t.Context(), func(e *db.CorruptError) { b.t.Error(e) }, nil); err != nil {
		b.t.Error(err)
	}
	b.want(200, "", request{method: "GET", path: "rows/k0"})
}

func TestBadRequests(t *testing.T) {
	b := newBed(t, &server.Options{MaxBody: 1 << 20})
	b.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	lines := map[string]string{"Content-Type": wire.Lines}
	for _, x := range []struct {
		status   int
		contains string
		request
	}{
		{405, "wrong_method", request{method: "PUT", path: "search"}},
		{405, "wrong_method", request{method: "BREW", path: "rows/k0"}},
		{405, "wrong_method", request{method: "OPTIONS", path: "rows/k0"}},
		{405, "wrong_method", request{method: "POST", path: "/healthz"}},
		{404, "no_route", request{method: "GET", path: "/v1"}},
		{404, "no_route", request{method: "GET", path: "/v1/files/x/../../healthz"}},
		{404, "no_route", request{method: "GET", path: "/v1//files"}},
		{404, "no_route", request{method: "GET", path: "/../etc/passwd"}},
		{404, "not_found", request{method: "GET", path: "/v1/files/%2E%2E"}},
		{404, "not_found", request{method: "GET", path: "/v1/files/..%2Fx"}},
		{404, "not_found", request{method: "GET", path: "/v1/files/x%00"}},
		{400, "invalid", request{method: "GET", path: "rows/" + strings.Repeat("k", 600)}},
		{400, "invalid", request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"a\u0000b","dim":2}`}},
		{400, "invalid", request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"","dim":2}`}},
		{400, "invalid", request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"big","dim":2000000000}`}},
		{415, "wrong_type", request{method: "POST", path: "search", body: `{"key":"k0"}`, header: map[string]string{"Content-Type": "text/plain"}}},
		{415, "wrong_type", request{method: "POST", path: "search", body: `{"key":"k0"}`, header: map[string]string{"Content-Type": ""}}},
		{415, "wrong_type", request{method: "POST", path: "search", body: `{"key":"k0"}`, header: map[string]string{"Content-Encoding": "gzip"}}},
		{415, "wrong_type", request{method: "POST", path: "rows", body: `{"key":"a","vector":[1,2,3,4]}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"key":"k0"} {}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"key":"k0","bogus":1}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"key":"k0","key_base64":"azA="}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"key":"k0","queries":[]}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"vector":[1,2,3,1e99]}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"vector":{"base64":"AACAfwAAgH8AAIB/AACAfw=="}}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"vector":` + strings.Repeat("[", 100_000)}},
		{400, "invalid_json", request{method: "POST", path: "search", body: `{"key":"k0","include":["everything"]}`}},
		{400, "invalid_json", request{method: "POST", path: "search", body: "\xff\xfe"}},
		{400, "invalid", request{method: "POST", path: "search", body: `{"vector":[1,2,3,4],"k":-1}`}},
		{400, "invalid", request{method: "POST", path: "search", body: `{"vector":[1,2,3,4],"recall":7}`}},
		{400, "invalid", request{method: "POST", path: "search", body: `{"vector":[1,2,3,4],"where":"((("}`}},
		{400, "invalid", request{method: "POST", path: "search", body: `{"vector":[1]}`}},
		{400, "invalid", request{method: "POST", path: "search", body: `{}`}},
		{200, `"results":[]`, request{method: "POST", path: "search", body: `{"queries":[]}`}},
		{404, "not_found", request{method: "POST", path: "search", body: `{"vector":[1,2,3,4],"index":"none"}`}},
		{413, "too_large", request{method: "POST", path: "search", body: strings.Repeat(" ", 2<<20)}},
		{400, "invalid_json", request{method: "POST", path: "rows", body: strings.Repeat("x", 100), header: lines}},
		{400, "invalid_json", request{method: "POST", path: "rows", body: strings.Repeat(" ", 17<<20), header: lines}},
	} {
		b.want(x.status, x.contains, x.request)
	}
	if got := b.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "431") {
		t.Errorf("a long header: %s", got)
	}
	if got := b.raw("nonsense\r\n\r\n"); !strings.HasPrefix(got, "400") {
		t.Errorf("no HTTP: %s", got)
	}
	post := func(path, header, body string) string {
		return "POST " + coll + path + " HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n\r\n" + body
	}
	// A gigabyte is refused before it is sent, or once the bound is passed.
	if got := b.raw(post("search", "Content-Type: application/json\r\nContent-Length: 1000000000", "{")); !strings.HasPrefix(got, "413") {
		t.Errorf("an announced gigabyte: %s", got)
	}
	endless := func(c net.Conn) {
		piece := fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat(" ", 1<<16))
		for range 1 << 14 {
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
		t.Error("a gigabyte was read")
	}
	b.raw(post("search", "Content-Type: application/json\r\nTransfer-Encoding: chunked", ""), endless)
	// Bodies that are cut in half change nothing, but for whole rows of an import.
	half := func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }
	if got := b.raw(strings.Replace(post("rows/new", "Content-Type: application/json\r\nContent-Length: 100", `{"vector":[1,2,3,4]}`), "POST", "PUT", 1), half); !strings.HasPrefix(got, "400") {
		t.Errorf("half of a row: %s", got)
	}
	if got := b.raw(post("rows", "Content-Type: application/x-ndjson\r\nContent-Length: 1000", "{\"key\":\"new\",\"vector\":[1,2,3,4]}\n{\"key\":\"newer\""), half); !strings.HasPrefix(got, "400") || !strings.Contains(got, `"cut"`) {
		t.Errorf("half of an import: %s", got)
	}
	if has, _ := b.db.Collection("c").Has([]byte("newer")); has {
		t.Error("half of a row was stored")
	}
	if err := b.db.Update(t.Context(), func(tx *db.Tx) error { return tx.Collection("c").Delete([]byte("new")) }); err != nil {
		t.Error(err)
	}
	b.unharmed(10)
	if !strings.Contains(b.log.String(), "status=413") || strings.Contains(b.log.String(), "panic") {
		t.Errorf("log: %s", b.log)
	}
}

func TestBrowserAttacks(t *testing.T) {
	open := newBed(t, nil)
	open.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	locked := newBed(t, &server.Options{Token: "secret"})
	locked.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	bearer := "Bearer secret"
	for _, x := range []struct {
		b      *bed
		status int
		header map[string]string
	}{
		{open, 200, nil},
		{open, 200, map[string]string{"Host": "localhost"}},
		{open, 200, map[string]string{"Host": "LOCALHOST:7700"}},
		{open, 200, map[string]string{"Host": "127.0.0.2:1"}},
		{open, 200, map[string]string{"Host": "[::1]:80"}},
		{open, 403, map[string]string{"Host": "rebind.example.com"}},
		{open, 403, map[string]string{"Host": "localhost.example.com"}},
		{open, 403, map[string]string{"Host": "127.0.0.1.example.com"}},
		{open, 403, map[string]string{"Host": "192.168.0.7"}},
		{open, 403, map[string]string{"Origin": "http://evil.example.com"}},
		{open, 403, map[string]string{"Origin": "null"}},
		{open, 403, map[string]string{"Origin": "http://localhost:1"}},
		{open, 200, map[string]string{"Host": "localhost:7700", "Origin": "http://localhost:7700"}},
		{open, 403, map[string]string{"Host": "rebind.example.com", "Origin": "http://rebind.example.com"}},
		{open, 403, map[string]string{"Sec-Fetch-Site": "cross-site"}},
		{open, 403, map[string]string{"Sec-Fetch-Site": "same-site"}},
		{open, 200, map[string]string{"Sec-Fetch-Site": "same-origin"}},
		{open, 200, map[string]string{"Sec-Fetch-Site": "none"}},
		{locked, 401, nil},
		{locked, 401, map[string]string{"Authorization": "Bearer wrong"}},
		{locked, 401, map[string]string{"Authorization": "Bearer "}},
		{locked, 401, map[string]string{"Authorization": "secret"}},
		{locked, 401, map[string]string{"Authorization": "Basic secret"}},
		{locked, 401, map[string]string{"Authorization": "Bearer secret2"}},
		{locked, 200, map[string]string{"Authorization": bearer}},
		{locked, 200, map[string]string{"Authorization": bearer, "Host": "db.example.com"}},
		{locked, 403, map[string]string{"Authorization": bearer, "Origin": "http://evil.example.com"}},
	} {
		if answer, body := x.b.send(request{method: "GET", path: "rows/k0", header: x.header}); answer.StatusCode != x.status {
			t.Errorf("%v: %d %s, want %d", x.header, answer.StatusCode, body, x.status)
		}
		if x.status != 200 { // nor does it write
			x.b.want(x.status, "", request{method: "DELETE", path: "rows/k0", header: x.header})
		}
	}
	locked.want(401, "", request{method: "GET", path: "/metrics"})
	locked.want(200, "", request{method: "GET", path: "/healthz"})
	if got, _ := locked.send(request{method: "GET", path: "rows/k0"}); got.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Error("no challenge")
	}
	open.unharmed(10)
	if strings.Contains(locked.log.String(), "secret") {
		t.Error("the token is in the log")
	}
}

// TestSocket serves on a Unix socket, which needs neither host nor token.
func TestSocket(t *testing.T) {
	b := newBed(t, &server.Options{Token: "secret"})
	b.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	go func() { _ = b.s.Serve(l) }()
	b.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	b.want(200, "", request{method: "GET", path: "rows/k0", header: map[string]string{"Host": "anything"}})
}

func TestSlowPeers(t *testing.T) {
	b := newBed(t, &server.Options{Stall: 300 * time.Millisecond})
	b.create(db.Schema{Dim: 64}, testRows(20_000, 64)...)
	before := runtime.NumGoroutine()
	post := func(path, kind string) string {
		return "POST " + coll + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + kind + "\r\nContent-Length: 100000\r\n\r\n{"
	}
	trickle := func(c net.Conn) {
		for range 1000 {
			time.Sleep(20 * time.Millisecond)
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
		}
		t.Error("a trickle was read to its end")
	}
	silent := func(net.Conn) {}
	for _, x := range []struct {
		path, kind string
		do         func(net.Conn)
	}{{"bogus", wire.JSON, silent}, {"search", "text/plain", silent}, {"search", wire.JSON, silent}, {"rows", wire.Lines, silent}, {"search", wire.JSON, trickle}, {"rows", wire.Lines, trickle}} {
		begin := time.Now()
		got := b.raw(post(x.path, x.kind), x.do)
		if !strings.HasPrefix(got, "4") && got != "" || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %s after %v", x.path, got, time.Since(begin))
		}
	}
	// A reader that stops does not hold its snapshot.
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	must(t, err)
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET %srows HTTP/1.1\r\nHost: localhost\r\n\r\n", coll)
	held := func() int {
		st, err := b.db.Stats()
		must(t, err)
		return st.Snapshots
	}
	eventually(t, "the snapshot is held", func() bool { return held() > 0 })
	eventually(t, "the snapshot is released", func() bool { return held() == 0 })
	c.Close()
	b.http.CloseIdleConnections()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
	b.unharmed(20_000)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// TestManyConnections: of 10,000 idle connections the server keeps as many as it may have, closes and logs the
// others, and answers those that it has.
func TestManyConnections(t *testing.T) {
	const most = 2048 // by default
	b := newBed(t, nil)
	b.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	b.want(200, "", request{method: "GET", path: "rows/k0"}) // its connection stays
	before := runtime.NumGoroutine()
	var idle []net.Conn
	for range 10_000 {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Logf("the system has no more than %d connections: %v", len(idle), err)
			break
		}
		idle = append(idle, c)
	}
	if len(idle) > most { // those that are closed are at their end
		_ = idle[len(idle)-1].SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := idle[len(idle)-1].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the last connection is open: %v", err)
		}
		if !strings.Contains(b.log.String(), "too many connections") {
			t.Error("nothing is logged")
		}
	}
	b.want(200, "", request{method: "GET", path: "rows/k0"})
	if n := runtime.NumGoroutine(); n > before+2*most+50 {
		t.Errorf("%d goroutines for at most %d connections", n, most)
	}
	for _, c := range idle {
		c.Close()
	}
	eventually(t, "connections are closed", func() bool { return runtime.NumGoroutine() < before+10 })
	b.http.CloseIdleConnections()
	b.unharmed(10)
}

// upload begins an import that lasts until more is closed.
func (b *bed) upload(rows int) (more *io.PipeWriter, done chan string) {
	r, w := io.Pipe()
	done = make(chan string, 1)
	q, err := http.NewRequestWithContext(b.t.Context(), "POST", b.url+coll+"rows", r)
	if err != nil {
		b.t.Fatal(err)
	}
	q.Header.Set("Content-Type", wire.Lines)
	go func() {
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
		if err != nil {
			done <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		done <- fmt.Sprint(answer.StatusCode, " ", string(body))
	}()
	for i := range rows {
		fmt.Fprintf(w, "{\"key\":\"up%d\",\"vector\":[1,2,3,4]}\n", i)
	}
	return w, done
}

func TestBusy(t *testing.T) {
	b := newBed(t, &server.Options{MaxRequests: 1})
	b.create(db.Schema{Dim: 4}, testRows(10, 4)...)
	more, done := b.upload(1)
	eventually(t, "a second request is refused", func() bool {
		select {
		case <-done: // the request below was before the import, which was refused
			more, done = b.upload(1)
		default:
		}
		answer, body := b.send(request{method: "DELETE", path: "rows/none"})
		return answer.StatusCode == 429 && answer.Header.Get("Retry-After") == "1" && strings.Contains(body, `"busy"`)
	})
	for _, q := range []request{ // which do not wait for changes
		{method: "GET", path: "rows/k0"}, {method: "POST", path: "count", body: "{}"}, {method: "GET", path: "/metrics"},
	} {
		b.want(200, "", q)
	}
	b.want(200, "", request{method: "GET", path: "/healthz"})
	more.Close()
	if got := <-done; !strings.HasPrefix(got, `200 {"rows":1}`) {
		t.Error(got)
	}
	b.unharmed(11)
}

// TestShutdown ends a server while an import is in progress, which is completed, and one that does not end,
// which is cancelled.
func TestShutdown(t *testing.T) {
	for _, finish := range []bool{true, false} {
		b := newBed(t, nil)
		c := b.create(db.Schema{Dim: 4}, testRows(10, 4)...)
		more, done := b.upload(1)
		eventually(t, "the import is in progress", func() bool {
			_, body := b.send(request{method: "GET", path: "/metrics"})
			return strings.Contains(body, "anndb_requests 2\n")
		})
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if !finish {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
		}
		ended := make(chan error, 1)
		go func() { ended <- b.s.Shutdown(ctx) }()
		eventually(t, "no connection is accepted", func() bool {
			c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
			if err == nil {
				c.Close()
			}
			return err != nil
		})
		if finish {
			fmt.Fprintln(more, `{"key":"last","vector":[1,2,3,4]}`)
			more.Close()
		}
		err := <-ended
		more.Close()
		got := <-done
		if has, _ := c.Has([]byte("last")); finish && (err != nil || !strings.HasPrefix(got, `200 {"rows":2}`) || !has) {
			t.Errorf("a finished import: %v, %s", err, got)
		}
		if !finish && (err == nil || strings.HasPrefix(got, "200")) {
			t.Errorf("an endless import: %v, %s", err, got)
		}
		cancel()
	}
}
