// Package clustertest starts real nats-server processes in folders of a test.
package clustertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/anndb/anndb/cluster/shardlog"
)

// Servers are the processes of the log of a test. They end with the test.
type Servers struct {
	t       testing.TB
	servers []*server
	o       Options
}

// Options selects what the servers are.
type Options struct {
	Route   Route  // of a cluster, nil for the addresses themselves
	Program string // of a server, empty for that of the module
}

// Route returns the address at which a server of a cluster reaches the address of another one.
type Route func(from, to int, address string) string

type server struct {
	folder        string
	port, cluster int
	process       *exec.Cmd // nil while it is down
	env           []string
}

// User is a user of the servers, with the password.
const User = "anndb:secret"

var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// Start starts one server, or several that are a cluster, and waits until they store messages. The test is
// skipped if the module of the server cannot be had.
func Start(t testing.TB, n int) *Servers {
	t.Helper()
	return StartWith(t, n, &Options{})
}

// StartWith does what Start does with options.
func StartWith(t testing.TB, n int, o *Options) *Servers {
	t.Helper()
	s := &Servers{t: t, o: *o}
	if o.Program == "" {
		var err error
		if s.o.Program, err = program(); err != nil {
			t.Skipf("SKIPPED: nats-server cannot be built: %v", err)
		}
	}
	for i := range n {
		s.servers = append(s.servers, &server{folder: filepath.Join(t.TempDir(), fmt.Sprint(i)), port: Port(t),
			cluster: Port(t)})
	}
	for i := range s.servers {
		s.Configure(i, "always")
	}
	t.Cleanup(func() {
		for i, v := range s.servers {
			s.Kill(i)
			if log, err := os.ReadFile(filepath.Join(v.folder, "log")); err == nil && t.Failed() {
				t.Logf("log of s%d:\n%s", i, log[max(0, len(log)-20000):])
			}
		}
	})
	for i := range s.servers {
		s.Restart(i)
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		c, err := shardlog.Connect(ctx, &shardlog.Options{URL: s.URL(), Cluster: "probe"})
		if err == nil {
			_, err = c.Create(ctx, shardlog.Ranges(1))
			c.Close()
		}
		cancel()
		if err == nil || errors.Is(err, shardlog.ErrExists) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the servers store nothing: %v", err)
		}
	}
}

// ports are those of this process. They are none that a system gives to connections, which could take one
// while its server is down; the first of each hundred is held by the process whose hundred it is.
var ports struct {
	sync.Mutex
	held []net.Listener
	next int
}

// Port returns a port that no other test uses.
func Port(t testing.TB) int {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		if ports.next%100 == 0 {
			first := 10_000 + 100*rand.IntN(200)
			held, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first))
			if err != nil {
				continue
			}
			ports.held, ports.next = append(ports.held, held), first+1
		}
		p := ports.next
		ports.next++
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", p)); err == nil {
			l.Close()
			return p
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Configure writes the configuration of a server, for its next start: how often it syncs its files, and
// variables of its environment.
func (s *Servers) Configure(i int, interval string, env ...string) {
	v := s.servers[i]
	v.env = append(os.Environ(), env...)
	text := fmt.Sprintf(`
server_name: s%d
listen: "127.0.0.1:%d"
max_payload: 8388608
jetstream { store_dir: %q, sync_interval: %s, max_file_store: 20G }
accounts { A { jetstream: enabled, users: [{user: anndb, password: secret}] }, 
  SYS {users: [{user: sys, password: sys}]} }
system_account: SYS
`, i, v.port, s.Store(i), interval)
	if len(s.servers) > 1 {
		var routes []string
		more := ""
		for j, other := range s.servers {
			address := fmt.Sprint("127.0.0.1:", other.cluster)
			if s.o.Route != nil && j != i {
				address = s.o.Route(i, j, address)
				more = `, no_advertise: true, advertise: "127.0.0.1:1"` // nobody learns another address
			}
			routes = append(routes, fmt.Sprintf(`"nats://%s"`, address))
		}
		text += fmt.Sprintf("cluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s]%s }\n", v.cluster,
			strings.Join(routes, ", "), more)
	}
	if err := os.MkdirAll(v.folder, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.folder, "conf"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// Restart starts a server that was killed.
func (s *Servers) Restart(i int) {
	v := s.servers[i]
	log, err := os.OpenFile(filepath.Join(v.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	v.process = exec.Command(s.o.Program, "-c", filepath.Join(v.folder, "conf"))
	v.process.Env = v.env
	v.process.Stdout, v.process.Stderr = log, log
	if err := v.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Len returns the number of servers.
func (s *Servers) Len() int { return len(s.servers) }

// URL returns the addresses of all servers, with a user.
func (s *Servers) URL() string { return s.URLWith(User) }

// Address returns the address of a server.
func (s *Servers) Address(i int) string { return fmt.Sprint("127.0.0.1:", s.servers[i].port) }

// URLWith returns the addresses with another user.
func (s *Servers) URLWith(user string) string {
	var urls []string
	for _, v := range s.servers {
		urls = append(urls, fmt.Sprintf("nats://%s@127.0.0.1:%d", user, v.port))
	}
	return strings.Join(urls, ",")
}

// Kill ends a server by SIGKILL.
func (s *Servers) Kill(i int) {
	if v := s.servers[i]; v.process != nil {
		_ = v.process.Process.Kill()
		_ = v.process.Wait()
		v.process = nil
	}
}

// Pause stops a server as a slow machine would; Resume continues it.
func (s *Servers) Pause(i int) { _ = s.servers[i].process.Process.Signal(syscall.SIGSTOP) }

// Resume continues a server.
func (s *Servers) Resume(i int) { _ = s.servers[i].process.Process.Signal(syscall.SIGCONT) }

// Store returns the folder where a server has its streams.
func (s *Servers) Store(i int) string { return filepath.Join(s.servers[i].folder, "store") }

// Connect returns a connection to the servers that ends with the test.
func (s *Servers) Connect(cluster string) *shardlog.Cluster {
	s.t.Helper()
	c, err := shardlog.Connect(s.t.Context(), &shardlog.Options{URL: s.URL(), Cluster: cluster})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// JetStream returns a connection of a test that changes what the cluster has stored.
func (s *Servers) JetStream() jetstream.JetStream {
	s.t.Helper()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// DamageSnapshot removes a part of a snapshot.
func DamageSnapshot(ctx context.Context, js jetstream.JetStream, cluster string, s *shardlog.Snapshot) error {
	bucket := "anndb_" + cluster + "_snapshots"
	store, err := js.ObjectStore(ctx, bucket)
	if err != nil {
		return err
	}
	info, err := store.GetInfo(ctx, fmt.Sprint(s.Shard, "/", s.Epoch, "/", s.Sequence))
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "OBJ_"+bucket)
	if err != nil {
		return err
	}
	chunk, err := stream.GetLastMsgForSubject(ctx, "$O."+bucket+".C."+info.NUID)
	if err != nil {
		return err
	}
	return stream.DeleteMsg(ctx, chunk.Sequence)
}

// DamageBlocks overwrites a part of all blocks of a kind (codec/FORMAT.md) in a file, and returns their
// number.
func DamageBlocks(path string, kind uint16) (n int, err error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	head := binary.LittleEndian.AppendUint16([]byte("ANNB\x01\x00"), kind)
	for at := 0; at+72 <= len(body) && err == nil; at += 16 {
		if bytes.HasPrefix(body[at:], head) {
			_, err = w.WriteAt([]byte("damaged!"), int64(at+64))
			n++
		}
	}
	return n, errors.Join(err, w.Close())
}
