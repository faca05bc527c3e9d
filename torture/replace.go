package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
)

// The layer replace takes the path of an open database away while the database is written, built,
// maintained and compacted, and lets another handle write to what the path leads to then.

// takeover is a way to make a path lead elsewhere.
type takeover struct {
	name string
	run  func(ctx context.Context, t *takeoverRun) error
}

var takeovers = []takeover{
	{"renamed over", renamedOver},
	{"unlinked", unlinked},
	{"moved and back", movedAndBack},
	{"hard link", hardLink},
	{"restore", restoreOver},
	{"folder mounted over", folderMountedOver},
	{"file mounted elsewhere", fileMountedElsewhere},
}

// replaced runs every takeover in rounds.
func replaced(ctx context.Context, e *env) (t totals, err error) {
	for _, name := range []string{"takeovers", "acknowledged", "by others", "refused", "raced", "lost"} {
		t.add(name, 0)
	}
	skipped := map[string]bool{}
	for round := range e.pick(2, 50) {
		for _, way := range takeovers {
			dir, err := e.sub(fmt.Sprintf("%d %s", round, way.name))
			if err != nil {
				return t, err
			}
			r := &takeoverRun{dir: dir, path: filepath.Join(dir, "x.anndb"), rng: e.rng(round, way.name), totals: &t}
			err = way.run(ctx, r)
			var skip skipError
			if errors.As(err, &skip) {
				if !skipped[way.name] {
					t.skip("%s: %v", way.name, skip)
				}
				skipped[way.name] = true
				continue
			}
			if err != nil {
				return t, fmt.Errorf("round %d, %s: %w", round, way.name, err)
			}
			t.add("takeovers", 1)
			if err := os.RemoveAll(dir); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// takeoverRun is one takeover.
type takeoverRun struct {
	dir, path string
	rng       *rand.Rand
	totals    *totals
}

// writingHandle is a handle that writes, and what it has acknowledged.
type writingHandle struct {
	d      *db.DB
	prefix string // of its keys

	step sync.Mutex // held during a call

	mu      sync.Mutex
	n       int      // keys made
	acked   []string // keys
	refused int      // writes refused with ErrReplaced
	linked  int      // compactions refused with ErrLinked
	away    bool     // the path leads elsewhere: no write that begins may succeed
	compact bool     // whether it compacts

	stop chan struct{}
	done chan error
}

// open opens the database at a path and starts to write to it.
func (t *takeoverRun) open(ctx context.Context, path, prefix string, from *writingHandle) (*writingHandle, error) {
	d, err := db.Open(ctx, path, &db.Options{Timeout: 50 * time.Millisecond, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return nil, err
	}
	if _, err := d.Create(ctx, "c", db.Schema{Dim: 4}); err != nil && !errors.Is(err, db.ErrExists) {
		return nil, errors.Join(err, d.Close())
	}
	h := &writingHandle{d: d, prefix: prefix, compact: true}
	if from != nil {
		h.n, h.acked, h.compact = from.n, from.acked, from.compact
	}
	h.start(ctx, rand.New(rand.NewPCG(t.rng.Uint64(), 0)))
	return h, nil
}

func (h *writingHandle) start(ctx context.Context, rng *rand.Rand) {
	h.stop, h.done = make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-h.stop:
				h.done <- nil
				return
			default:
			}
			refused, err := h.call(ctx, rng)
			if err != nil {
				h.done <- err
				return
			}
			if refused {
				time.Sleep(time.Millisecond)
			}
		}
	}()
}

// call makes one call, and fails if that does what it must not. It reports whether the call was refused.
func (h *writingHandle) call(ctx context.Context, rng *rand.Rand) (refused bool, _ error) {
	h.step.Lock()
	defer h.step.Unlock()
	h.mu.Lock()
	away, compact := h.away, h.compact
	h.mu.Unlock()
	what, keys := "update", h.keys(1+rng.IntN(4))
	n, err := 0, error(nil)
	c := h.d.Collection("c")
	switch i := rng.IntN(12); {
	case i == 0:
		what = "load"
		n, err = c.Load(ctx, rowsOf(keys), nil)
	case i == 1 && compact:
		what = "compact"
		err = h.d.Compact(ctx, nil)
	case i == 2:
		what = "maintain"
		_, err = h.d.Maintain(ctx, 0, nil)
	case i == 3:
		what = "build"
		_, err = c.Build(ctx, "x", &index.Forest{NoTune: true}, nil)
	default:
		err = h.d.Update(ctx, func(tx *db.Tx) error {
			for r := range rowsOf(keys) {
				if err := tx.Collection("c").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			n = len(keys)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, keys[:n]...)
	switch {
	case away && !errors.Is(err, db.ErrReplaced):
		return false, fmt.Errorf("%s with the path elsewhere: %v", what, err)
	case errors.Is(err, db.ErrReplaced):
		h.refused++
		return true, nil
	case errors.Is(err, db.ErrLinked) && what == "compact":
		h.linked++
		return true, nil
	case errors.Is(err, db.ErrUnsuitable) && what != "update":
	case err != nil:
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return false, nil
}

// keys returns new keys.
func (h *writingHandle) keys(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for range n {
		out = append(out, fmt.Sprintf("%s%d", h.prefix, h.n))
		h.n++
	}
	return out
}

func rowsOf(keys []string) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		for _, k := range keys {
			if !yield(db.Row{Key: []byte(k), Vector: vectorOf(k)}, nil) {
				return
			}
		}
	}
}

// vectorOf returns the vector of the row with a key.
func vectorOf(key string) []float32 {
	h := fnv.New64a()
	h.Write([]byte(key))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	return []float32{rng.Float32(), rng.Float32(), rng.Float32(), rng.Float32()}
}

// awaitAtMost is far more than a loaded machine takes.
const awaitAtMost = 5 * time.Minute

// await waits until a condition holds for the handle, which writes meanwhile.
func (h *writingHandle) await(what string, holds func() bool) error {
	for deadline := time.Now().Add(awaitAtMost); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		h.mu.Lock()
		ok := holds()
		h.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case err := <-h.done:
			h.done <- err
			return err
		default:
		}
	}
	return fmt.Errorf("no %s within %v", what, awaitAtMost)
}

// more waits until n more rows are acknowledged.
func (h *writingHandle) more(n int) error {
	h.mu.Lock()
	n += len(h.acked)
	h.mu.Unlock()
	return h.await("acknowledged rows", func() bool { return len(h.acked) >= n })
}

// setAway says whether the path leads elsewhere for the whole of the next calls.
func (h *writingHandle) setAway(away bool) {
	h.step.Lock()
	defer h.step.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
}

// refusals waits for refused writes.
func (h *writingHandle) refusals() error {
	h.mu.Lock()
	n := h.refused + 3
	h.mu.Unlock()
	return h.await("refused writes", func() bool { return h.refused >= n })
}

// ended stops the writing, and closes the database after it has read what was acknowledged.
func (t *takeoverRun) ended(ctx context.Context, h *writingHandle) error {
	if h == nil {
		return nil
	}
	close(h.stop)
	err := <-h.done
	if err == nil {
		err = t.has(ctx, h.d, h.acked)
	}
	t.totals.add("refused", h.refused+h.linked)
	return errors.Join(err, h.d.Close())
}

// has checks that an open database is valid and has the rows with the keys.
func (t *takeoverRun) has(ctx context.Context, d *db.DB, keys []string) error {
	return errors.Join(d.Check(ctx, nil, nil), d.View(func(s *db.Snapshot) error {
		rows := map[string][]float32{}
		for r, err := range s.Collection("c").Rows(ctx, nil) {
			if err != nil {
				return err
			}
			rows[string(r.Key)] = r.Vector
		}
		for _, k := range keys {
			if !slices.Equal(rows[k], vectorOf(k)) {
				t.totals.add("lost", 1)
				return fmt.Errorf("acknowledged row %q is lost: there are %d rows of %d", k, len(rows), len(keys))
			}
		}
		return nil
	}))
}

// verify is has for the database at a path.
func (t *takeoverRun) verify(ctx context.Context, path string, keys ...string) error {
	d, err := db.Open(ctx, path, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(t.has(ctx, d, keys), d.Close())
}

// backup writes a copy of the handle's database to a file and returns the keys that it must have.
func (h *writingHandle) backup(ctx context.Context, path string) ([]string, error) {
	h.mu.Lock()
	keys := slices.Clone(h.acked)
	h.mu.Unlock()
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = h.d.Backup(ctx, f)
	return keys, errors.Join(err, f.Close())
}

// begin opens the database and waits for some rows.
func (t *takeoverRun) begin(ctx context.Context) (*writingHandle, error) {
	h, err := t.open(ctx, t.path, "a", nil)
	if err != nil {
		return nil, err
	}
	if err := h.more(1 + t.rng.IntN(60)); err != nil {
		return nil, errors.Join(err, t.ended(ctx, h))
	}
	return h, nil
}

// others opens what the path leads to while h has another file, and lets both write.
func (t *takeoverRun) others(ctx context.Context, h *writingHandle, keys []string) (err error) {
	other, err := t.open(ctx, t.path, "b", nil)
	if errors.Is(err, db.ErrLocked) {
		// A compaction had compared the path before the takeover and renamed its file after it: what
		// the takeover put there is gone, before anybody wrote to it.
		t.totals.add("raced", 1)
		h.setAway(false)
		return t.ended(ctx, h)
	}
	if err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	h.setAway(true)
	err = errors.Join(other.more(20), h.refusals(), other.more(5))
	err = errors.Join(err, t.ended(ctx, h), t.ended(ctx, other))
	t.totals.add("acknowledged", len(h.acked))
	t.totals.add("by others", len(other.acked))
	if err != nil {
		return err
	}
	return t.verify(ctx, t.path, append(keys, other.acked...)...)
}

func renamedOver(ctx context.Context, t *takeoverRun) error {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	keys, err := h.backup(ctx, t.path+".new")
	if err = errors.Join(err, os.Rename(t.path+".new", t.path)); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	return t.others(ctx, h, keys)
}

func unlinked(ctx context.Context, t *takeoverRun) error {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	if err := os.Remove(t.path); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	return t.others(ctx, h, nil)
}

// resume lets a handle go on whose path leads to its file again. It opens the file again if a commit was
// under way when the path led elsewhere.
func (t *takeoverRun) resume(ctx context.Context, h *writingHandle) error {
	err := h.d.Update(ctx, func(tx *db.Tx) error { return tx.Collection("c").Delete([]byte("none")) })
	if errors.Is(err, db.ErrUnknownState) {
		if err := t.ended(ctx, h); err != nil {
			return err
		}
		if h, err = t.open(ctx, t.path, "a", h); err != nil {
			return err
		}
	}
	err = errors.Join(err, h.more(10), t.ended(ctx, h))
	t.totals.add("acknowledged", len(h.acked))
	return errors.Join(err, t.verify(ctx, t.path, h.acked...))
}

func movedAndBack(ctx context.Context, t *takeoverRun) error {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	if err := os.Rename(t.path, t.path+".away"); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	if _, err := os.Stat(t.path); err == nil { // as in others
		t.totals.add("raced", 1)
		return t.ended(ctx, h)
	}
	h.setAway(true)
	err = h.refusals()
	h.setAway(false)
	if err = errors.Join(err, os.Rename(t.path+".away", t.path)); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	return t.resume(ctx, h)
}

func hardLink(ctx context.Context, t *takeoverRun) error {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	link := filepath.Join(t.dir, "link.anndb")
	if err := os.Link(t.path, link); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	err = errors.Join(
		h.more(10), h.await("refused compaction", func() bool { return h.linked > 0 }), refused(link, db.ErrLocked),
		t.ended(ctx, h))
	t.totals.add("acknowledged", len(h.acked))
	if err != nil {
		return err
	}
	if err := errors.Join(t.verify(ctx, link, h.acked...), os.Remove(link)); err != nil {
		return err
	}
	if h, err = t.open(ctx, t.path, "a", h); err != nil {
		return err
	}
	err = errors.Join(h.d.Compact(ctx, nil), h.more(5), t.ended(ctx, h))
	return errors.Join(err, t.verify(ctx, t.path, h.acked...))
}

// refused checks that a path cannot be opened for a reason.
func refused(path string, want error) error {
	d, err := db.Open(context.Background(), path, &db.Options{Timeout: time.Millisecond})
	if err == nil {
		return errors.Join(fmt.Errorf("%s was opened, want %w", path, want), d.Close())
	}
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: %w, want %w", path, err, want)
	}
	return nil
}

func restoreOver(ctx context.Context, t *takeoverRun) error {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	copied := filepath.Join(t.dir, "copy")
	keys, err := h.backup(ctx, copied)
	if restored := db.Restore(ctx, copied, t.path, true); !errors.Is(restored, db.ErrLocked) {
		err = errors.Join(err, fmt.Errorf("restored over an open file: %w", restored))
	}
	t.totals.add("refused", 1)
	err = errors.Join(err, h.more(10), t.ended(ctx, h))
	t.totals.add("acknowledged", len(h.acked))
	if err = errors.Join(err, t.verify(ctx, t.path, h.acked...)); err != nil {
		return err
	}
	return errors.Join(db.Restore(ctx, copied, t.path, true), t.verify(ctx, t.path, keys...))
}

// bind mounts a file or folder at another place.
func bind(from, at string) error {
	if err := syscall.Mount(from, at, "", syscall.MS_BIND, ""); err != nil {
		return skipped("no bind mount: %v", err)
	}
	return nil
}

func folderMountedOver(ctx context.Context, t *takeoverRun) error {
	under, other := filepath.Join(t.dir, "under"), filepath.Join(t.dir, "other")
	if err := errors.Join(os.Mkdir(under, 0o700), os.Mkdir(other, 0o700)); err != nil {
		return err
	}
	t.path = filepath.Join(under, "x.anndb")
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	if err := bind(other, under); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	theirs, err := t.open(ctx, t.path, "b", nil)
	h.setAway(true)
	if err == nil {
		err = errors.Join(theirs.more(20), h.refusals(), t.ended(ctx, theirs))
		t.totals.add("by others", len(theirs.acked))
	}
	h.setAway(false)
	if err = errors.Join(err, syscall.Unmount(under, 0)); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	return errors.Join(t.resume(ctx, h), t.verify(ctx, filepath.Join(other, "x.anndb"), theirs.acked...))
}

func fileMountedElsewhere(ctx context.Context, t *takeoverRun) (err error) {
	h, err := t.begin(ctx)
	if err != nil {
		return err
	}
	// What is mounted must be the present file.
	h.mu.Lock()
	h.compact = false
	h.mu.Unlock()
	if err := h.more(20); err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	at := filepath.Join(t.dir, "y.anndb")
	err = os.WriteFile(at, nil, 0o600)
	if err == nil {
		err = bind(t.path, at)
	}
	if err != nil {
		return errors.Join(err, t.ended(ctx, h))
	}
	defer func() { err = errors.Join(err, syscall.Unmount(at, 0)) }()
	err = refused(at, db.ErrLocked)
	h.mu.Lock()
	keys := slices.Clone(h.acked)
	h.mu.Unlock()
	err = errors.Join(err, h.d.Compact(ctx, nil), h.more(5), t.stale(ctx, at, keys), t.ended(ctx, h))
	t.totals.add("acknowledged", len(h.acked))
	return errors.Join(err, t.verify(ctx, t.path, h.acked...))
}

// stale checks that a file that was replaced where it is mounted from can be read and not written to.
func (t *takeoverRun) stale(ctx context.Context, path string, keys []string) error {
	d, err := db.Open(ctx, path, &db.Options{Timeout: time.Second, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	_, err = d.Create(ctx, "d", db.Schema{Dim: 1})
	if !errors.Is(err, db.ErrReplaced) {
		return errors.Join(fmt.Errorf("written to a stale file: %v", err), d.Close())
	}
	t.totals.add("refused", 1)
	return errors.Join(t.has(ctx, d, keys), d.Close())
}
