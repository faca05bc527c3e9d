package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// duty is what a replica is for.
type duty struct {
	shard  shardlog.Shard
	parent *shardlog.Shard // of a part of a split: the shard whose log it follows until the part has its own
}

// log returns the shard whose log the replica follows.
func (d *duty) log() *shardlog.Shard {
	if d.parent != nil {
		return d.parent
	}
	return &d.shard
}

// replica is the copy of a shard on this node.
type replica struct {
	n      *Node
	id     string
	logger *slog.Logger
	cancel context.CancelFunc // ends the replica

	// snapshotting is held while a snapshot is stored.
	snapshotting sync.Mutex

	mu      sync.Mutex
	duty    duty
	stop    context.CancelCauseFunc // ends the present round of work with an error
	open    *opened                 // nil while there is no file; only run changes it
	results map[uint64][]string
	last    uint64             // sequence of the log
	size    uint64             // of the log, in bytes
	newest  *shardlog.Snapshot // of the epoch, nil if none is known
	indexed bool               // an index has been built that no snapshot may have
	status  string
	lost    bool
	err     error
	moved   chan struct{} // closed when any of this changes
}

// opened is an open file.
type opened struct {
	file *db.DB
	at   position
	// refused are the messages that changed nothing, with their errors, of the last refusedWindow.
	refused map[uint64]*wire.Error
}

func newReplica(n *Node, d duty) *replica {
	r := &replica{
		n: n, id: d.shard.ID, logger: n.o.Logger.With("shard", d.shard.ID), duty: d, status: shardlog.Restoring,
		results: map[uint64][]string{}, moved: make(chan struct{}),
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(n.ctx)
	n.work.Go(func() { r.run(ctx) })
	n.work.Go(func() { r.keepSnapshots(ctx) })
	n.work.Go(func() { r.keepIndexes(ctx) })
	return r
}

// set gives the replica another duty.
func (r *replica) set(d duty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.DeepEqual(r.duty, d) {
		return
	}
	r.duty = d
	// What reads the log of the shard, or that of its parent to the end, continues.
	reads := r.open != nil && (r.open.at.of(&d.shard) ||
		d.parent != nil && d.shard.Base != nil && r.open.at.of(d.parent) && !r.atBase())
	if r.stop != nil && !reads {
		r.stop(errDuty)
	}
	r.wake()
}

// errDuty ends a round, after which the next one has another duty.
var errDuty = errors.New("another duty")

// atBase reports whether the file has all that precedes the log of its shard. r.mu is held.
func (r *replica) atBase() bool {
	return r.open != nil && r.duty.shard.Base != nil && r.open.at.Position == *r.duty.shard.Base
}

// end ends the replica, whose file is then deleted.
func (r *replica) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.duty = duty{}
	r.cancel()
}

// wake has all see that the replica has changed. r.mu is held.
func (r *replica) wake() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// change changes the replica by a function.
func (r *replica) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.wake()
}

