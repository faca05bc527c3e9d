package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// stageBytes is about how much a staging transaction of a build writes: large
// enough for the disk, small enough that writers in line wait little.
const stageBytes = 32 << 20

// Build learns an index over the rows of the latest state and publishes it
// under name, in place of an index of that name if there is one. It reads rows
// into memory, learns without holding a snapshot or a transaction, writes
// blocks in several transactions, and publishes in one: readers and writers go
// on all the while; Compact and Reorder wait for its end, and it for theirs. It
// must not be called from a callback of one of them. Rows written meanwhile are scanned by queries until
// maintenance or the next build. progress, if not nil, is called from several goroutines but
// never at the same time.
//
// The cost is dominated by the labels: rows² · dim operations on all cores
// where they are exact, about rows · (1,000 codes + 200 rows compared) where
// they are approximate (BuildOptions.Labels). Memory: the rows as float32 and
// their principal coordinates, the labels, the index; approximate labels take
// 12 bytes for each label and a byte for each coordinate besides.
//
// Cancelled or failed, it leaves the database as it was; a crash leaves blocks
// that the next Open removes.
//
// Errors: ErrNoCollection, ErrName, ErrOption, ErrDimension, ErrNotFinite, ErrNorm,
// ErrEmpty, ErrUnsuitable, ErrReadOnly, ErrClosed, ErrCorrupt, ErrNoSpace, ErrStateUnknown
// and the context's.
func (d *DB) Build(ctx context.Context, coll, name string, o BuildOptions, progress func(Progress)) (_ IndexInfo, err error) {
	if err := checkName(name); err != nil {
		return IndexInfo{}, err
	}
	if name == Flat {
		return IndexInfo{}, fmt.Errorf("%w: %q is the name of the exact scan", ErrName, name)
	}
	if err := d.writable(ctx); err != nil {
		return IndexInfo{}, err
	}
	ctx, release, err := d.hold(ctx, 1)
	if err != nil {
		return IndexInfo{}, err
	}
	defer release(&err)
	if err := d.checkRequest(coll, o); err != nil {
		return IndexInfo{}, err
	}
	info, err := d.build(ctx, coll, name, o, newTimer(progress))
	return info, asOption(err)
}

// build is Build with a valid name, for a caller that holds d.numbering.
func (d *DB) build(ctx context.Context, coll, name string, o BuildOptions, timer *stageTimer) (IndexInfo, error) {
	sparse, err := d.isSparse(coll)
	if err != nil {
		return IndexInfo{}, err
	}
	if err := o.Postings.check(o.Kind, sparse); err != nil {
		return IndexInfo{}, err
	}
	switch {
	case isBudget(o.Kind):
		return d.buildBudget(ctx, coll, name, o, timer)
	case o.Kind == KindLCIF:
		return d.buildLCIF(ctx, coll, name, o, timer)
	case sparse && o.Kind == "":
		o.Kind = KindPostings
	case sparse != (o.Kind == KindPostings):
		return IndexInfo{}, fmt.Errorf("%w: kind %q does not suit %q", ErrKind, o.Kind, coll)
	}
	if sparse {
		return d.buildSparse(ctx, coll, name, o, timer)
	}
	requested := o
	t, id, o, err := d.trainingSet(ctx, coll, o, timer)
	if err != nil {
		return IndexInfo{}, err
	}
	l, err := learnRest(ctx, t, o, timer)
	if err != nil {
		return IndexInfo{}, err
	}
	switch {
	case o.tunes():
		if o, err = d.tuneOn(ctx, coll, id, l, t, o, timer); err != nil {
			return IndexInfo{}, err
		}
	case !o.NoTune:
		requested.Workers = 0 // who builds it again says how many
		l.requested = &requested
		if o.Kind == KindAuto {
			o = choices(o)[0]
		}
	}
	l.opts = o
	if l.forest == nil {
		if l.forest, err = l.growForest(ctx, t, o, nil, timer, "trees"); err != nil {
			return IndexInfo{}, err
		}
	}
	l.points = t.points.Len()
	return d.storeIndex(ctx, coll, id, name, l, timer)
}

// isSparse says which kind of collection it is.
func (d *DB) isSparse(coll string) (sparse bool, err error) {
	err = d.View(func(s *Snapshot) error {
		st, err := s.collection(coll)
		if err == nil {
			sparse = st.c.Sparse
		}
		return err
	})
	return sparse, err
}

