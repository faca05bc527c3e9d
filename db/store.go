package db

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/anndb/anndb/codec"
)

// The root buckets. The root holds nothing else, so no plain value can shift
// the alignment of another (docs/ARCHITECTURE.md, section 4).
var (
	bucketMeta   = []byte("meta")   // catalog, orphan marks
	bucketBlocks = []byte("blocks") // immutable codec blocks
	bucketTail   = []byte("tail")   // rows not yet sealed, one block each
	bucketSets   = []byte("sets")   // roaring blocks: tombstones, label rows
	bucketKeys   = []byte("keys")   // collection ‖ user key → row, see entryValue
	bucketLabels = []byte("labels") // collection ‖ label → object of its rows
)

var rootBuckets = [][]byte{bucketBlocks, bucketKeys, bucketLabels, bucketMeta, bucketSets, bucketTail}

// ballastKey is the key of padding that keeps a block bucket from being stored inline in its
// parent, where bbolt does not align values. It belongs to object 0, which is otherwise unused.
var ballastKey = codec.Key(0, codec.KindGeneric, 0)

// store is one open bbolt file. Compact replaces a DB's store; the old one is closed with its
// last generation.
type store struct {
	bolt     *bbolt.DB
	file     *os.File // bbolt's own handle, for bounds-checked reads
	reserve  int64
	verify   VerifyMode
	tight    atomic.Bool // see makeRoom
	before   uint64      // generations before the file's first, if it was compacted
	verified verifiedSet
	// validated records which arrays of an index have been checked.
	validated checkedSet
	// fresh holds *freshRows by the object of a label model and *freshSketches by the object of
	// an index with sketches; features holds *featureNumbers by the number of a collection.
	fresh, features sync.Map
	// checked records the chunks of sparse rows whose structure has been checked.
	checked verifiedSet
	// searchers are idle scratches for dense searches.
	searchers idleSearchers

	beginMu sync.Mutex
	broken  atomic.Pointer[error] // set if bbolt's locks are lost, see begin

	walkMu  sync.Mutex
	walked  atomic.Uint32 // parts of the file found valid, see sound
	unsound [8]error      // the errors found in the other parts; guarded by walkMu

	mu   sync.Mutex
	gens map[*generation]struct{}
	// numberings has the numberings of collections by collection number.
	numberings map[uint64]*numbering
	retire     bool // no longer a DB's current store
	closed     bool
	base       uintptr // address at which the map was last advised
}

// reserves returns the map reservations to try, largest first.
func reserves(want, size int64) []int64 {
	out := []int64{want}
	for _, r := range []int64{64 << 30, 4*size + 1<<30, 0} {
		if r < out[len(out)-1] {
			out = append(out, r)
		}
	}
	return out
}

// openStore opens an existing, validated file.
func openStore(path string, o Options) (*store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("db: open: %w", err)
	}
	var last error
	for _, r := range reserves(o.MapReserve, info.Size()) {
		if int64(int(r)) != r {
			continue
		}
		s, err := tryOpen(path, o, int(r))
		if err == nil {
			s.advise()
			return s, nil
		}
		if last = err; !mapFailed(err) {
			break
		}
		o.Logger.Warn("db: reserving address space failed, trying less", "path", path, "bytes", r, "err", err)
	}
	return nil, last
}

// mapFailed reports whether bbolt could not map the file with the requested size.
func mapFailed(err error) bool {
	return errors.Is(err, berrors.ErrInvalidMapping) || errors.Is(err, syscall.ENOMEM) ||
		strings.Contains(err.Error(), "mmap")
}

// tryOpen opens path with one reservation. On a damaged freelist page bbolt panics or faults:
// tryOpen converts that to ErrCorrupt, and closes the file handle that bbolt has left open, so
// that its lock does not outlive the attempt.
func tryOpen(path string, o Options, reserve int) (s *store, err error) {
	var file *os.File
	defer func(old bool) {
		r := recover()
		debug.SetPanicOnFault(old)
		if r != nil {
			s, err = nil, corruptf("", "open %s: %v", path, r)
		}
		if err != nil && file != nil {
			// If bbolt returned an error, the file is closed already. If it panicked, its map
			// remains, and would keep the lock as well.
			unlock(file)
			_ = file.Close()
		}
	}(debug.SetPanicOnFault(true))
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         o.Timeout,
		ReadOnly:        o.ReadOnly,
		NoSync:          o.NoSync,
		NoGrowSync:      o.NoSync,
		FreelistType:    bbolt.FreelistMapType,
		PageSize:        pageSize,
		InitialMmapSize: reserve,
		MaxSize:         int(o.MaxSize),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s: %w", ErrNotDatabase, path, err)
	case errors.Is(err, berrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	case err != nil:
		return nil, wrapf(asSystem(err), "open %s", path)
	}
	if o.MaxSize > 0 {
		b.AllocSize = 1 << 20 // the file grows in such steps; MaxSize refuses a step as a whole
	}
	return &store{
		bolt: b, file: file, reserve: int64(reserve), verify: o.Verify,
		gens: map[*generation]struct{}{}, numberings: map[uint64]*numbering{},
	}, nil
}

// advise reverts bbolt's MADV_RANDOM, which makes cold scans ten times slower, whenever the map
// is new.
func (s *store) advise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if base := s.bolt.Info().Data; base != s.base {
		s.base = base
		adviseNormal(s.bolt.Info(), s.mapped())
	}
}

