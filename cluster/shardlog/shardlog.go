// Package shardlog keeps what the nodes of a cluster share on NATS JetStream: a log of changes for each
// shard, the map of shards and nodes, and snapshots. It is the only package that imports a client of NATS.
//
// A cluster NAME has the key-value buckets anndb_NAME (the map) and anndb_NAME_nodes (the leases of nodes),
// the object store anndb_NAME_snapshots, and for each shard and epoch the stream anndb_NAME_SHARD_EPOCH.
package shardlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of this package; test with errors.Is.
var (
	ErrUnreachable = errors.New("the servers of the log do not answer")
	ErrRefused     = errors.New("the servers of the log refuse the credentials")
	ErrNoCluster   = errors.New("no such cluster")
	ErrExists      = errors.New("the cluster exists")
	// ErrCluster: a folder belongs to another cluster.
	ErrCluster = errors.New("another cluster")
	// ErrSealed: the shard has been split; the map says by what it is replaced.
	ErrSealed = errors.New("the log of the shard takes no more messages")
	// ErrUnknown: a message may have been stored, or not. Publish it again with the same id within Window.
	ErrUnknown  = errors.New("it is not known whether the message is stored")
	ErrTooLarge = errors.New("the message is too large")
	// ErrFull: the servers of the log have no room.
	ErrFull = errors.New("the log is full")
	// ErrLogLost: messages that a node has applied are missing from the log, or others are in their place.
	ErrLogLost = errors.New("the log has lost messages")
	// ErrBehind: the messages that come next are only in a snapshot.
	ErrBehind = errors.New("the log begins later")
	// ErrChanged: another program has changed the stream of a log, which drops messages or gets none now.
	ErrChanged = errors.New("another program has changed the log")
	// ErrFormat: a message, or the map, was written by a later version.
	ErrFormat = errors.New("a later version")
	// ErrCorrupt: a message, a snapshot or the map is damaged, or was written by another program.
	ErrCorrupt = errors.New("damaged, or written by another program")
)

// Window is the time in which a message with the id of an earlier one is not stored again.
const Window = 2 * time.Minute

// Lease is the time after which a node that does not announce itself is not listed.
const Lease = 10 * time.Second

// patience bounds calls without a deadline of their own, and answerTime one question of them: a server that
// has ended or stopped does not answer, and until the others have elected another leader they drop questions.
const (
	patience   = 10 * time.Second
	answerTime = time.Second
)

// ask calls f, which may be repeated, until there is an answer, for patience at most.
func ask[T any](ctx context.Context, f func(context.Context) (T, error)) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		limited, cancel := context.WithTimeout(ctx, answerTime)
		out, err = f(limited)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return out, err
		}
	}
}

// Pause returns after a time, or with the error of a context that ends before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Options selects the servers and the cluster.
type Options struct {
	URL     string // of one server or several, separated by commas; it may have a user and a password
	Cluster string // the name, of letters, digits and "-"; "main" if empty
	// Credentials is a file with the token and the key of a user; CA, Certificate and Key are PEM files for TLS.
	Credentials, CA, Certificate, Key string
	Logger                            *slog.Logger // receives warnings, slog.Default when nil
}

// Cluster is a connection to the servers of a cluster. Its methods are safe for concurrent use.
type Cluster struct {
	o     Options
	nc    *nats.Conn
	js    jetstream.JetStream
	found atomic.Pointer[stores]
	// changed is the version of the map after the last Change.
	changed atomic.Uint64
}

// stores are those of a cluster.
type stores struct {
	maps, nodes jetstream.KeyValue
}

// name is what names of clusters, shards and nodes consist of.
var name = regexp.MustCompile(`^[a-zA-Z0-9-]{1,32}$`)

// CheckName returns an error for names that a cluster, a shard or a node cannot have.
func CheckName(s string) error {
	if !name.MatchString(s) {
		return fmt.Errorf("the name %.40q: want 1 to 32 letters, digits or -", s)
	}
	return nil
}

// Connect connects to the servers. The cluster need not exist yet, see Create. Errors: ErrRefused,
// ErrUnreachable.
func Connect(ctx context.Context, o *Options) (*Cluster, error) {
	c := &Cluster{o: *o}
	c.o.Cluster = cmp.Or(o.Cluster, "main")
	c.o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := CheckName(c.o.Cluster); err != nil {
		return nil, err
	}
	options := []nats.Option{
		nats.Name("anndb"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.Timeout(5 * time.Second), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // what cannot be sent is an error, not a message that is sent later
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.o.Logger.Warn("connection to the log", "error", err)
		}),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	if o.Certificate != "" {
		options = append(options, nats.ClientCert(o.Certificate, o.Key))
	}
	var err error
	if c.nc, err = nats.Connect(o.URL, options...); err != nil {
		return nil, failure(err, "connect to "+withoutSecrets(o.URL))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.js, err = jetstream.New(c.nc); err == nil {
		_, err = c.js.AccountInfo(ctx)
		err = failure(err, "JetStream of "+withoutSecrets(o.URL)+" (is it enabled?)")
	}
	if err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

// withoutSecrets removes users and passwords from addresses.
func withoutSecrets(url string) string {
	return regexp.MustCompile(`//[^/@,]*@`).ReplaceAllString(url, "//")
}

// Close ends the connection.
func (c *Cluster) Close() { c.nc.Close() }

// MaxMessage returns the largest size of a message in bytes, which the servers decide (max_payload).
func (c *Cluster) MaxMessage() int { return int(c.nc.MaxPayload()) - 1<<10 } // but for headers

// stores returns the stores of the cluster. Errors: ErrNoCluster.
func (c *Cluster) stores(ctx context.Context) (*stores, error) {
	if s := c.found.Load(); s != nil {
		return s, nil
	}
	s := &stores{}
	var err error
	if s.maps, err = c.js.KeyValue(ctx, c.store("")); err == nil {
		s.nodes, err = c.leases(ctx)
	}
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, c.missing()
	case err != nil:
		return nil, failure(err, "the stores of cluster "+c.o.Cluster)
	}
	c.found.Store(s)
	return s, nil
}

func (c *Cluster) missing() error {
	return fmt.Errorf("%w: %q (make it with anndb-cluster init)", ErrNoCluster, c.o.Cluster)
}

// store returns the name of a store of the cluster.
func (c *Cluster) store(suffix string) string { return "anndb_" + c.o.Cluster + suffix }

// copies returns how many servers keep each message.
func (c *Cluster) copies() int {
	if len(c.nc.Servers()) >= 3 {
		return 3
	}
	return 1
}

// The codes of publications to a stream that is sealed, and to one that is about to be.
const (
	errSealed = 10109
	errEnding = 10054
)

// failure returns an error of a call as one of this package, with what the call was for.
func failure(err error, what string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	kind := ErrUnreachable
	var api *jetstream.APIError
	var file *fs.PathError
	switch {
	case errors.As(err, &file): // with credentials
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired),
		errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrPermissionViolation):
		kind = ErrRefused
	case errors.Is(err, nats.ErrMaxPayload):
		kind = ErrTooLarge
	case errors.As(err, &api):
		switch api.ErrorCode {
		case 10023, 10047, 10077: // resources, storage, a full stream
			kind = ErrFull
		case errSealed, errEnding:
			kind = ErrSealed
		case jetstream.JSErrCodeStreamNotFound:
			kind = ErrLogLost
		}
	}
	return fmt.Errorf("%w: %s: %w", kind, what, err)
}