// wait returns once a condition holds, or fails. The condition is called with r.mu held.
func (r *replica) wait(ctx context.Context, done func() (bool, error)) error {
	for {
		r.mu.Lock()
		ok, err := done()
		moved := r.moved
		r.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

func (r *replica) state() shardlog.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := shardlog.Status{Last: r.last, State: r.status, Lost: r.lost}
	if r.open != nil {
		s.Position, s.Foreign = r.open.at.Position, r.open.at.Foreign
	}
	if r.newest != nil {
		s.Snapshot = r.newest.Sequence
	}
	if r.err != nil {
		s.Error = r.err.Error()
	}
	return s
}

// serving returns the open file as it is now, and its shard, if the replica may answer from it.
func (r *replica) serving() (now opened, s shardlog.Shard, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.servingLocked()
	if err == nil {
		now = *o
	}
	return now, r.duty.shard, err
}

// errBetween: a part of a split, or a shard that was recovered, changes to its own log, which takes a moment.
var errBetween = errors.New("between two logs")

func (r *replica) servingLocked() (*opened, error) {
	switch {
	case r.open == nil || r.status != shardlog.Following:
		why := r.status
		if r.err != nil {
			why = r.err.Error() // not wrapped: it is no error of the request, such as new damage
		}
		return nil, fmt.Errorf("%w: shard %s on node %s: %s", wire.ErrUnavailable, r.id, r.n.o.ID, why)
	case !r.open.at.of(&r.duty.shard):
		return nil, fmt.Errorf("%w: shard %s on node %s: %w", wire.ErrUnavailable, r.id, r.n.o.ID, errBetween)
	}
	return r.open, nil
}

// path is that of the file.
func (r *replica) path() string { return filepath.Join(r.n.o.Folder, r.id+".anndb") }

// run works for the shard until the replica ends. Errors are shown and what failed is tried again.
func (r *replica) run(ctx context.Context) {
	defer r.leave()
	for wait := minWait; ctx.Err() == nil; {
		round, stop := context.WithCancelCause(ctx)
		r.mu.Lock()
		d := r.duty
		r.stop = stop
		r.mu.Unlock()
		began := time.Now()
		err := r.work(round, stop, d)
		if cause := context.Cause(round); cause != nil {
			err = cause
		}
		stop(nil)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errDuty) {
			continue
		}
		if time.Since(began) > 10*maxWait {
			wait = minWait
		}
		r.failed(err)
		_ = shardlog.Pause(ctx, wait)
		wait = min(2*wait, maxWait)
	}
}

// The time after which what failed is tried again, and how long requests wait.
const (
	minWait = 20 * time.Millisecond // servers may not know of a consumer yet that others have made
	maxWait = 2 * time.Second
	// timeout bounds how long a request waits for a message to be applied.
	timeout = 30 * time.Second
)

// failed shows the error of a round, and closes the file if it can be neither read nor written any more.
func (r *replica) failed(err error) {
	unusable := errors.Is(err, db.ErrUnknownState) || errors.Is(err, db.ErrReplaced) ||
		errors.Is(err, db.ErrCorrupt) ||
		errors.Is(err, db.ErrClosed) || errors.Is(err, errWrongFile)
	if unusable {
		r.close()
	}
	r.mu.Lock()
	r.err, r.lost = err, errors.Is(err, shardlog.ErrLogLost) && r.open != nil
	if r.lost {
		r.status = shardlog.Stopped
	}
	r.wake()
	r.mu.Unlock()
	r.n.tell()
	r.logger.Error("replica", "error", err)
	if errors.Is(err, db.ErrCorrupt) || errors.Is(err, db.ErrNotDatabase) {
		// The others have what it had; it is kept for an inspection.
		if err := os.Rename(r.path(), r.path()+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.logger.Error("put the damaged file aside", "error", err)
		}
	}
}

// leave closes the file, and puts it aside if the shard is not on this node any more.
func (r *replica) leave() {
	r.close()
	r.mu.Lock()
	gone := r.duty.shard.ID == ""
	r.mu.Unlock()
	if gone {
		r.n.putAside(r.path())
	}
}

// close closes the file if it is open.
func (r *replica) close() {
	r.mu.Lock()
	o := r.open
	r.open, r.results = nil, map[uint64][]string{}
	if r.status == shardlog.Following {
		r.status = shardlog.Restoring
	}
	r.wake()
	r.mu.Unlock()
	if o != nil {
		if err := o.file.Close(); err != nil {
			r.logger.Warn("close", "error", err)
		}
	}
}

// work opens the file, brings it to the log of the duty, and applies that. It returns when something fails.
func (r *replica) work(ctx context.Context, stop context.CancelCauseFunc, d duty) error {
	if err := r.prepare(ctx, &d); err != nil {
		return err
	}
	if at := r.at(); at.of(&d.shard) {
		d.parent = nil
	}
	log, err := r.n.c.OpenLog(ctx, d.log())
	if err != nil {
		return err
	}
	err = r.check(ctx, log)
	if errors.Is(err, shardlog.ErrBehind) {
		r.logger.Warn("the log has been cut", "error", err)
		if d.parent != nil { // made again
			r.close()
			return errors.Join(err, os.Remove(r.path()))
		}
		if err = r.restore(ctx, &d.shard); err == nil {
			err = r.check(ctx, log)
			if errors.Is(err, shardlog.ErrBehind) { // a server has lost messages that no snapshot has
				err = errors.Join(err, r.requestSnapshot(ctx, &d.shard))
			}
		}
	}
	if err != nil {
		return err
	}
	at := r.at().Sequence
	r.change(func() {
		r.status, r.lost = shardlog.Following, false
		if at >= r.last { // otherwise what failed may fail again
			r.err = nil
		}
		if r.atBase() { // the log of the parent has ended since
			stop(errDuty)
		}
	})
	r.n.tell()
	r.n.work.Go(func() { r.watch(ctx, log, stop) })
	return log.Read(ctx, at, func(entries []shardlog.Entry) error {
		err := r.apply(ctx, &d, entries)
		if d.parent != nil {
			r.rest(ctx)
		}
		return err
	})
}

