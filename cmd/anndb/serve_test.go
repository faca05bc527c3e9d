package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/serving"
)

// client runs a command line that uses a server if there is one.
func client(ctx context.Context, in io.Reader, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	p := &command.Program{In: in, Out: &o, Errs: &e, Interruptible: cancelable, Remote: serving.Remote}
	code = run(ctx, p, args)
	return o.String(), e.String(), code
}

// serve serves a file until the test ends.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	s := startServe(args...)
	if !s.begun {
		_, errs := s.end()
		t.Fatal(errs)
	}
	t.Cleanup(s.cancel)
	return s
}

// shortDir is a folder whose path has room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "anndb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// pointsFile makes a database with an empty collection of points.
func pointsFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(shortDir(t), "a.anndb")
	must(t, "create", file, "points", "--dim", "2")
	return file
}

// TestServeSockets: a socket is private, takes the place of one that a killed server has left, but of no
// file, and goes with the server; two servers of one file are refused.
func TestServeSockets(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	socket := file + ".sock"
	stale, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	s := serve(t, file)
	if info, err := os.Lstat(socket); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, errs, code := anndb(t, "serve", file, "--wait", "20ms"); code != command.ExitError ||
		!strings.Contains(errs, "which serves it (anndb serve): stop that first") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, errs := s.end(); code != command.ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	write(t, socket, "notes")
	_, errs, code := anndb(t, "serve", file)
	if code != command.ExitError || !strings.Contains(errs, "is no socket") || read(t, socket) != "notes" {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestServeRefuses: addresses of other machines need a token, and what is mistyped is said.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	short := filepath.Join(filepath.Dir(file), "token")
	write(t, short, "secret\n")
	long := filepath.Join(filepath.Dir(file), strings.Repeat("long", 30)+".anndb")
	must(t, "create", long, "points", "--dim", "2")
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{file + " --listen 0.0.0.0:0", "add --token-file", command.ExitUsage},
		{file + " --listen :0", "add --token-file", command.ExitUsage},
		{file + " --listen example.org:0", "add --token-file", command.ExitUsage},
		{file + " --listen 7700", "want HOST:PORT", command.ExitUsage},
		{file + " --token-file x", "--token-file goes with --listen", command.ExitUsage},
		{file + " --cert x --key y", "go with --listen", command.ExitUsage},
		{file + " --cert x", "--cert goes with --key", command.ExitUsage},
		{file + " --listen localhost:0 --cert x --key y", "--cert x, --key y: open x", command.ExitError},
		{file + " --listen localhost:0 --token-file " + short, "want one line of 16 or more", command.ExitError},
		{file + " other/" + "a.anndb", `two files have the name "a": say NAME=FILE`, command.ExitUsage},
		{"=" + file, "no name for a file", command.ExitUsage},
		{file + "x", "file does not exist", command.ExitError},
		{long, "no socket can be made there", command.ExitError},
	} {
		_, errs, code := anndb(t, append([]string{"serve"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d: %s", c.args, code, errs)
		}
	}
}

// lines is a writer that gives what is written to it line by line.
type lines struct{ c chan string }

func (l lines) Write(p []byte) (int, error) {
	l.c <- string(p)
	return len(p), nil
}

// TestServeListens: programs reach the files by TCP with the token, under their names, and run no commands
// there.
func TestServeListens(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	token := filepath.Join(filepath.Dir(file), "token")
	write(t, token, strings.Repeat("secret", 4)+"\n")
	ctx, cancel := context.WithCancel(t.Context())
	messages, code := lines{make(chan string, 100)}, make(chan int, 1)
	p := &command.Program{In: strings.NewReader(""), Out: io.Discard, Errs: messages, Interruptible: cancelable}
	go func() {
		code <- run(ctx, p, []string{"serve", "shop=" + file, "--listen", "127.0.0.1:0", "--token-file", token})
	}()
	var url string
	for m := range messages.c {
		if found := regexp.MustCompile(`http://\S+`).FindString(m); found != "" {
			url = found
			break
		}
	}
	status := func(path, token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		return a.StatusCode
	}
	secret := strings.Repeat("secret", 4)
	row := "/v1/files/shop/collections/points/rows/p"
	if _, errs, code := client(ctx, nil, "put", file, "points", "p", "1", "2"); code != command.ExitOK {
		t.Error(errs)
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200}, {row, secret, 200}, {row, "other", 401},
		{"/command", "other", 401}, {"/command", secret, 403},
	} {
		if got := status(c.path, c.token); got != c.want {
			t.Errorf("%s: status %d, want %d", c.path, got, c.want)
		}
	}
	cancel()
	if code := <-code; code != command.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestServeEnds: a server that ends lets a command finish, which still gets its input.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	s := serve(t, file)
	in, feed := io.Pipe()
	done := make(chan string, 1)
	go func() {
		out, errs, code := client(t.Context(), in, "import", file, "points", "-", "--as", "jsonl")
		done <- fmt.Sprint(out, errs, code)
	}()
	for i := range 100 {
		if i == 50 { // the command reads, so it is running
			go s.cancel()
			for _, err := os.Lstat(file + ".sock"); err == nil; _, err = os.Lstat(file + ".sock") {
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := fmt.Fprintf(feed, `{"key": "%d", "vector": [1, 2]}`+"\n", i); err != nil {
			t.Fatal(err)
		}
	}
	_ = feed.Close()
	if got := <-done; !strings.HasSuffix(got, "0") {
		t.Error(got)
	}
	if code, errs := s.end(); code != command.ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if out := must(t, "count", file, "points"); !strings.Contains(out, "100") {
		t.Error(out)
	}
}

// TestServeInterrupts: an interrupt of a client, and its end, end its command in the server.
func TestServeInterrupts(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	serve(t, file)
	for _, way := range []string{"interrupt", "gone"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		interrupt := make(chan func() bool, 1)
		var errs bytes.Buffer
		in, feed := io.Pipe()
		p := &command.Program{
			In: in, Out: io.Discard, Errs: &errs, Remote: serving.Remote,
			Interruptible: func(ctx context.Context, used func() bool) (context.Context, context.CancelFunc) {
				interrupt <- used
				return context.WithCancel(ctx)
			},
		}
		code := make(chan int, 1)
		go func() { code <- run(ctx, p, []string{"import", file, "new", "-", "--as", "jsonl"}) }()
		if _, err := fmt.Fprintln(feed, `{"key": "1", "vector": [1, 2]}`); err != nil {
			t.Fatal(err)
		}
		if used := <-interrupt; way == "interrupt" && !used() {
			t.Error("the interrupt was not sent")
		} else if way == "gone" {
			cancel()
		}
		text := "anndb: interrupted\n"
		if code := <-code; code != command.ExitInterrupted || errs.String() != text {
			t.Errorf("%s: exit code %d: %s", way, code, errs.String())
		}
	}
	if out, errs, _ := client(t.Context(), nil, "stats", file, "--json"); strings.Contains(out, `"new"`) {
		t.Errorf("what was interrupted has left a collection: %s%s", out, errs)
	}
}

// TestServeInput: a command takes no more of standard input than it reads.
func TestServeInput(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	serve(t, file)
	in := strings.NewReader(`{"key": "a", "vector": [1, 2]}`)
	_, errs, code := client(t.Context(), in, "count", file, "points")
	if code != command.ExitOK || in.Len() == 0 {
		t.Errorf("exit code %d, %d bytes left: %s", code, in.Len(), errs)
	}
	_, errs, code = client(t.Context(), in, "import", file, "points", "-")
	if code != command.ExitOK || in.Len() > 0 {
		t.Errorf("exit code %d, %d bytes left: %s", code, in.Len(), errs)
	}
	failing := io.MultiReader(strings.NewReader(`{"key": "b", "vector": [1, 2]}`+"\n"), brokenReader{})
	_, errs, code = client(t.Context(), failing, "import", file, "points", "-")
	if code != command.ExitError || !strings.Contains(errs, "the disk is on fire") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the disk is on fire") }

// TestServeBadClients: what no client sends ends its connection and nothing else.
func TestServeBadClients(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	serve(t, file)
	upgrade := "GET /command HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: anndb-command/1\r\n\r\n"
	for _, sent := range []string{
		"GET /command HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: anndb-command/0\r\n\r\n",
		upgrade + "i\x00\x00\x00\x01x", upgrade + "c\xff\xff\xff\xff", upgrade + "c\x00\x00\x00\x01{",
		upgrade + "c\x00\x00\x00\x02{}", upgrade + "c\x00\x00\x00\x14" + `{"Args":["shell",""]}`,
	} {
		c, err := net.Dial("unix", file+".sock")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.UnixConn).CloseWrite()
		if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
			t.Errorf("%q: %q, %v", sent, answer, err)
		}
		_ = c.Close()
	}
	if out, errs, code := client(t.Context(), nil, "count", file, "points"); code != command.ExitOK {
		t.Error(out, errs, code)
	}
}

// TestServeKilled: a server that is killed while clients write loses nothing that it has acknowledged, and
// the next one takes its place.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	file := pointsFile(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "serve", file)
	cmd.Args[0] = "anndb" // see TestMain
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(messages).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	var writers sync.WaitGroup
	ctx, killed := context.WithCancel(t.Context()) // without a server, clients write to the file themselves
	defer killed()
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", w, i)
				if w == 0 && !putRow(file, key) {
					return
				}
				if w > 0 {
					if _, _, code := client(ctx, nil, "put", file, "points", key, "1", "2"); code != command.ExitOK {
						return
					}
				}
				mu.Lock()
				acknowledged[key] = true
				enough := len(acknowledged) == 60
				mu.Unlock()
				if enough {
					_ = cmd.Process.Kill()
					killed()
				}
			}
		})
	}
	_ = cmd.Wait()
	writers.Wait()
	serve(t, file) // the socket is stale
	_, errs, code := client(t.Context(), nil, "check", file)
	out, _, _ := client(t.Context(), nil, "rows", file, "points", "--limit", "0", "--json")
	var rows []struct{ Key string }
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != command.ExitOK {
		t.Fatal(err, errs, out)
	}
	for _, r := range rows {
		delete(acknowledged, r.Key)
	}
	if len(acknowledged) > 0 {
		t.Errorf("lost: %v", acknowledged)
	}
}

// putRow puts a row by HTTP, and reports whether that was acknowledged.
func putRow(file, key string) bool {
	c := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", file+".sock")
		}, DisableKeepAlives: true,
	}}
	r, err := http.NewRequest(http.MethodPut, "http://localhost/v1/files/a/collections/points/rows/"+key,
		strings.NewReader(`{"vector": [1, 2]}`))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := c.Do(r)
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	return a.StatusCode < 300
}
