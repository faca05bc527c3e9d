package node

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
)

// part makes the file of a part of a split: a copy of the parent's, without the rows of the other part. It
// leaves processors to requests: the parts of a node are made one after the other, slowly.
func (r *replica) part(ctx context.Context, d *duty) error {
	r.n.splitting.Lock()
	defer r.n.splitting.Unlock()
	parent := r.n.replica(d.parent.ID)
	if parent == nil {
		return errors.New("the parent of a split is not here")
	}
	o, _, err := parent.serving()
	if err != nil {
		return err
	}
	return r.replace(ctx, func(path string) error {
		w, err := os.Create(path)
		if err != nil {
			return err
		}
		slow := &pacer{ctx: ctx, w: w, began: time.Now()}
		_, err = o.file.Backup(ctx, slow)
		if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
			return err
		}
		return r.edit(ctx, path, func(file *db.DB) error {
			if err := keepOnly(ctx, file, d.shard.Owns, slow); err != nil {
				return err
			}
			// Reads need not skip the rows of the other part then, of which each decodes the set after a write.
			one := db.Run{Workers: 1, Progress: func(string, int, int) { slow.pause() }}
			if err := file.Compact(ctx, &db.CompactOptions{Run: one}); err != nil {
				r.logger.Warn("compact", "error", err) // as on Windows
			}
			return nil
		})
	})
}

// pacer pauses for nine times as long as it has worked, but not for long: work takes long on busy
// machines.
type pacer struct {
	ctx   context.Context
	w     io.Writer
	began time.Time
}

func (p *pacer) pause() {
	worked := time.Since(p.began)
	if worked < time.Millisecond {
		return
	}
	_ = shardlog.Pause(p.ctx, min(9*worked, 50*time.Millisecond)) // the work sees the end of ctx
	p.began = time.Now()
}

func (p *pacer) Write(b []byte) (int, error) {
	p.pause()
	return p.w.Write(b)
}

// rest waits after a commit of a part of a split, which nobody reads yet, so that it commits many messages at
// once. When the part has all of the parent's log, the round ends.
func (r *replica) rest(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	_ = r.wait(limited, func() (bool, error) {
		if r.atBase() {
			r.stop(errDuty)
		}
		return r.duty.shard.Base != nil, nil
	})
}

// partWait is the time between commits of a part of a split.
const partWait = 50 * time.Millisecond

// keepOnly deletes the rows whose keys do not pass.
func keepOnly(ctx context.Context, file *db.DB, pass func(key []byte) bool, slow *pacer) error {
	list, err := file.Collections()
	if err != nil {
		return err
	}
	for _, info := range list {
		if info.Name == hidden {
			continue
		}
		var from []byte
		for more := true; more; {
			var keys [][]byte
			more = false
			for key, err := range file.Collection(info.Name).Keys(nil, from) {
				if err != nil {
					return err
				}
				if !pass(key) {
					keys = append(keys, key)
				}
				if more = len(keys) == deleteRows; more {
					from = key
					break
				}
			}
			err := file.Update(ctx, func(tx *db.Tx) error {
				for _, key := range keys {
					if err := tx.Collection(info.Name).Delete(key); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			slow.pause()
		}
	}
	return nil
}

// deleteRows is how many rows are deleted in a transaction: what is done between pauses delays requests.
const deleteRows = 128
