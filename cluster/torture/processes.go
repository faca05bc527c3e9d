package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/shardlog"
)

// host stands for the test that package clustertest wants, which calls no other methods.
type host struct {
	testing.TB

	ctx    context.Context
	folder string
	n      int
	after  []func()
}

// fatal is what Fatal panics with.
type fatal string

func (h *host) Helper()                  {}
func (h *host) Failed() bool             { return false }
func (h *host) Logf(string, ...any)      {}
func (h *host) Context() context.Context { return h.ctx }
func (h *host) Cleanup(f func())         { h.after = append(h.after, f) }
func (h *host) Fatal(args ...any)        { panic(fatal(fmt.Sprint(args...))) }
func (h *host) Fatalf(format string, args ...any) {
	panic(fatal(fmt.Sprintf(format, args...)))
}
func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *host) TempDir() string {
	h.n++
	path := filepath.Join(h.folder, fmt.Sprint("s", h.n-1))
	if err := os.MkdirAll(path, 0o700); err != nil {
		h.Fatal(err)
	}
	return path
}

// process is a node or a gateway, which is started again when it ends by itself.
type process struct {
	name    string
	folder  string // of its configuration and, of a node, its files
	address string // that it listens at
	url     string // at which others reach it, through a link
	program string
	args    []string
	crashed func(error) // is called when it ends as no process should

	mu    sync.Mutex
	cmd   *exec.Cmd
	holds int           // faults that keep it down
	env   string        // a variable of its environment
	stop  chan struct{} // closed when it has to end
	ended chan struct{}
	lives int // how often it has begun with an empty or a damaged folder
}

// start starts the process, once no fault keeps it down.
func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds--; p.holds == 0 {
		p.stop, p.ended = make(chan struct{}), make(chan struct{})
		go p.supervise(p.stop, p.ended)
	}
}

func (p *process) supervise(stop, ended chan struct{}) {
	defer close(ended)
	for {
		err := p.run(stop)
		var exit *exec.ExitError
		select {
		case <-stop:
			return
		default:
		}
		if !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1 is an error, such as servers that do not answer
			p.crashed(fmt.Errorf("%s has ended: %w (see %s.log)", p.name, err, p.folder))
			return
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// run runs the process once.
func (p *process) run(stop chan struct{}) error {
	out, err := os.OpenFile(p.folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	p.mu.Lock()
	cmd.Env = append(os.Environ(), p.env)
	select {
	case <-stop:
	default:
		err = cmd.Start()
		p.cmd = cmd
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// kill ends the process by SIGKILL.
func (p *process) kill() {
	p.mu.Lock()
	if p.holds++; p.holds == 1 {
		close(p.stop)
	}
	ended := p.ended
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
	select {
	case <-ended:
	case <-time.After(time.Minute): // a system may take long to end it
	}
}

func (p *process) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// pid returns the id of the process, 0 of none.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

const (
	gatewayCount = 2
	replicaCount = 3
	shardCount   = 2
)

// startCluster starts all processes, and waits until the cluster serves.
func (b *bench) startCluster(ctx context.Context, server string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fatal)
			if !ok {
				panic(r)
			}
			err = errors.New(string(f))
		}
	}()
	o := clustertest.Options{Program: server}
	o.Route = func(from, to int, address string) string {
		via, err := b.links.add(serverName(from), serverName(to), address)
		if err != nil {
			b.host.Fatal(err)
		}
		return via
	}
	b.servers = clustertest.StartWith(b.host, b.serverCount, &o)
	b.log, b.js = b.servers.Connect("main"), b.servers.JetStream()
	shards := shardlog.Ranges(shardCount)
	for i := range shards {
		for j := range replicaCount {
			shards[i].Replicas = append(shards[i].Replicas, nodeName((i+j)%b.nodes))
		}
	}
	if err := again(ctx, func() error {
		_, err := b.log.Create(ctx, shards)
		if errors.Is(err, shardlog.ErrExists) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	for i := range b.nodes {
		if err := b.startProcess(nodeName(i)); err != nil {
			return err
		}
	}
	for i := range gatewayCount {
		if err := b.startProcess(gatewayName(i)); err != nil {
			return err
		}
	}
	return nil
}

func serverName(i int) string  { return fmt.Sprint("s", i) }
func nodeName(i int) string    { return fmt.Sprint("n", i) }
func gatewayName(i int) string { return fmt.Sprint("g", i) }

// startProcess starts a node "n…" or a gateway "g…", whose connections to the servers are links.
func (b *bench) startProcess(name string) error {
	p := &process{name: name, folder: filepath.Join(b.folder, name), program: b.program, crashed: b.fail}
	p.holds = 1
	if b.other != "" && (name[1]-'0')%2 == 1 {
		p.program = b.other
	}
	urls := ""
	for i := range b.servers.Len() {
		address, err := b.links.add(name, serverName(i), b.servers.Address(i))
		if err != nil {
			return err
		}
		urls += "nats://" + clustertest.User + "@" + address + ","
	}
	p.address = fmt.Sprint("127.0.0.1:", clustertest.Port(b.host))
	via, err := b.links.add("", name, p.address)
	if err != nil {
		return err
	}
	p.url = "http://" + via
	body, err := json.Marshal(map[string]string{"cluster": "main", "log": urls[:len(urls)-1]})
	if err == nil {
		err = os.MkdirAll(p.files(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.folder, "cluster.json"), body, 0o600)
	}
	if err != nil {
		return err
	}
	p.args = []string{"-c", p.folder, "gateway", "--listen", p.address}
	if name[0] == 'n' {
		p.args = []string{"-c", p.folder, "node", name, p.files(), "--listen", p.address, "--address", p.url}
	}
	b.processes[name] = p
	p.start()
	return nil
}

// files is the folder of the files of a node.
func (p *process) files() string { return filepath.Join(p.folder, "files") }

// get asks a process itself, not through its link.
func (p *process) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	res, err := direct.Do(r)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s: %s", p.name, path, res.Status)
		_ = res.Body.Close()
	}
	return res, err
}

// direct keeps no connections, so that it changes no count of them.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// again calls f until it returns no error or the context ends.
func again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if shardlog.Pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
