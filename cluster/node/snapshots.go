package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// restore replaces the file by the newest snapshot of the shard that is not damaged.
func (r *replica) restore(ctx context.Context, s *shardlog.Shard) error {
	snapshots, err := r.n.c.Snapshots(ctx, s.ID)
	if err != nil {
		return err
	}
	snapshots = slices.DeleteFunc(snapshots, func(x shardlog.Snapshot) bool {
		return x.Epoch != s.Epoch && !(s.Base != nil && s.Base.Shard == s.ID && s.Base.Epoch == x.Epoch &&
			s.Base.Sequence == x.Sequence)
	})
	for i := range snapshots {
		err := r.restoreOne(ctx, &snapshots[i])
		switch {
		case err == nil:
			return r.prepare(ctx, &duty{shard: *s}) // which may be that of the log before
		case !errors.Is(err, shardlog.ErrCorrupt) && !errors.Is(err, db.ErrCorrupt) &&
			!errors.Is(err, db.ErrNotDatabase):
			return err
		}
		r.logger.Error("a snapshot is damaged", "shard", s.ID, "sequence", snapshots[i].Sequence, "error", err)
	}
	failed := fmt.Errorf("%w: shard %s has no valid snapshot of epoch %d yet", shardlog.ErrBehind, s.ID, s.Epoch)
	return errors.Join(failed, r.requestSnapshot(ctx, s))
}

// requestSnapshot has another replica store a snapshot, so that a later try can restore it.
func (r *replica) requestSnapshot(ctx context.Context, s *shardlog.Shard) error {
	nodes, err := r.n.c.Nodes(ctx)
	for _, x := range nodes {
		if st := x.Shards[s.ID]; x.ID == r.n.o.ID || st.State != shardlog.Following || st.Epoch != s.Epoch {
			continue
		}
		bad := r.requestFrom(ctx, x.Address)
		if bad == nil {
			return nil
		}
		err = errors.Join(err, fmt.Errorf("node %s stores no snapshot: %w", x.ID, bad))
	}
	return err
}

// requestFrom has a node store a snapshot, which continues if it takes longer than timeout.
func (r *replica) requestFrom(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/cluster/snapshot?shard="+r.id, nil)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+r.n.o.Token)
	answer, err := r.n.o.HTTP.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
		return errors.New(answer.Status)
	}
	return nil
}

// restoreOne replaces the file by a snapshot.
func (r *replica) restoreOne(ctx context.Context, s *shardlog.Snapshot) error {
	r.logger.Info("restore", "snapshot", s.Sequence, "bytes", s.Bytes)
	return r.replace(ctx, func(path string) error {
		backup := r.path() + ".snapshot"
		defer os.Remove(backup)
		w, err := os.Create(backup)
		if err != nil {
			return err
		}
		if err := errors.Join(r.n.c.GetSnapshot(ctx, s, w), w.Close()); err != nil {
			return err
		}
		return db.Restore(ctx, backup, path, false)
	})
}