// at returns the position of the open file.
func (r *replica) at() position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return position{}
	}
	return r.open.at
}

// check compares the log with what the file has. It looks several times before it says that messages are
// lost: a server that has just become the leader may not have read all of its own log yet.
func (r *replica) check(ctx context.Context, log *shardlog.Log) error {
	for try := 0; ; try++ {
		at := r.at()
		now, err := log.Check(ctx, at.Sequence, at.Mark)
		if err == nil {
			r.change(func() { r.last, r.size = now.Last, now.Bytes })
		}
		if !errors.Is(err, shardlog.ErrLogLost) || try == 3 {
			return err
		}
		if err := shardlog.Pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// watch checks the log every second, and ends the round if it has lost messages or was changed.
func (r *replica) watch(ctx context.Context, log *shardlog.Log, stop context.CancelCauseFunc) {
	for shardlog.Pause(ctx, time.Second) == nil {
		err := r.check(ctx, log)
		if errors.Is(err, shardlog.ErrLogLost) || errors.Is(err, shardlog.ErrChanged) {
			stop(err)
		}
	}
}

// errWrongFile: a file is not that of the shard.
var errWrongFile = errors.New("the file belongs to another shard")

// prepare opens the file and brings it to a position in the log of the duty.
func (r *replica) prepare(ctx context.Context, d *duty) error {
	if r.at().Shard == "" {
		_, err := os.Stat(r.path())
		if errors.Is(err, fs.ErrNotExist) { // unless the shard has come back
			err = os.Rename(r.path()+left, r.path())
		}
		if err == nil {
			err = r.openFile(ctx)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	at := r.at()
	base := d.shard.Base
	if at.Shard != "" && d.parent != nil && base == nil && !at.of(d.parent) { // which was recovered: made again
		r.close()
		if err := os.Remove(r.path()); err != nil {
			return err
		}
		at = position{}
	}
	if at.Shard == "" && d.parent != nil && d.parent.On(r.n.o.ID) {
		if err := r.part(ctx, d); err != nil {
			return err
		}
		at = r.at()
	}
	switch {
	case at.of(&d.shard), d.parent != nil && at.of(d.parent) && (base == nil || at.Sequence < base.Sequence):
		return nil
	case at.Shard == "" && base == nil:
		return r.begin(ctx, &d.shard)
	case base != nil && at.Position == *base:
		return r.moveTo(ctx, shardlog.Position{Shard: d.shard.ID, Epoch: d.shard.Epoch})
	case at.Shard == d.shard.ID && at.Epoch > d.shard.Epoch:
		return fmt.Errorf("shard %s: the file is of epoch %d, the map of epoch %d", r.id, at.Epoch, d.shard.Epoch)
	}
	return r.restore(ctx, &d.shard)
}

// begin restores a snapshot, or begins with an empty file if there is none and the log has all.
func (r *replica) begin(ctx context.Context, s *shardlog.Shard) error {
	snapshots, err := r.n.c.Snapshots(ctx, s.ID)
	if err != nil {
		return err
	}
	if len(snapshots) > 0 {
		return r.restore(ctx, s)
	}
	log, err := r.n.c.OpenLog(ctx, s)
	if err != nil {
		return err
	}
	if now, err := log.State(ctx); err != nil || now.First > 1 {
		return errors.Join(err, r.restore(ctx, s))
	}
	return r.create(ctx, shardlog.Position{Shard: s.ID, Epoch: s.Epoch})
}
