package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// Applied is the answer to the question whether a message has been applied.
type Applied struct {
	Applied uint64 `json:"applied"` // the last sequence that has been
	// Known reports whether the result of the message is: the versions of the rows, or the error for which it
	// was refused.
	Known    bool        `json:"known"`
	Versions []string    `json:"versions,omitempty"`
	Error    *wire.Error `json:"error,omitempty"`
}

// Serve serves HTTP at a listener until Close, and then returns http.ErrServerClosed.
func (n *Node) Serve(l net.Listener) error { return n.server.Serve(l) }

// handlers returns the routes of a node besides those of files.
func (n *Node) handlers() map[string]http.Handler {
	out := map[string]http.Handler{
		"GET /cluster/applied":   server.Reply(n.applied),
		"GET /cluster/built":     server.Reply(n.built),
		"POST /cluster/snapshot": server.Reply(n.snapshot),
		"GET /cluster/status": server.Reply(func(http.ResponseWriter, *http.Request) (any, error) {
			return n.info(), nil
		}),
		"GET /readyz": server.Reply(n.ready),
		"GET /v1/files": server.Reply(func(http.ResponseWriter, *http.Request) (any, error) {
			return wire.Files{Files: slices.Sorted(maps.Keys(n.info().Shards))}, nil
		}),
	}
	if n.o.Handlers != nil {
		maps.Copy(out, n.o.Handlers(n.find))
	}
	return out
}

// file returns the file of a shard for a request that reads it.
func (n *Node) file(w http.ResponseWriter, r *http.Request, shard string) (*db.DB, error) {
	if !server.Reads(r) {
		return nil, fmt.Errorf("%w: %s: a node is changed by the log of its shard (ask a gateway)", wire.ErrMethod,
			r.Method)
	}
	return n.find(w, r, shard)
}

// find returns the file of a shard once it has applied what a request wants to see.
func (n *Node) find(w http.ResponseWriter, r *http.Request, shard string) (*db.DB, error) {
	sequences, err := ParseSequences(r.Header.Get(SequenceHeader))
	if err != nil {
		return nil, err
	}
	log, least := sequences.newest(shard)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	rep := n.reader(shard)
	if rep == nil {
		return nil, n.unknown(shard)
	}
	var file *db.DB
	var seen position
	err = rep.wait(ctx, func() (bool, error) {
		o, err := rep.servingLocked()
		if errors.Is(err, errBetween) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		file, seen = o.file, o.at
		return seen.Epoch > log.Epoch && log.Epoch > 0 || seen.Epoch >= log.Epoch && seen.Sequence >= least, nil
	})
	if err != nil && r.Context().Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: shard %s on node %s has applied %d of epoch %d, not yet %d of %d",
			wire.ErrUnavailable, shard, n.o.ID, seen.Sequence, seen.Epoch, least, log.Epoch)
	}
	if err == nil {
		w.Header().Set(SequenceHeader, Sequences{Log{shard, seen.Epoch}: seen.Sequence}.String())
	}
	return file, err
}

// failed has a file replaced if an answer from it is that it is damaged.
func (n *Node) failed(r *http.Request, err error) {
	rep := n.reader(cmp.Or(r.PathValue("file"), r.PathValue("shard")))
	if rep == nil || !errors.Is(err, db.ErrCorrupt) {
		return
	}
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if rep.stop != nil {
		rep.stop(fmt.Errorf("found by a read: %w", err))
	}
}

// unknown is the error of a request about a shard that the node does not have.
func (n *Node) unknown(shard string) error {
	return fmt.Errorf("%w: shard %.40q is not on node %s", wire.ErrUnavailable, shard, n.o.ID)
}

// question is a request about a message of a shard.
type question struct {
	replica  *replica
	sequence uint64
	epoch    string // of the log that is meant; "" is the present one
}