// mapped returns a length that is certainly mapped.
func (s *store) mapped() int64 {
	size := s.reserve
	if info, err := s.file.Stat(); err == nil {
		size = max(size, info.Size())
	}
	return size
}

// roomBytes is the least space that must be left in the map for an idle generation to be kept:
// four times the size of large transactions.
const roomBytes = 512 << 20

// roomy reports whether the file can at least double, and also take a large transaction, before
// bbolt must remap. A remap waits for every reader, and no reader would release an idle
// generation; so one may be kept only if the store is roomy.
func (s *store) roomy() bool {
	info, err := s.file.Stat()
	return err == nil && !s.tight.Load() && s.reserve-info.Size() >= max(info.Size(), roomBytes)
}

// makeRoom releases the idle generation before a very large transaction, and lets none be kept
// until done is called.
func (d *DB) makeRoom(bytes int) (done func()) {
	if bytes < roomBytes/4 {
		return func() {}
	}
	d.snapMu.Lock()
	s := d.store
	d.snapMu.Unlock()
	s.tight.Store(true)
	d.publish()
	return func() { s.tight.Store(false) }
}

// offset returns the file offset of an address in the map, or -1.
func (s *store) offset(addr uintptr) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || addr < s.base || int64(addr-s.base) >= s.mapped() {
		return -1
	}
	return int64(addr - s.base)
}

// begin begins a transaction. If the file no longer has its meta pages, bbolt faults in Begin
// and keeps its locks forever. The store is then marked as broken, so that no call waits for
// those locks again.
func (s *store) begin(write bool) (tx *bbolt.Tx, err error) {
	s.beginMu.Lock()
	defer s.beginMu.Unlock()
	if p := s.broken.Load(); p != nil {
		return nil, *p
	}
	returned := false
	defer func() {
		if !returned {
			s.broken.Store(&err)
		}
	}()
	defer guard(s, setFaults(), &err)
	tx, err = s.bolt.Begin(write)
	returned = true
	if err != nil {
		err = fmt.Errorf("db: begin: %w", err)
	}
	return tx, err
}

// end ends a read transaction.
func (s *store) end(tx *bbolt.Tx) {
	if s.broken.Load() == nil {
		_ = tx.Rollback() // a read transaction has no changes to lose
	}
}

// close closes the file. The map of a broken store remains.
func (s *store) close() error {
	if s.broken.Load() == nil {
		return s.bolt.Close()
	}
	unlock(s.file)
	return s.file.Close()
}

// drop removes a generation and closes a retired store after its last one.
func (s *store) drop(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gens, g)
	s.closeIdle()
}

// retired marks the store as no longer current.
func (s *store) retired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire = true
	s.closeIdle()
}

// sync makes a file durable that was written with Options.NoSync.
func (s *store) sync() error { return s.bolt.Sync() }

func (s *store) closeIdle() {
	if s.retire && len(s.gens) == 0 && !s.closed {
		s.closed = true
		_ = s.close() // there is nothing left to write; the new file is in place
	}
}

// readers returns the number of held generations and the age of the oldest one. The reference
// of the DB to idle does not count.
func (s *store) readers(idle *generation) (n int, oldest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.gens {
		held := int(g.refs.Load())
		if g == idle {
			held-- // the database's own reference
		}
		if held > 0 {
			n += held
			oldest = max(oldest, time.Since(g.opened))
		}
	}
	return n, oldest
}

// verifiedSet records which blocks of a store have been verified: one bit per block, by object
// and section.
type verifiedSet struct {
	m sync.Map // sectionKey → *bitSet
}

type sectionKey struct {
	object uint64
	kind   codec.Kind
}

func (v *verifiedSet) section(object uint64, kind codec.Kind) *bitSet {
	k := sectionKey{object, kind}
	if b, ok := v.m.Load(k); ok {
		return b.(*bitSet)
	}
	b, _ := v.m.LoadOrStore(k, &bitSet{})
	return b.(*bitSet)
}

// forget removes all bits of an object.
func (v *verifiedSet) forget(object uint64) {
	v.m.Range(func(k, _ any) bool {
		if k.(sectionKey).object == object {
			v.m.Delete(k)
		}
		return true
	})
}

// bitSet is a growing set of bits that is safe for concurrent use. A read takes one or two
// loads. Bits are stored in pages that are allocated on demand, so that growing never moves
// them and a high number costs only its page.
type bitSet struct {
	mu    sync.Mutex
	pages atomic.Pointer[[]*bitPage]
}

type bitPage [64]atomic.Uint64 // 4,096 bits

func (b *bitSet) has(i uint32) bool {
	pages := b.pages.Load()
	if pages == nil || int(i>>12) >= len(*pages) || (*pages)[i>>12] == nil {
		return false
	}
	return (*pages)[i>>12][i>>6&63].Load()&(1<<(i&63)) != 0
}

func (b *bitSet) set(i uint32) {
	pages := b.pages.Load()
	if pages == nil || int(i>>12) >= len(*pages) || (*pages)[i>>12] == nil {
		b.mu.Lock()
		var grown []*bitPage
		if old := b.pages.Load(); old != nil {
			grown = append(grown, *old...)
		}
		for len(grown) <= int(i>>12) {
			grown = append(grown, nil)
		}
		if grown[i>>12] == nil {
			grown[i>>12] = new(bitPage)
		}
		b.pages.Store(&grown)
		b.mu.Unlock()
		pages = &grown
	}
	(*pages)[i>>12][i>>6&63].Or(1 << (i & 63))
}
