package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// hidden is the collection of a shard's file in which the node keeps what belongs to the state of the shard:
// its position, the messages that were refused, and the indexes that are to be built.
const hidden = ".cluster"

// Keys of rows of the hidden collection.
const (
	keyPosition = "position"
	keyRefused  = "refused/" // with the sequence
	keyIndex    = "index/"   // with collection and name: what is to be built
)

// refusedWindow is for how many sequences it is remembered that a message was refused.
const refusedWindow = 65_536

// position is the row of that key.
type position struct {
	shardlog.Position

	Cluster string `json:"cluster"`
	Foreign uint64 `json:"foreign,omitempty"` // messages that are none of a gateway
	// Intent is the sequence of a message that is being applied in more than one transaction.
	Intent uint64 `json:"intent,omitempty"`
}

// of reports whether the position is one in the log of a shard.
func (p *position) of(s *shardlog.Shard) bool { return p.Shard == s.ID && p.Epoch == s.Epoch }

// put stores a value in a row of the hidden collection.
func put(tx *db.Tx, key string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.Collection(hidden).Put(db.Row{Key: []byte(key), Payload: body})
}

// openFile opens the file, which exists.
func (r *replica) openFile(ctx context.Context) error {
	file, err := db.Open(ctx, r.path(), r.n.o.DB)
	if err != nil {
		return err
	}
	o := &opened{file: file, refused: map[uint64]*wire.Error{}}
	if err := o.load(); err != nil {
		_ = file.Close()
		if errors.Is(err, db.ErrNotFound) {
			return fmt.Errorf("%w: %s has no position (move it away)", errWrongFile, r.path())
		}
		return err
	}
	if o.at.Cluster != r.n.cluster {
		_ = file.Close()
		return fmt.Errorf("%w: %s is of cluster %s, not %s (move it away)", shardlog.ErrCluster, r.path(),
			o.at.Cluster, r.n.cluster)
	}
	r.change(func() { r.open, r.newest = o, nil })
	return nil
}

// load reads the position and the refused messages.
func (o *opened) load() error {
	coll := o.file.Collection(hidden)
	if err := read(coll, []byte(keyPosition), &o.at); err != nil {
		return err
	}
	for key, err := range coll.Keys([]byte(keyRefused), nil) {
		if err != nil {
			return err
		}
		sequence, err := strconv.ParseUint(string(bytes.TrimPrefix(key, []byte(keyRefused))), 16, 64)
		if err != nil {
			return err
		}
		e := &wire.Error{}
		if err := read(coll, key, e); err != nil {
			return err
		}
		o.refused[sequence] = e
	}
	return nil
}

// replace makes another file, and opens it in place of the present one, which is served until then. A
// crash in between leaves the present one.
func (r *replica) replace(ctx context.Context, make func(path string) error) error {
	making := r.path() + ".new"
	_ = os.Remove(making)
	if err := make(making); err != nil {
		return err
	}
	r.close()
	if err := os.Rename(making, r.path()); err != nil {
		return err
	}
	return r.openFile(ctx)
}

// edit opens a file that is not served, changes it, and closes it.
func (r *replica) edit(ctx context.Context, path string, change func(file *db.DB) error) error {
	file, err := db.Open(ctx, path, r.n.o.DB)
	if err != nil {
		return err
	}
	return errors.Join(change(file), file.Close())
}

// create makes an empty file at a position.
func (r *replica) create(ctx context.Context, at shardlog.Position) error {
	return r.replace(ctx, func(path string) error {
		return r.edit(ctx, path, func(file *db.DB) error {
			if _, err := file.Create(ctx, hidden, db.Schema{Sparse: true}); err != nil {
				return err
			}
			return file.Update(ctx, func(tx *db.Tx) error {
				return put(tx, keyPosition, position{Position: at, Cluster: r.n.cluster})
			})
		})
	})
}

// moveTo gives the open file a position in another log.
func (r *replica) moveTo(ctx context.Context, at shardlog.Position) error {
	o := r.open
	next := o.at
	next.Position, next.Intent, next.Foreign = at, 0, 0
	err := o.file.Update(ctx, func(tx *db.Tx) error {
		for sequence := range o.refused { // of the log before
			if err := tx.Collection(hidden).Delete(refusedKey(sequence)); err != nil {
				return err
			}
		}
		return put(tx, keyPosition, next)
	})
	if err == nil {
		r.change(func() {
			o.at, o.refused, r.results, r.newest = next, map[uint64]*wire.Error{}, map[uint64][]string{}, nil
		})
	}
	return err
}

func refusedKey(sequence uint64) []byte { return fmt.Appendf(nil, "%s%016x", keyRefused, sequence) }