// named returns the replica that a request names.
func (n *Node) named(r *http.Request) (*replica, error) {
	shard := r.URL.Query().Get("shard")
	if rep := n.replica(shard); rep != nil {
		return rep, nil
	}
	return nil, n.unknown(shard)
}

// about returns the question of a request.
func (n *Node) about(r *http.Request) (q question, err error) {
	values := r.URL.Query()
	q.epoch = values.Get("epoch")
	if q.replica, err = n.named(r); err != nil {
		return q, err
	}
	if q.sequence, err = strconv.ParseUint(values.Get("sequence"), 10, 64); err != nil {
		err = fmt.Errorf("%w: sequence=%.40q, want a number", db.ErrInvalid, values.Get("sequence"))
	}
	return q, err
}

// wait waits until the message has been applied, and calls f with the replica's lock held.
func (q *question) wait(ctx context.Context, f func(o *opened)) error {
	return q.replica.wait(ctx, func() (bool, error) {
		o, err := q.replica.servingLocked()
		if errors.Is(err, errBetween) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if q.epoch != "" && q.epoch != strconv.Itoa(o.at.Epoch) {
			return false, fmt.Errorf("%w: shard %s is in epoch %d", wire.ErrUnavailable, q.replica.id, o.at.Epoch)
		}
		if o.at.Sequence < q.sequence {
			return false, nil
		}
		f(o)
		return true, nil
	})
}

// applied waits until a message has been applied.
func (n *Node) applied(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := n.about(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var out Applied
	err = q.wait(ctx, func(o *opened) {
		out.Applied, out.Error = o.at.Sequence, o.refused[q.sequence]
		out.Versions, out.Known = q.replica.results[q.sequence]
		out.Known = out.Known || out.Error != nil
	})
	return out, err
}

// built waits until what a message wants of an index has been done.
func (n *Node) built(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := n.about(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		var file *opened
		if err := q.wait(ctx, func(o *opened) { file = o }); err != nil {
			return nil, err
		}
		out, err := file.ended(q.sequence)
		if err != nil || out.Known {
			return out, err
		}
		if shardlog.Pause(ctx, timeout/300) != nil {
			return out, nil
		}
	}
}

// ready fails unless the node serves all of its shards, without an error.
func (n *Node) ready(http.ResponseWriter, *http.Request) (any, error) {
	for id, s := range n.info().Shards {
		if s.State != shardlog.Following || s.Error != "" {
			return nil, fmt.Errorf("%w: shard %s on node %s: %s %s", wire.ErrUnavailable, id, n.o.ID, s.State, s.Error)
		}
	}
	return map[string]string{"status": "ok"}, nil
}

// metrics writes what the replicas have applied, in the text format of Prometheus.
func (n *Node) metrics(w io.Writer) {
	shards := n.info().Shards
	for _, m := range []struct {
		name, help string
		value      func(*shardlog.Status) uint64
	}{
		{"behind", "Messages of the log that the shard has not applied.", (*shardlog.Status).Behind},
		{"applied", "Sequence of the last applied message.", func(s *shardlog.Status) uint64 { return s.Sequence }},
		{"last", "Sequence of the last known message of the log.",
			func(s *shardlog.Status) uint64 { return s.Last }},
	} {
		fmt.Fprintf(w, "# HELP anndb_shard_%s %s\n# TYPE anndb_shard_%s gauge\n", m.name, m.help, m.name)
		for _, id := range slices.Sorted(maps.Keys(shards)) {
			s := shards[id]
			fmt.Fprintf(w, "anndb_shard_%s{shard=%q} %d\n", m.name, id, m.value(&s))
		}
	}
}

// snapshot stores one now.
func (n *Node) snapshot(_ http.ResponseWriter, r *http.Request) (any, error) {
	rep, err := n.named(r)
	if err != nil {
		return nil, err
	}
	err = rep.takeSnapshot(n.ctx) // also if the request ends
	return rep.state(), err
}