// trainingSet reads the live rows of the latest state into memory and resolves
// the options for them.
func (d *DB) trainingSet(ctx context.Context, coll string, o BuildOptions, timer *stageTimer) (t *training, id uint64, _ BuildOptions, err error) {
	err = d.View(func(s *Snapshot) (err error) {
		defer guard(s.gen.store, setFaults(), &err)
		st, err := s.collection(coll)
		if err != nil {
			return err
		}
		c := st.c
		if c.Sparse {
			return fmt.Errorf("%w: %q is sparse", ErrKind, coll)
		}
		if c.Live == 0 {
			return fmt.Errorf("%w: %q", ErrEmpty, coll)
		}
		id = c.ID
		o = o.resolve(int(c.Live), c.Dim)
		if err := o.validate(); err != nil {
			return err
		}
		for i, q := range o.TrainingQueries {
			if err := checkQuery(q, c.Dim); err != nil {
				return wrapf(err, "training query %d", i)
			}
		}
		return timer.run("read", func(report func(int, int)) error {
			t, err = readTraining(ctx, st, o, report)
			return err
		})
	})
	return t, id, o, err
}

// checkQuery checks a vector that somebody asks with.
func checkQuery(q []float32, dim int) error {
	if len(q) != dim {
		return fmt.Errorf("%w: %d coordinates, want %d", ErrDimension, len(q), dim)
	}
	// A finite sum of squares has finite terms: one pass usually is enough.
	if n := vector.Dot(q, q); n <= math.MaxFloat32 {
		return nil
	}
	if i := vector.IsFinite(q); i >= 0 {
		return fmt.Errorf("%w: coordinate %d is %g", ErrNotFinite, i, q[i])
	}
	return fmt.Errorf("%w: length %.3g, want less than %.3g", ErrNorm, math.Sqrt(squaredNorm(q)), MaxNorm)
}

// readTraining copies all rows out of the map.
func readTraining(ctx context.Context, st *collState, o BuildOptions, report func(int, int)) (*training, error) {
	view, err := st.rows(ctx)
	if err != nil {
		return nil, err
	}
	n, dim := view.Rows.N, st.c.Dim
	data := make([]float32, n*dim)
	for i := range n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("db: build: %w", err)
			}
			report(i, n)
		}
		dst := data[i*dim : (i+1)*dim]
		if src := view.Rows.Vector(i, dst); &src[0] != &dst[0] {
			copy(dst, src)
		}
	}
	t := &training{own: true, dim: dim, metric: st.c.Metric}
	t.corpus.rows, t.lift = prepare(st.c.Metric, data, n, dim)
	if view.Deleted != nil {
		t.corpus.ids = make([]uint32, 0, st.c.Live)
		for row := range uint32(n) {
			if !view.Deleted.Contains(row) {
				t.corpus.ids = append(t.corpus.ids, row)
			}
		}
	}
	t.points = t.corpus
	if len(o.TrainingQueries) > 0 {
		t.own = false
		t.points = subset{rows: prepareQueries(st.c.Metric, o.TrainingQueries, dim, t.lift)}
	}
	return t, nil
}

// dropped is the error of a build whose collection was dropped meanwhile.
func dropped(coll string) error {
	return fmt.Errorf("%w: %q: the collection was dropped during the build", ErrNoCollection, coll)
}

// tuneOn tunes on the rows as they are stored, in a snapshot of its own.
func (d *DB) tuneOn(ctx context.Context, coll string, id uint64, l *learned, t *training, o BuildOptions, timer *stageTimer) (_ BuildOptions, err error) {
	err = d.View(func(s *Snapshot) (err error) {
		defer guard(s.gen.store, setFaults(), &err)
		st, err := s.collection(coll)
		if err != nil {
			return err
		}
		if st.c.ID != id {
			return dropped(coll)
		}
		view, err := st.rows(ctx)
		if err != nil {
			return err
		}
		base := *view
		base.Rows.N = l.n // rows written since the build began are not in the truth
		base.N = l.n
		o, err = l.tune(ctx, s.gen.store, t, &base, o, timer)
		return err
	})
	return o, err
}

