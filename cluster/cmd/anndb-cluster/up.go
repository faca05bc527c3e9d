package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
)

// upCmd starts a cluster on this machine: the servers of the log and the nodes as processes, and a gateway.
type upCmd struct {
	Folder   string `arg:"" help:"The folder of the cluster, which is made unless it exists."`
	Shards   int    `default:"2" help:"Of a new cluster."`
	Replicas int    `default:"2" help:"Of each shard of a new cluster."`
	Nodes    int    `default:"4" help:"Of a new cluster."`
	Servers  int    `default:"3" help:"Of the log of a new cluster."`
	Listen   string `default:"127.0.0.1:7700" help:"The address of the gateway of a new cluster."`
	Nats     string `help:"The program nats-server, unless PATH has it." env:"NATS_SERVER"`
	Logged   bool   `help:"Acknowledge writes once the log has them."`
}

func (c *upCmd) Run(a *app) error {
	nats, err := c.program()
	if err != nil {
		return err
	}
	if c.Folder, err = filepath.Abs(c.Folder); err != nil {
		return err
	}
	var nodes []string // addresses
	path := filepath.Join(c.Folder, "nodes.json")
	body, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		nodes, err = c.prepare(path)
	case err == nil:
		err = json.Unmarshal(body, &nodes)
	}
	if err == nil {
		err = a.load(c.Folder)
	}
	if err != nil {
		return err
	}
	gate, err := a.alone(nodes)
	if err != nil {
		return err
	}
	defer gate.Close()
	ctx, cancel := context.WithCancel(a.ctx)
	p := &processes{a: a, folder: c.Folder}
	defer p.end()
	defer cancel()
	a.ctx = ctx
	servers, err := fs.Glob(os.DirFS(c.Folder), "nats-*/nats.conf")
	if err != nil {
		return err
	}
	for _, conf := range servers {
		if err := p.start(filepath.Dir(conf), nats, "-c", filepath.Join(c.Folder, conf)); err != nil {
			return err
		}
	}
	log, err := c.create(a, len(nodes))
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i, address := range nodes {
		id := nodeName(i)
		err := p.start(id, self, "-c", a.path, "node", id, filepath.Join(c.Folder, id), "--listen", address)
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "cluster %s: %d servers of the log, %d nodes, logs in %s\n",
		a.Cluster, len(servers), len(nodes), c.Folder)
	fmt.Fprintf(a.out, "gateway at %s (end with Ctrl-C)\n", a.Gateway)
	return a.serve(log, gate, c.Logged)
}

// alone returns the listener of the gateway, unless a process of the cluster runs: a second server of the log
// would open the files of the first.
func (a *app) alone(nodes []string) (gate net.Listener, err error) {
	addresses := append(strings.Split(a.Log, ","), nodes...)
	for _, address := range append(addresses, a.Gateway) {
		if gate, err = net.Listen("tcp", address[strings.LastIndexAny(address, "/@")+1:]); err != nil {
			return nil, fmt.Errorf("%w (end the process of the cluster, or another one, that has the address)", err)
		}
		if address != a.Gateway {
			_ = gate.Close()
		}
	}
	return gate, nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// program returns the path of nats-server.
func (c *upCmd) program() (string, error) {
	path, err := exec.LookPath(cmp.Or(c.Nats, "nats-server"))
	if err == nil {
		return path, nil
	}
	if out, toolErr := exec.Command("go", "tool", "-n", "nats-server").Output(); c.Nats == "" && toolErr == nil {
		return strings.TrimSpace(string(out)), nil // in a checkout of this module
	}
	const remedy = "go install github.com/nats-io/nats-server/v2@latest makes it, --nats names it"
	return "", fmt.Errorf("%w (%s)", err, remedy)
}

// prepare writes the configuration of a new cluster, and the addresses of its nodes, which it returns.
func (c *upCmd) prepare(path string) (nodes []string, err error) {
	if c.Servers < 1 {
		return nil, fmt.Errorf("%d servers of the log, want 1 or more", c.Servers)
	}
	if _, err := place(c.Shards, c.Replicas, make([]string, max(0, c.Nodes))); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return nil, err
	}
	ports, err := freePorts(2*c.Servers + c.Nodes + 1)
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	var urls, routes []string
	for i := range c.Servers {
		urls = append(urls, fmt.Sprintf("nats://anndb:%s@%s", password, ports[2*i]))
		routes = append(routes, fmt.Sprintf("%q", "nats://"+ports[2*i+1]))
	}
	for i := range c.Servers {
		folder := filepath.Join(c.Folder, fmt.Sprintf("nats-%d", i+1))
		text := fmt.Sprintf("server_name: anndb-%d\nlisten: %q\nmax_payload: 8388608\n"+
			"jetstream { store_dir: %q, sync_interval: always }\nauthorization { user: anndb, password: %q }\n",
			i+1, ports[2*i], filepath.Join(folder, "store"), password)
		if c.Servers > 1 {
			text += fmt.Sprintf("cluster { name: anndb, listen: %q, routes: [%s] }\n", ports[2*i+1],
				strings.Join(routes, ", "))
		}
		conf := filepath.Join(folder, "nats.conf")
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(conf, []byte(text), 0o600)); err != nil {
			return nil, err
		}
	}
	nodes = ports[2*c.Servers : 2*c.Servers+c.Nodes]
	if strings.HasSuffix(c.Listen, ":0") {
		c.Listen = ports[len(ports)-1]
	}
	return nodes, errors.Join(
		writeJSON(filepath.Join(c.Folder, "cluster.json"), config{
			Cluster: "main", Log: strings.Join(urls, ","), Gateway: "http://" + c.Listen,
		}),
		writeJSON(path, nodes))
}

