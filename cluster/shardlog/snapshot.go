package shardlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Snapshot is a backup of a shard's file in the object store.
type Snapshot struct {
	Shard    string
	Epoch    int
	Sequence uint64 // of the last message that it has
	Bytes    uint64
	Time     time.Time
}

func (s *Snapshot) name() string { return fmt.Sprintf("%s/%d/%d", s.Shard, s.Epoch, s.Sequence) }

// objects returns the store of the snapshots. It makes a new one if the servers have none: what is in it
// can be made again.
func (c *Cluster) objects(ctx context.Context) (jetstream.ObjectStore, error) {
	o := jetstream.ObjectStoreConfig{Bucket: c.store("_snapshots"), Replicas: c.copies()}
	s, err := c.js.ObjectStore(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = c.js.CreateOrUpdateObjectStore(ctx, o)
	}
	return s, failure(err, "the snapshots of cluster "+c.o.Cluster)
}

// PutSnapshot stores a backup. It replaces one of the same sequence.
func (c *Cluster) PutSnapshot(ctx context.Context, s *Snapshot, backup io.Reader) error {
	store, err := c.objects(ctx)
	if err != nil {
		return err
	}
	o := jetstream.ObjectMeta{Name: s.name(), Opts: &jetstream.ObjectMetaOptions{ChunkSize: 256 << 10}}
	_, err = store.Put(ctx, o, &paced{r: backup, pause: func() error { return c.pace(ctx) }})
	return failure(err, "store snapshot "+s.name())
}

// paceParts is how many parts of a snapshot, each a message, the servers may not have stored yet.
const paceParts = 4

// paced fills what it reads into, since Put makes a message of each Read. It pauses after paceParts of them:
// Put waits for no acknowledgements, and the servers refuse messages when too many are waiting.
type paced struct {
	r     io.Reader
	parts int
	pause func() error
}

func (p *paced) Read(b []byte) (int, error) {
	if p.parts++; p.parts%paceParts == 0 {
		if err := p.pause(); err != nil {
			return 0, err
		}
	}
	n, err := io.ReadFull(p.r, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// pacePause leaves processors and disks to the messages of logs.
const pacePause = 20 * time.Millisecond

// pace returns pacePause after the servers have stored all that this connection has sent for snapshots: an
// empty message among their parts, which replaces the one before, is stored after these.
func (c *Cluster) pace(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	m := nats.NewMsg("$O." + c.store("_snapshots") + ".C.pace")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if _, err := c.js.PublishMsg(limited, m); err != nil {
		return err
	}
	return Pause(ctx, pacePause)
}

// Snapshots returns the snapshots of a shard, the newest first.
func (c *Cluster) Snapshots(ctx context.Context, shard string) (out []Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	store, err := c.objects(ctx)
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, failure(err, "list snapshots")
	}
	for _, info := range list {
		parts := strings.Split(info.Name, "/")
		if len(parts) != 3 || parts[0] != shard {
			continue
		}
		epoch, err1 := strconv.Atoi(parts[1])
		sequence, err2 := strconv.ParseUint(parts[2], 10, 64)
		if err1 == nil && err2 == nil {
			out = append(out, Snapshot{shard, epoch, sequence, info.Size, info.ModTime})
		}
	}
	slices.SortFunc(out, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.Sequence, a.Sequence))
	})
	return out, nil
}

// leastRate is how many bytes of a snapshot or a message arrive in a second at least.
const leastRate = 256 << 10

// GetSnapshot writes a snapshot to w. Errors: ErrCorrupt if it is damaged, which may be known only after all
// has been written.
func (c *Cluster) GetSnapshot(ctx context.Context, s *Snapshot, w io.Writer) error {
	store, err := c.objects(ctx)
	if err != nil {
		return err
	}
	// Without a deadline it would be one of 5 s.
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(s.Bytes/leastRate)*time.Second)
	defer cancel()
	r, err := store.Get(ctx, s.name())
	if err != nil {
		return failure(err, "read snapshot "+s.name())
	}
	n, err := io.Copy(w, r)
	err = errors.Join(err, r.Close(), r.Error())
	switch {
	case errors.Is(err, jetstream.ErrDigestMismatch):
		return fmt.Errorf("%w: snapshot %s: %w", ErrCorrupt, s.name(), err)
	case err == nil && uint64(n) != s.Bytes:
		return fmt.Errorf("%w: snapshot %s has %d of %d bytes", ErrCorrupt, s.name(), n, s.Bytes)
	}
	return failure(err, "read snapshot "+s.name())
}

// DeleteSnapshot deletes a snapshot.
func (c *Cluster) DeleteSnapshot(ctx context.Context, s *Snapshot) error {
	store, err := c.objects(ctx)
	if err != nil {
		return err
	}
	return failure(store.Delete(ctx, s.name()), "delete snapshot "+s.name())
}
