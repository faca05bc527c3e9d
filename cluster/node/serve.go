package node

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Serve serves HTTP at a listener until Close.
func (n *Node) Serve(l net.Listener) error {
	s := &http.Server{Handler: n, ReadHeaderTimeout: timeout}
	stop := context.AfterFunc(n.ctx, func() { _ = s.Close() })
	defer stop()
	return s.Serve(l)
}

// handlers returns the routes of a node besides those of files.
func (n *Node) handlers() map[string]http.Handler {
	out := map[string]http.Handler{}
	if n.o.Handlers != nil {
		for pattern, h := range n.o.Handlers(n.File) {
			out[pattern] = n.gated(h)
		}
	}
	out["GET /cluster/applied"] = server.Reply(n.applied)
	out["GET /cluster/status"] = server.Reply(func(http.ResponseWriter, *http.Request) (any, error) {
		return n.info(), nil
	})
	out["GET /cluster/built"] = server.Reply(n.built)
	out["POST /cluster/snapshot"] = server.Reply(n.snapshot)
	out["GET /readyz"] = server.Reply(n.ready)
	out["GET /v1/files"] = server.Reply(func(http.ResponseWriter, *http.Request) (any, error) {
		files := wire.Files{Files: []string{}}
		for id := range n.info().Shards {
			files.Files = append(files.Files, id)
		}
		slices.Sort(files.Files)
		return files, nil
	})
	return out
}

// fail answers with an error.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	server.Reply(func(http.ResponseWriter, *http.Request) (any, error) { return nil, err }).ServeHTTP(w, r)
}

// ServeHTTP answers requests about the files of shards by their servers, and all others.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/files/")
	if !ok || !n.admits(r) {
		n.server.ServeHTTP(w, r)
		return
	}
	shard, _, _ := strings.Cut(rest, "/")
	if !server.Reads(r) {
		fail(w, r, fmt.Errorf("%w: %s: a node is changed by the log of its shard (ask a gateway)", wire.ErrMethod,
			r.Method))
		return
	}
	o, err := n.gate(w, r, shard)
	if err != nil {
		fail(w, r, err)
		return
	}
	o.server.ServeHTTP(answering{w, n.reader(shard)}, r)
}

// answering is an answer from a file, which is replaced if the answer is that it is damaged.
type answering struct {
	http.ResponseWriter
	r *replica
}

func (w answering) Write(b []byte) (int, error) {
	if w.r != nil && bytes.HasPrefix(b, []byte(`{"error":{"code":"corrupt"`)) { // no row begins so
		w.r.mu.Lock()
		if w.r.stop != nil {
			w.r.stop(fmt.Errorf("%w: found by a read: %.400s", db.ErrCorrupt, b))
		}
		w.r.mu.Unlock()
	}
	return w.ResponseWriter.Write(b)
}

func (w answering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// admits reports whether a request has the token; the server answers to others.
func (n *Node) admits(r *http.Request) bool {
	sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return n.o.Token == "" || subtle.ConstantTimeCompare([]byte(sent), []byte(n.o.Token)) == 1
}

// gated returns a handler whose requests about a shard wait and fail as those about its file do.
func (n *Node) gated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shard := r.PathValue("shard"); shard != "" {
			if _, err := n.gate(w, r, shard); err != nil {
				fail(w, r, err)
				return
			}
			w = answering{w, n.reader(shard)}
		}
		h.ServeHTTP(w, r)
	})
}

// gate waits until a shard has applied what a request wants to see, and returns its file.
func (n *Node) gate(w http.ResponseWriter, r *http.Request, shard string) (*opened, error) {
	sequences, err := ParseSequences(r.Header.Get(SequenceHeader))
	if err != nil {
		return nil, err
	}
	log, least := sequences.newest(shard)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	rep := n.reader(shard)
	if rep == nil {
		return nil, fmt.Errorf("%w: shard %.40q is not on node %s", wire.ErrUnavailable, shard, n.o.ID)
	}
	var o *opened
	var seen position
	err = rep.wait(ctx, func() (bool, error) {
		var err error
		if o, err = rep.servingLocked(); errors.Is(err, errBetween) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		seen = o.at
		return seen.Epoch > log.Epoch && log.Epoch > 0 || seen.Epoch >= log.Epoch && seen.Sequence >= least, nil
	})
	if err != nil && r.Context().Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: shard %s on node %s has applied %d of epoch %d, not yet %d of %d",
			wire.ErrUnavailable, shard, n.o.ID, seen.Sequence, seen.Epoch, least, log.Epoch)
	}
	if err == nil {
		w.Header().Set(SequenceHeader, Sequences{Log{shard, seen.Epoch}: seen.Sequence}.String())
	}
	return o, err
}

// question is a request about a message of a shard.
type question struct {
	replica  *replica
	sequence uint64
	epoch    string // of the log that is meant; "" is the present one
}

// about returns the question of a request.
func (n *Node) about(r *http.Request) (q question, err error) {
	values := r.URL.Query()
	q.epoch = values.Get("epoch")
	if q.replica = n.replica(values.Get("shard")); q.replica == nil {
		return q, fmt.Errorf("%w: shard %.40q is not on node %s", wire.ErrUnavailable, values.Get("shard"), n.o.ID)
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
		select {
		case <-ctx.Done():
			return out, nil
		case <-time.After(timeout / 300):
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
		{"last", "Sequence of the last known message of the log.", func(s *shardlog.Status) uint64 { return s.Last }},
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
	rep := n.replica(r.URL.Query().Get("shard"))
	if rep == nil {
		return nil, fmt.Errorf("%w: shard %.40q is not on node %s", wire.ErrUnavailable,
			r.URL.Query().Get("shard"), n.o.ID)
	}
	if err := rep.takeSnapshot(n.ctx); err != nil { // also if the request ends
		return nil, err
	}
	return rep.state(), nil
}