// product is what a build or a step of maintenance makes, before it is written.
type product interface {
	// emit hands every new block to the sink and returns the manifest of the index
	// with them, with its size by section. object is the number of the first new
	// object, the manifest's the last. It may be called again, with others.
	emit(object uint64, sink blockSink) (*manifest, error)
}

// built is the product of a build.
type built interface {
	product
	// describe fills in what the product knows about itself.
	describe(*IndexInfo)
}

// storeIndex writes a learned index and publishes it.
func (d *DB) storeIndex(ctx context.Context, coll string, id uint64, name string, l built, timer *stageTimer) (info IndexInfo, err error) {
	start := time.Now()
	var object uint64
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		cat.Object++
		object = cat.Object
		return putMark(tx, object)
	})
	if err != nil {
		return info, err
	}
	published := false
	defer func() {
		if !published {
			// The mark stays if this fails, and the next Open removes the rest.
			err = errors.Join(err, d.sweep([]uint64{object}))
		}
	}()
	m, err := d.stage(ctx, l, object, timer)
	if err != nil {
		return info, err
	}
	timer.seconds["write"] += time.Since(start).Seconds()
	l.describe(&m.Info)
	m.Info.Name, m.Info.Created, m.Info.BuildSeconds, m.Info.BuildMemory = name, time.Now().UTC(), timer.seconds, timer.memory
	timer.keep(&m.Info)
	replaced, err := d.publishIndex(ctx, coll, id, m)
	if err != nil {
		return info, err
	}
	published = true
	if len(replaced) > 0 {
		err = d.sweep(replaced)
	}
	return m.Info, err
}

// stage writes the blocks of an index in transactions of about stageBytes.
func (d *DB) stage(ctx context.Context, l product, object uint64, timer *stageTimer) (*manifest, error) {
	type pair struct {
		key   [codec.KeySize]byte
		value []byte
	}
	var batch []pair
	size, written := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := d.exclusive(ctx, func(tx *bbolt.Tx, _ *catalog) error {
			b := tx.Bucket(bucketBlocks)
			for _, p := range batch {
				if err := b.Put(p.key[:], p.value); err != nil {
					return fmt.Errorf("db: put block: %w", err)
				}
			}
			return nil
		})
		written += size
		batch, size = batch[:0], 0
		if timer.progress != nil {
			timer.progress(Progress{Stage: "write", Done: written})
		}
		return err
	}
	m, err := l.emit(object, func(key [codec.KeySize]byte, value []byte) error {
		batch = append(batch, pair{key, value})
		if size += len(value); size >= stageBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// publishIndex makes an index visible and returns the objects it replaces.
func (d *DB) publishIndex(ctx context.Context, coll string, id uint64, m *manifest) (replaced []uint64, err error) {
	data, err := encodeManifest(m)
	if err != nil {
		return nil, err
	}
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		c := cat.byID(id)
		if c == nil {
			return dropped(coll)
		}
		if err := refuseCycle(tx, c, m); err != nil {
			return err
		}
		if err := putManifest(tx, m.Object, data); err != nil {
			return err
		}
		if r := c.index(m.Info.Name); r != nil {
			replaced = r.objects()
			for _, object := range replaced {
				if err := putMark(tx, object); err != nil {
					return err
				}
			}
			r.Object, r.Parts = m.Object, nil
		} else {
			c.Indexes = append(c.Indexes, indexRef{Name: m.Info.Name, Object: m.Object})
		}
		return deleteMark(tx, m.Object)
	})
	return replaced, err
}

// DropIndex removes an index. Snapshots taken before go on using it.
//
// Errors: ErrNoCollection, ErrNoIndex, ErrReadOnly, ErrClosed, ErrNoSpace,
// ErrStateUnknown and the context's.
func (d *DB) DropIndex(ctx context.Context, coll, name string) error {
	return d.restructure(ctx, func(_ *bbolt.Tx, cat *catalog) ([]uint64, error) {
		c, err := cat.find(coll)
		if err != nil {
			return nil, err
		}
		r := c.index(name)
		if r == nil {
			return nil, noIndex(c, name)
		}
		gone := r.objects()
		c.Indexes = slices.DeleteFunc(c.Indexes, func(x indexRef) bool { return x.Name == name })
		return gone, nil
	})
}

func noIndex(c *collection, name string) error {
	return fmt.Errorf("%w: %q in collection %q, which has %q", ErrNoIndex, name, c.Name, c.info().Indexes)
}
