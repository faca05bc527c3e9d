package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// wanted is what is to be done with an index. It has a row in the hidden collection, which is part of the
// state of the shard, but for what has been done, which is the node's own.
type wanted struct {
	Sequence uint64         `json:"sequence"` // of the message that wants it
	Build    shardlog.Build `json:"build"`
	Done     bool           `json:"done,omitempty"`
	Error    *wire.Error    `json:"error,omitempty"`
}

// prefix is that of the keys of a collection's indexes.
func prefix(collection string) string { return fmt.Sprintf("%d/%s/", len(collection), collection) }

func indexKey(b *shardlog.Build) string { return prefix(b.Collection) + b.Index }

// keepIndexes builds and drops indexes as messages of the log want it, until the replica ends.
func (r *replica) keepIndexes(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		o, moved := r.open, r.moved
		r.mu.Unlock()
		if o != nil {
			if err := r.nextIndex(ctx, o); err != nil && ctx.Err() == nil && !errors.Is(err, db.ErrClosed) {
				r.logger.Error("indexes", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-moved:
		}
		_ = shardlog.Pause(ctx, 200*time.Millisecond) // not at each commit
	}
}

// nextIndex does what is wanted and has not been done.
func (r *replica) nextIndex(ctx context.Context, o *opened) error {
	coll := o.file.Collection(hidden)
	for key, err := range coll.Keys([]byte(keyIndex), nil) {
		if err != nil {
			return err
		}
		var want wanted
		if err := read(coll, key, &want); err != nil {
			return err
		}
		if want.Done {
			continue
		}
		switch err := r.make(ctx, o.file, &want); {
		case err == nil:
		case refusal(err) || errors.Is(err, db.ErrUnsuitable):
			want.Error = wire.NewError(err)
			r.logger.Error("build", "collection", want.Build.Collection, "index", want.Build.Index, "error", err)
		default:
			return err
		}
		want.Done = true
		if err := o.file.Update(ctx, func(tx *db.Tx) error {
			var now wanted
			err := read(tx.Collection(hidden), key, &now)
			if errors.Is(err, db.ErrNotFound) || err == nil && now.Sequence != want.Sequence {
				return nil // another message has replaced it
			}
			if err != nil {
				return err
			}
			return put(tx, string(key), want)
		}); err != nil {
			return err
		}
		if !want.Build.Drop && want.Error == nil {
			r.change(func() { r.indexed = true })
		}
	}
	return nil
}

// make builds or drops an index.
func (r *replica) make(ctx context.Context, file *db.DB, want *wanted) error {
	coll := file.Collection(want.Build.Collection)
	if want.Build.Drop {
		err := coll.DropIndex(ctx, want.Build.Index)
		if errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return err
	}
	o, err := want.Build.Get()
	if err != nil {
		return err
	}
	_, err = coll.Build(ctx, want.Build.Index, o, nil)
	return err
}

// read decodes a row of the hidden collection.
func read(coll interface {
	Get(key []byte) (db.Row, error)
}, key []byte, into any) error {
	row, err := coll.Get(key)
	if err != nil {
		return err
	}
	return wire.Unmarshal(row.Payload, into)
}

// ended looks up whether what a message wants of an index has been done. What another message has replaced
// has ended as well. The answer is empty otherwise.
func (o *opened) ended(sequence uint64) (out Applied, err error) {
	coll := o.file.Collection(hidden)
	for key, err := range coll.Keys([]byte(keyIndex), nil) {
		var want wanted
		if err == nil {
			err = read(coll, key, &want)
		}
		if err != nil {
			return out, err
		}
		if want.Sequence == sequence {
			if !want.Done {
				return out, nil
			}
			out.Error = want.Error
			break
		}
	}
	out.Applied, out.Known = sequence, true
	return out, nil
}