func writeJSON(path string, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o600)
}

// freePorts returns addresses of this machine whose ports are free, and none that a system gives to
// connections, which could take one while the cluster is down. Processes that begin at the same time look
// in different places.
func freePorts(n int) (addresses []string, err error) {
	for port := 10_000 + os.Getpid()*61%20_000; len(addresses) < n && port < 32_768; port++ {
		address := fmt.Sprint("127.0.0.1:", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close()
		addresses = append(addresses, address)
	}
	if len(addresses) < n {
		return nil, fmt.Errorf("%d of %d ports are free", len(addresses), n)
	}
	return addresses, nil
}

// place gives each of n shards so many replicas, on nodes in turn.
func place(n, replicas int, nodes []string) ([]shardlog.Shard, error) {
	if n < 1 || replicas < 1 || replicas > len(nodes) {
		return nil, fmt.Errorf("%d shards with %d replicas on %d nodes: want 1 or more, "+
			"and as many nodes as replicas", n, replicas, len(nodes))
	}
	shards := shardlog.Ranges(n)
	for i := range shards {
		for j := range replicas {
			shards[i].Replicas = append(shards[i].Replicas, nodes[(i*replicas+j)%len(nodes)])
		}
	}
	return shards, nil
}

// initCmd makes the map of a cluster.
type initCmd struct {
	Nodes    []string `arg:"" help:"Names of nodes."`
	Shards   int      `default:"2"`
	Replicas int      `default:"3" help:"Of each shard."`
}

func (c *initCmd) Run(a *app, log *shardlog.Cluster) error {
	shards, err := place(c.Shards, c.Replicas, c.Nodes)
	if err != nil {
		return err
	}
	_, err = log.Create(a.ctx, shards)
	return err
}

// startTime is how long the servers of the log may take to elect leaders.
const startTime = time.Minute

// create connects to the log, and makes the cluster unless it exists.
func (c *upCmd) create(a *app, nodes int) (log *shardlog.Cluster, err error) {
	var names []string
	for i := range nodes {
		names = append(names, nodeName(i))
	}
	shards, err := place(c.Shards, c.Replicas, names)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(startTime); ; {
		ctx, cancel := context.WithTimeout(a.ctx, startTime/6)
		if log == nil {
			log, err = a.connect()
		}
		if err == nil {
			if _, err = log.Map(ctx); errors.Is(err, shardlog.ErrNoCluster) {
				_, err = log.Create(ctx, shards)
			}
		}
		cancel()
		if err == nil || time.Now().After(end) || a.ctx.Err() != nil {
			return log, err
		}
		_ = shardlog.Pause(a.ctx, startTime/120)
	}
}

// processes are those that this one has started.
type processes struct {
	a      *app
	folder string
	list   []*exec.Cmd
	all    sync.WaitGroup
}

// start starts a process, whose output goes to a file NAME.log.
func (p *processes) start(name, program string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(p.folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = apart() // Ctrl-C is for this process, which ends the others in order
	err = errors.Join(cmd.Start(), out.Close())
	if err != nil {
		return err
	}
	p.list = append(p.list, cmd)
	p.all.Go(func() {
		if err := cmd.Wait(); p.a.ctx.Err() == nil {
			p.a.log.Error("a process has ended", "name", name, "error", err, "again", strings.Join(cmd.Args, " "))
		}
	})
	return nil
}

// end ends the processes, the nodes first.
func (p *processes) end() {
	for i := len(p.list) - 1; i >= 0; i-- {
		_ = p.list[i].Process.Signal(syscall.SIGTERM)
	}
	kill := time.AfterFunc(endTime, func() {
		for _, cmd := range p.list {
			_ = cmd.Process.Kill()
		}
	})
	p.all.Wait()
	kill.Stop()
}

// statusCmd shows the shards.
type statusCmd struct{}

// Run prints a line for each replica.
func (*statusCmd) Run(a *app, log *shardlog.Cluster) error {
	m, nodes, err := operate.Look(a.ctx, log)
	if err != nil {
		return err
	}
	for _, s := range m.All() {
		fmt.Fprintf(a.out, "shard %s, epoch %d, hashes %016x to %016x\n", s.ID, s.Epoch, s.First, s.Last)
		for i, id := range slices.Concat(s.Replicas, s.Joining) {
			n, alive := nodes[id]
			st, has := n.Shards[s.ID]
			state, progress := st.State, fmt.Sprintf(", applied %d, %d behind %s", st.Sequence, st.Behind(), st.Error)
			switch {
			case !alive:
				state, progress = "no lease: the node is down", ""
			case !has:
				state = "not started"
			case st.Lost:
				state += ", the log has lost messages that it has"
			}
			if i >= len(s.Replicas) {
				state = "joining, " + state
			}
			fmt.Fprintf(a.out, "  %s %s %s%s\n", id, n.Address, state, progress)
		}
	}
	return nil
}
