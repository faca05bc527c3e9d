// Command anndb-cluster starts clusters, uses them and takes care of them. docs/CLUSTER.md is the guide.
package main

import (
	"cmp"
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
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/gateway"
	"github.com/anndb/anndb/cluster/node"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// commands are those of the command line.
type commands struct {
	Config string `short:"c" default:"." env:"ANNDB_CLUSTER" help:"The file cluster.json, or its folder."`

	Up        upCmd        `cmd:"" help:"Start a whole cluster on this machine, in a folder, to try it."`
	Init      initCmd      `cmd:"" help:"Make the map of a new cluster, whose nodes are started then."`
	Node      nodeCmd      `cmd:"" help:"Run a node."`
	Gateway   gatewayCmd   `cmd:"" help:"Run a gateway."`
	Status    statusCmd    `cmd:"" help:"Show the shards and their replicas."`
	Create    createCmd    `cmd:"" help:"Create a collection."`
	Import    importCmd    `cmd:"" help:"Store the rows of files."`
	Build     buildCmd     `cmd:"" help:"Build an index in all shards."`
	Search    searchCmd    `cmd:"" help:"Search rows."`
	Predict   predictCmd   `cmd:"" help:"Predict labels."`
	Count     countCmd     `cmd:"" help:"Count rows."`
	Move      moveCmd      `cmd:"" help:"Give a replica of a shard to another node."`
	Remove    removeCmd    `cmd:"" help:"Take a shard off a node that has it, or that it moves to."`
	Rebalance rebalanceCmd `cmd:"" help:"Move replicas off nodes that are down, and to nodes with fewer."`
	Split     splitCmd     `cmd:"" help:"Divide a shard into two."`
	Recover   recoverCmd   `cmd:"" help:"Give a shard whose log is lost a new one."`
	Backup    backupCmd    `cmd:"" help:"Copy the file of each shard into a folder."`
	Restore   restoreCmd   `cmd:"" help:"Store the collections of a backup, without indexes."`
}

// config is the file cluster.json: how to reach a cluster.
type config struct {
	Cluster string `json:"cluster"`
	Log     string `json:"log"` // addresses of the servers of the log, see shardlog.Options.URL
	// Credentials, CA, Certificate and Key are those of shardlog.Options.
	Credentials string `json:"credentials,omitempty"`
	CA          string `json:"ca,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	Gateway     string `json:"gateway"`         // its URL
	Token       string `json:"token,omitempty"` // of the gateway and the nodes
	// NodeCA is a PEM file with the authorities of the certificates of nodes and gateways; those of the system
	// without it.
	NodeCA string `json:"node_ca,omitempty"`
}

// app is what all commands have.
type app struct {
	ctx context.Context
	config
	path string // of the configuration
	out  io.Writer
	log  *slog.Logger
}

// load reads the configuration.
func (a *app) load(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "cluster.json")
	}
	a.path = path
	body, err := os.ReadFile(path)
	if err == nil {
		err = wire.Unmarshal(body, &a.config)
	}
	if err != nil {
		return fmt.Errorf("configuration (anndb-cluster up makes one, -c names it): %w", err)
	}
	return nil
}

// connect connects to the servers of the log.
func (a *app) connect() (*shardlog.Cluster, error) {
	return shardlog.Connect(a.ctx, &shardlog.Options{
		URL: a.Log, Cluster: a.Cluster, Logger: a.log,
		Credentials: a.Credentials, CA: a.CA, Certificate: a.Certificate, Key: a.Key,
	})
}

// file returns the cluster behind its gateway.
func (a *app) file() (client.File, error) {
	c, err := a.client(a.Gateway)
	if err != nil {
		return client.File{}, err
	}
	return c.File(a.Cluster), nil
}

// client returns a client of a gateway or a node.
func (a *app) client(url string) (*client.Client, error) {
	trust, err := a.trust()
	if err != nil {
		return nil, err
	}
	return client.New(url, &client.Options{Token: a.Token, TLS: trust})
}

// trust returns what certificates of nodes and gateways are checked by.
func (a *app) trust() (*tls.Config, error) {
	if a.NodeCA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(a.NodeCA)
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	if err == nil && !trust.RootCAs.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s: no certificate in PEM", a.NodeCA)
	}
	if err != nil {
		return nil, fmt.Errorf("node_ca of %s: %w", a.path, err)
	}
	return trust, nil
}

// http returns what nodes are called by.
func (a *app) http() (*http.Client, error) {
	trust, err := a.trust()
	return gateway.Caller(trust), err
}

// print prints a value as JSON.
func (a *app) print(value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(a.out, string(body))
	}
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c commands
	a := &app{ctx: ctx, out: os.Stdout, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	k := kong.Parse(&c, kong.Name("anndb-cluster"), kong.UsageOnError(),
		// Commands get what they have as parameters.
		kong.Bind(a), kong.BindToProvider(a.connect), kong.BindToProvider(a.file),
		kong.Description("Clusters of anndb on NATS JetStream."))
	var err error
	if k.Selected().Name != "up" {
		err = a.load(c.Config)
	}
	if err == nil {
		err = k.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "anndb-cluster:", err)
		os.Exit(1)
	}
}

// listenFlags are where a node or a gateway listens.
type listenFlags struct {
	Listen string `required:"" help:"The address that it listens at."`
	Cert   string `and:"cert" type:"existingfile" help:"A certificate, PEM: it is called by https."`
	Key    string `and:"cert" type:"existingfile" help:"The key of the certificate."`
}

// listen listens, by TLS if there is a certificate.
func (f *listenFlags) listen() (net.Listener, error) {
	if f.Cert == "" {
		return net.Listen("tcp", f.Listen)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("--cert %s, --key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return tls.Listen("tcp", f.Listen, config)
}

// nodeCmd runs a node.
type nodeCmd struct {
	ID     string `arg:"" help:"Its name."`
	Folder string `arg:"" help:"The folder of its files."`
	listenFlags
	Address string `help:"The URL at which others reach it, unless it is that address."`
}

func (c *nodeCmd) Run(a *app, log *shardlog.Cluster) error {
	l, err := c.listen()
	if err != nil {
		return err
	}
	if c.Address == "" && c.Cert != "" {
		c.Address = "https://" + l.Addr().String()
	}
	c.Address = cmp.Or(c.Address, "http://"+l.Addr().String())
	u, err := url.Parse(c.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || net.ParseIP(u.Hostname()).IsUnspecified() {
		return fmt.Errorf("node %q: others cannot reach it at %q (--address names a URL that they can)",
			c.ID, c.Address)
	}
	caller, err := a.http()
	if err != nil {
		return err
	}
	if err := c.alone(a.ctx, log); err != nil {
		return err
	}
	n, err := node.Start(a.ctx, log, &node.Options{
		ID: c.ID, Folder: c.Folder, Address: c.Address, Token: a.Token, HTTP: caller, Logger: a.log,
		Handlers: func(find server.Find) map[string]http.Handler {
			return map[string]http.Handler{gateway.PartPattern: gateway.PartHandler(find)}
		},
	})
	if err != nil {
		return err
	}
	defer n.Close()
	stop := context.AfterFunc(a.ctx, n.Close)
	defer stop()
	if err := n.Serve(l); a.ctx.Err() == nil {
		return err
	}
	return nil
}

// alone returns once no other process is the node: one that was killed seems to be for the time of a lease.
func (c *nodeCmd) alone(ctx context.Context, log *shardlog.Cluster) error {
	for end := time.Now().Add(shardlog.Lease + time.Second); ; time.Sleep(shardlog.Lease / 50) {
		nodes, err := log.Nodes(ctx)
		other := slices.IndexFunc(nodes, func(n shardlog.NodeInfo) bool {
			return n.ID == c.ID && n.Address != c.Address
		})
		switch {
		case err != nil || other < 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("node %q runs at %s (end it, or use another name)", c.ID, nodes[other].Address)
		}
	}
}

// gatewayCmd runs a gateway.
type gatewayCmd struct {
	listenFlags
	Logged bool `help:"Acknowledge writes once the log has them, unless a request says otherwise."`
}

func (c *gatewayCmd) Run(a *app, log *shardlog.Cluster) error {
	l, err := c.listen()
	if err != nil {
		return err
	}
	return a.serve(log, l, c.Logged)
}

// endTime is how long requests in progress may take when a gateway ends.
const endTime = 10 * time.Second

// serve runs a gateway until the context ends.
func (a *app) serve(log *shardlog.Cluster, l net.Listener, logged bool) error {
	caller, err := a.http()
	if err != nil {
		return err
	}
	o := &gateway.Options{Token: a.Token, HTTP: caller, Logger: a.log, Logged: logged}
	g := gateway.New(a.Cluster, log, o)
	s := server.New(nil, &server.Options{Token: a.Token, Logger: a.log, Handlers: g.Handlers()})
	ended := make(chan error, 1)
	go func() {
		<-a.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