// keepSnapshots stores snapshots until the replica ends.
func (r *replica) keepSnapshots(ctx context.Context) {
	for shardlog.Pause(ctx, time.Second) == nil {
		due, err := r.due(ctx)
		if err == nil && due {
			err = r.takeSnapshot(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.logger.Warn("snapshot", "error", err)
			_ = shardlog.Pause(ctx, 10*time.Second)
		}
	}
}

// due reports whether it is this node's turn to store a snapshot: that of the first replica that lives.
func (r *replica) due(ctx context.Context) (bool, error) {
	o, s, err := r.serving()
	if err != nil || !r.enough(&s, o.at.Sequence) {
		return false, nil
	}
	// Another node may have stored one.
	list, err := r.n.c.Snapshots(ctx, s.ID)
	if err != nil {
		return false, err
	}
	if len(list) > 0 && list[0].Epoch == s.Epoch {
		r.change(func() { r.newest = &list[0] })
	}
	if !r.enough(&s, o.at.Sequence) {
		return false, nil
	}
	nodes, err := r.n.c.Nodes(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range s.Replicas {
		if id == r.n.o.ID {
			return true, nil
		}
		if slices.ContainsFunc(nodes, func(x shardlog.NodeInfo) bool {
			return x.ID == id && x.Shards[s.ID].State == shardlog.Following && x.Shards[s.ID].Epoch == s.Epoch
		}) {
			r.change(func() { r.indexed = false }) // the other one builds it as well
			return false, nil
		}
	}
	return false, nil // this one is only joining
}

// enough reports whether there is much more in the file than in the newest snapshot that is known:
// messages, or an index, which a node that restores the snapshot need not build.
func (r *replica) enough(s *shardlog.Shard, sequence uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := uint64(0)
	switch {
	case r.indexed || s.Parent != nil:
		return true
	case r.newest != nil:
		from = r.newest.Sequence
	case s.Base != nil: // what the log continues is in no snapshot
		return true
	}
	return sequence > from && (sequence >= from+r.n.o.SnapshotMessages || r.size >= r.n.o.SnapshotBytes)
}

// takeSnapshot stores the present state of the file in the object store, deletes all but the two newest
// snapshots, and the messages of the log that are in both. Errors: wire.ErrBusy if another call is at it.
func (r *replica) takeSnapshot(ctx context.Context) error {
	if !r.snapshotting.TryLock() {
		return fmt.Errorf("%w: a snapshot of shard %s is being stored", wire.ErrBusy, r.id)
	}
	defer r.snapshotting.Unlock()
	o, s, err := r.serving()
	if err != nil {
		return err
	}
	// Messages that are applied before the backup begins are in it as well, with its position.
	snapshot := shardlog.Snapshot{Shard: s.ID, Epoch: o.at.Epoch, Sequence: o.at.Sequence}
	var indexed bool
	r.change(func() { indexed, r.indexed = r.indexed, false })
	read, write := io.Pipe()
	r.n.work.Go(func() {
		_, err := o.file.Backup(ctx, write)
		_ = write.CloseWithError(err)
	})
	err = r.n.c.PutSnapshot(ctx, &snapshot, read)
	_ = read.CloseWithError(err)
	if err != nil {
		r.change(func() { r.indexed = r.indexed || indexed })
		return err
	}
	r.change(func() { r.newest = &snapshot })
	if s.Parent != nil { // replicas that do not have all of its log yet can restore the snapshot
		_, err := r.n.c.Change(ctx, func(m *shardlog.Map) error {
			if now := m.Shard(s.ID); now != nil {
				now.Parent = nil
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.logger.Info("snapshot", "sequence", snapshot.Sequence)
	err = r.cut(ctx, &s)
	r.change(func() { r.size = 0 }) // until the next look
	return err
}

// cut deletes all snapshots of a shard but the newest two of the epoch, and what they make unnecessary: the
// messages that are in both, and the log before.
func (r *replica) cut(ctx context.Context, s *shardlog.Shard) error {
	list, err := r.n.c.Snapshots(ctx, s.ID)
	if err != nil || len(list) < 2 || list[1].Epoch != s.Epoch {
		return err
	}
	old := list[2:]
	if s.Base != nil && s.Base.Shard != s.ID { // of the shard that was split
		before, err := r.n.c.Snapshots(ctx, s.Base.Shard)
		if err != nil {
			return err
		}
		old = append(old, before...)
	}
	for i := range old {
		if err := r.n.c.DeleteSnapshot(ctx, &old[i]); err != nil {
			return err
		}
	}
	if s.Base != nil {
		before := shardlog.Shard{ID: s.Base.Shard, Epoch: s.Base.Epoch}
		if err := r.n.c.DeleteLog(ctx, &before); err != nil {
			return err
		}
	}
	log, err := r.n.c.OpenLog(ctx, s)
	if err != nil {
		return err
	}
	return log.Purge(ctx, list[1].Sequence)
}
