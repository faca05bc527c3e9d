package shardlog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/anndb/anndb/cluster/clustertest"
	"github.com/anndb/anndb/cluster/shardlog"
)

func message(i int) *shardlog.Message { return &shardlog.Message{Drop: fmt.Sprint("c", i)} }

// publish publishes a message until it is known whether the log has it.
func publish(ctx context.Context, c *shardlog.Cluster, s *shardlog.Shard, id string, m *shardlog.Message) (n uint64,
	err error) {
	for {
		if n, err = c.Publish(ctx, s, id, m); !errors.Is(err, shardlog.ErrUnknown) || ctx.Err() != nil {
			return n, err
		}
	}
}

// TestLog publishes messages to a log, some of them twice, and reads them.
func TestLog(t *testing.T) {
	servers := clustertest.Start(t, 1)
	c := servers.Connect("a")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := c.Map(ctx); !errors.Is(err, shardlog.ErrNoCluster) {
		t.Fatalf("no cluster: %v", err)
	}
	m, err := c.Create(ctx, shardlog.Ranges(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, shardlog.Ranges(2)); !errors.Is(err, shardlog.ErrExists) {
		t.Fatalf("again: %v", err)
	}
	s := &m.Shards[0]
	for i := range 500 {
		for range 1 + i%2 {
			sequence, err := publish(ctx, c, s, fmt.Sprint(i), message(i))
			if err != nil || sequence != uint64(i+1) {
				t.Fatalf("message %d has sequence %d, %v", i, sequence, err)
			}
		}
	}
	l, err := c.OpenLog(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var mark shardlog.Mark
	next := uint64(101)
	err = l.Read(ctx, 100, func(entries []shardlog.Entry) error {
		for _, e := range entries {
			if e.Sequence != next || e.Drop != fmt.Sprint("c", next-1) || e.Err != nil {
				t.Errorf("entry %d: %+v", next, e)
			}
			mark = e.Mark
			next++
		}
		if next > 500 {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Fatal(err)
	}
	if now, err := l.Check(ctx, 500, mark); now.Last != 500 || err != nil {
		t.Errorf("check: %+v, %v", now, err)
	}
	if _, err := l.Check(ctx, 500, shardlog.Mark{}); !errors.Is(err, shardlog.ErrLogLost) {
		t.Errorf("another mark: %v", err)
	}
	if _, err := l.Check(ctx, 501, mark); !errors.Is(err, shardlog.ErrLogLost) {
		t.Errorf("a sequence too many: %v", err)
	}
	if err := l.Purge(ctx, 200); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Check(ctx, 199, shardlog.Mark{}); !errors.Is(err, shardlog.ErrBehind) {
		t.Errorf("purged: %v", err)
	}
	if _, err := l.Check(ctx, 200, shardlog.Mark{}); err != nil {
		t.Errorf("the last one purged: %v", err)
	}
	random := make([]byte, 9<<20)
	_, _ = rand.Read(random)
	large := &shardlog.Message{Drop: hex.EncodeToString(random)}
	if _, err := c.Publish(ctx, s, "large", large); !errors.Is(err, shardlog.ErrTooLarge) {
		t.Errorf("large: %v", err)
	}
	if sequence, found, err := c.Find(ctx, s, "490"); sequence != 491 || !found || err != nil {
		t.Errorf("find: %d, %v, %v", sequence, found, err)
	}
	if _, found, err := c.Find(ctx, s, "none"); found || err != nil {
		t.Errorf("find: %v, %v", found, err)
	}
	for range 2 {
		if final, err := c.Seal(ctx, s); final != 501 || err != nil { // with the message that ends it
			t.Errorf("seal: %d, %v", final, err)
		}
	}
	if _, err := publish(ctx, c, s, "late", message(1)); !errors.Is(err, shardlog.ErrSealed) {
		t.Errorf("sealed: %v", err)
	}
	if err := c.DeleteLog(ctx, &m.Shards[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(ctx, c, &m.Shards[1], "x", message(1)); !errors.Is(err, shardlog.ErrLogLost) {
		t.Errorf("no log: %v", err)
	}
	_, err = shardlog.Connect(ctx, &shardlog.Options{URL: servers.URLWith("anndb:wrong")})
	if !errors.Is(err, shardlog.ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestSeal seals a log with three copies while others write to it: nothing is stored after its last message,
// and what was acknowledged is before that.
func TestSeal(t *testing.T) {
	servers := clustertest.Start(t, 3)
	c := servers.Connect("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var s shardlog.Shard
	for s.ID == "" {
		m, err := c.Create(ctx, shardlog.Ranges(1))
		if err == nil || errors.Is(err, shardlog.ErrExists) {
			s = m.Shards[0]
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	var writers sync.WaitGroup
	var most, stored atomic.Uint64
	for w := range 16 {
		writers.Go(func() {
			for i := 0; ; i++ {
				n, err := publish(ctx, c, &s, fmt.Sprint(w, "-", i), message(i))
				if errors.Is(err, shardlog.ErrSealed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				stored.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
			}
		})
	}
	for stored.Load() < 200 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	final, err := c.Seal(ctx, &s)
	if err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	l, err := c.OpenLog(ctx, &s)
	if err != nil {
		t.Fatal(err)
	}
	now, err := l.State(ctx)
	if err != nil || now.Last != final || most.Load() >= final {
		t.Errorf("the last message is %d, %v, the last acknowledged one %d, want %d as the end", now.Last, err, most.Load(), final)
	}
	// A consumer may not be known yet to the server that is asked for its messages.
	for err = shardlog.ErrUnreachable; errors.Is(err, shardlog.ErrUnreachable) && ctx.Err() == nil; {
		err = l.Read(ctx, final-1, func(entries []shardlog.Entry) error {
			if e := entries[0]; e.Err != nil || e.Foreign || e.Sequence != final {
				t.Errorf("the end: %+v", e)
			}
			return io.EOF
		})
	}
	if err != io.EOF {
		t.Error(err)
	}
}

// TestSilence has a server that sends heartbeats and no message, as one does that cannot read its own log:
// reading ends with an error, and begun again it gets the message.
func TestSilence(t *testing.T) {
	servers := clustertest.Start(t, 1)
	c, js := servers.Connect("a"), servers.JetStream()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := c.Create(ctx, shardlog.Ranges(1))
	if err != nil {
		t.Fatal(err)
	}
	s := &m.Shards[0]
	publish := func(i int) {
		if _, err := publish(ctx, c, s, fmt.Sprint(i), message(i)); err != nil {
			t.Error(err)
		}
	}
	l, err := c.OpenLog(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	publish(1)
	err = l.Read(ctx, 0, func([]shardlog.Entry) error {
		for info := range js.StreamNames(ctx).Name() {
			stream, err := js.Stream(ctx, info)
			if err != nil {
				return err
			}
			for name := range stream.ConsumerNames(ctx).Name() {
				if _, err := stream.PauseConsumer(ctx, name, time.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
		}
		publish(2)
		return nil
	})
	if !errors.Is(err, shardlog.ErrUnreachable) || !strings.Contains(err.Error(), "message 2 does not arrive") {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = l.Read(ctx, 1, func(entries []shardlog.Entry) error {
		if len(entries) != 1 || entries[0].Drop != "c2" {
			t.Errorf("%+v", entries)
		}
		return enough
	})
	if err != enough {
		t.Error(err)
	}
}

// slowly is a disk that takes a second for each part of a snapshot.
type slowly struct{ size int }

func (w *slowly) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * time.Second / (256 << 10))
	w.size += len(p)
	return len(p), nil
}

// TestSlowSnapshot stores a snapshot in few messages, though a backup writes little at once, and reads it for longer
// than a request may take.
func TestSlowSnapshot(t *testing.T) {
	t.Parallel()
	servers := clustertest.Start(t, 1)
	c := servers.Connect("a")
	if _, err := c.Create(t.Context(), shardlog.Ranges(1)); err != nil {
		t.Fatal(err)
	}
	s := shardlog.Snapshot{Shard: "0", Epoch: 1, Sequence: 1, Bytes: 2 << 20}
	backup := iotest.OneByteReader(bytes.NewReader(make([]byte, s.Bytes)))
	if err := c.PutSnapshot(t.Context(), &s, backup); err != nil {
		t.Fatal(err)
	}
	store, err := servers.JetStream().ObjectStore(t.Context(), "anndb_a_snapshots")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := store.GetInfo(t.Context(), "0/1/1"); err != nil || info.Chunks != 8 {
		t.Errorf("%+v, %v", info, err)
	}
	var w slowly
	ctx, cancel := context.WithCancel(t.Context()) // as a node has one
	defer cancel()
	if err := c.GetSnapshot(ctx, &s, &w); err != nil || w.size != 2<<20 {
		t.Errorf("%d bytes: %v", w.size, err)
	}
	// Of 40 parts at most 32 are sent before the servers have stored them, and a message says that they have.
	s.Sequence++
	if err := c.PutSnapshot(t.Context(), &s, bytes.NewReader(make([]byte, 10<<20))); err != nil {
		t.Fatal(err)
	}
	stream, err := servers.JetStream().Stream(t.Context(), "OBJ_anndb_a_snapshots")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), "$O.anndb_a_snapshots.C.pace"); err != nil || len(m.Data) > 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestMapChanges has several writers change the map at the same time.
func TestMapChanges(t *testing.T) {
	servers := clustertest.Start(t, 3) // which refuse a change of another version by an error of their own
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := servers.Connect("a")
	for _, err := c.Create(ctx, shardlog.Ranges(1)); err != nil && !errors.Is(err, shardlog.ErrExists); {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		_, err = c.Create(ctx, shardlog.Ranges(1))
	}
	const writers, each = 4, 10
	done := make(chan error)
	for i := range writers {
		go func() {
			own := servers.Connect("a")
			var err error
			for j := 0; j < each && err == nil; j++ {
				_, err = own.Change(ctx, func(m *shardlog.Map) error {
					m.Shards[0].Joining = append(m.Shards[0].Joining, fmt.Sprint(i, "-", j))
					return nil
				})
			}
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	last := 0
	err := c.Watch(ctx, func(m shardlog.Map) bool {
		last = len(m.Shards[0].Joining)
		return last < writers*each
	})
	if err != nil || last != writers*each {
		t.Errorf("%d changes, %v", last, err)
	}
	if _, err := c.Change(ctx, func(m *shardlog.Map) error { m.Shards[0].First = 1; return nil }); err == nil {
		t.Error("a map with a gap is stored")
	}
	err = c.Announce(ctx, &shardlog.NodeInfo{ID: "n", Address: "http://x",
		Shards: map[string]shardlog.Status{"0": {Last: 7}}})
	nodes, listErr := c.Nodes(ctx)
	if err != nil || listErr != nil || len(nodes) != 1 || nodes[0].Shards["0"].Last != 7 {
		t.Errorf("%v, %v, %v", nodes, err, listErr)
	}
}
