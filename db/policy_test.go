package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query/lcif"
)

// quickModel are parameters of a label model that needs no tuner.
var quickModel = &lcif.Params{K: 5, Lambda: 0.5}

// policyBed is a database whose background maintenance does what the test calls.
type policyBed struct {
	t *testing.T
	d *DB
	// during, if not nil, is called once with the context of the next build of a forest.
	during func(ctx context.Context)
}

// newPolicyBed returns a bed with lower limits. It replaces kinds of indexes, so a test with a bed
// does not run in parallel with others.
func newPolicyBed(t *testing.T, o maintenance.Policy) *policyBed {
	t.Helper()
	b := &policyBed{t: t}
	saved := limits
	limits.Coordinates, limits.Retry = 10_000, 0
	for name, of := range kinds {
		if _, ok := of.(forestindex.Kind); ok {
			kinds[name] = observedKind{of, b}
			t.Cleanup(func() { kinds[name] = of })
		}
	}
	t.Cleanup(func() { limits = saved })
	o.Every, o.CPU = 24*time.Hour, 1
	b.d = openTemp(t, &Options{NoSync: true, Maintenance: &o})
	return b
}

// observedKind is a kind of index whose builds a bed can observe.
type observedKind struct {
	kind.Kind
	b *policyBed
}

func (k observedKind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	if f := k.b.during; f != nil {
		k.b.during = nil
		f(ctx)
	}
	return k.Kind.Build(ctx, job)
}

func (b *policyBed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// step looks for work and does one step, as the goroutine of background maintenance.
func (b *policyBed) step() (string, error) {
	b.t.Helper()
	b.d.background.Look()
	s, err := b.d.background.Step(b.t.Context())
	b.during = nil
	if s == nil {
		return "", err
	}
	return s.Action, err
}

// steps checks the actions of the next steps; empty means none.
func (b *policyBed) steps(want ...string) {
	b.t.Helper()
	for _, w := range want {
		if got, err := b.step(); got != w || err != nil {
			b.t.Fatalf("step %q, %v, want %q", got, err, w)
		}
	}
}

// indexes checks the indexes of a collection.
func (b *policyBed) indexes(coll string, want ...string) {
	b.t.Helper()
	infos, err := b.d.Collection(coll).Indexes()
	b.must(err)
	var got []string
	for _, x := range infos {
		got = append(got, x.Name)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("%s has the indexes %q, want %q", coll, got, want)
	}
}

// clean checks the file, and that no build has left blocks in it.
func (b *policyBed) clean() {
	b.t.Helper()
	b.must(b.d.Check(b.t.Context(), func(e *CorruptError) { b.t.Error(e) }, nil))
	b.must(viewTx(b.d, func(tx *bbolt.Tx) error {
		if left := layout.OrphanMarks(tx); len(left) > 0 {
			return fmt.Errorf("objects %d are left", left)
		}
		return nil
	}))
}

// fill writes rows with the keys from, from+1, ... of a sparse or dense collection, which it
// creates if from is 0.
func (b *policyBed) fill(coll string, from, to int) {
	b.t.Helper()
	ctx, schema := b.t.Context(), Schema{Dim: 16}
	if coll == "sparse" {
		schema = Schema{Sparse: true}
	}
	if from == 0 {
		b.must(create(ctx, b.d, coll, schema))
	}
	rng := rand.New(rand.NewPCG(uint64(from), 1))
	n, err := b.d.Collection(coll).Load(ctx, func(yield func(Row, error) bool) {
		for i := from; i < to; i++ {
			r := Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}}
			if coll == "sparse" {
				r.Sparse = randomSparse(rng, 4, 300)
			} else {
				r.Vector = randomVector(rng)
			}
			if !yield(r, nil) {
				return
			}
		}
	}, nil)
	if err != nil || n != to-from {
		b.t.Fatal(n, err)
	}
}

// remove deletes the rows with the keys from, from+1, ...
func (b *policyBed) remove(coll string, from, to int) {
	b.t.Helper()
	b.must(b.d.Update(b.t.Context(), func(tx *Tx) error {
		for i := from; i < to; i++ {
			if err := tx.Collection(coll).Delete(fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func randomVector(rng *rand.Rand) []float32 {
	x, centre := make([]float32, 16), rng.IntN(20)
	for i := range x {
		x[i] = float32((centre*(i+3))%7) + rng.Float32()
	}
	return x
}

// hits returns the keys that a search finds.
func hits(c Collection, q Query, index string) (keys []string, used string, err error) {
	res, err := c.Search(context.Background(), q, &SearchOptions{Index: index})
	for _, h := range res.Hits {
		keys = append(keys, string(h.Key))
	}
	return keys, res.Index, err
}

// TestMaintenanceBuilds: collections with enough rows get an index, which searches use and
// maintenance keeps up to date.
func TestMaintenanceBuilds(t *testing.T) {
	b := newPolicyBed(t, maintenance.Policy{})
	b.fill("dense", 0, 1500)
	b.fill("sparse", 0, 2000)
	b.fill("small", 0, 900)
	b.steps("", "build", "build", "")
	b.indexes("dense", "auto")
	b.indexes("sparse", "auto")
	b.indexes("small")
	st, err := b.d.Stats()
	if m := st.Maintenance; err != nil || m.Steps != 2 || m.Error != "" || m.Last.Action != "build" ||
		m.Last.Collection != "sparse" || m.Last.Index != "auto" || m.Last.Rows != 2000 || m.Working {
		t.Errorf("%+v, %v", m, err)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	found := 0
	for range 50 {
		for coll, q := range map[string]Query{
			"dense": {Vector: randomVector(rng)}, "sparse": {Sparse: randomSparse(rng, 4, 300)},
		} {
			want, _, err1 := hits(b.d.Collection(coll), q, Flat)
			got, used, err2 := hits(b.d.Collection(coll), q, "")
			if err := errors.Join(err1, err2); err != nil || used != "auto" {
				t.Fatalf("%s: searched %q, %v", coll, used, err)
			}
			if coll == "sparse" && !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
			for _, k := range got {
				if coll == "dense" && slices.Contains(want, k) {
					found++
				}
			}
		}
	}
	if recall := float64(found) / 500; recall < 0.93 {
		t.Errorf("recall %.3f, want 0.95", recall)
	}
	b.fill("dense", 1500, 1560)
	b.steps("segment", "")
	b.clean()
}

// TestMaintenanceBuildsNot: no index is built of rows that are being imported, beyond the
// bounds, or if that is turned off.
func TestMaintenanceBuildsNot(t *testing.T) {
	for name, o := range map[string]maintenance.Policy{"off": {NoBuild: true}, "memory": {Memory: 1000}} {
		t.Run(name, func(t *testing.T) {
			b := newPolicyBed(t, o)
			b.fill("dense", 0, 1500)
			b.fill("sparse", 0, 2000)
			b.steps("", "", "")
		})
	}
	t.Run("room", func(t *testing.T) {
		defer func(f func(string) int64) { store.Room = f }(store.Room)
		store.Room = func(string) int64 { return 1000 }
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1500)
		b.steps("", "", "")
		store.Room = func(string) int64 { return store.UnknownRoom }
		b.d.compactor.Store.MaxSize = 1
		b.steps("")
		b.d.compactor.Store.MaxSize = 0
		b.steps("build")
	})
	t.Run("import", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1500)
		b.steps("")
		b.fill("dense", 1500, 1800)
		b.steps("")
		b.fill("dense", 1800, 1900)
		b.steps("build")
	})
	t.Run("name", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("sparse", 0, 2000)
		_, err := b.d.Collection("sparse").Build(t.Context(), "auto", &index.LCIF{Params: quickModel}, nil)
		b.must(err)
		b.steps("", "", "")
		b.indexes("sparse", "auto")
	})
}

// TestMaintenanceRespectsDrop: once the program has dropped an index that finds rows, it is not
// built again: not later, not after a compaction, and not when the file is opened again.
func TestMaintenanceRespectsDrop(t *testing.T) {
	for _, name := range []string{"auto", "main"} {
		t.Run(name, func(t *testing.T) {
			b := newPolicyBed(t, maintenance.Policy{})
			ctx, coll := t.Context(), b.d.Collection("sparse")
			b.fill("sparse", 0, 2000)
			if name == "auto" {
				b.steps("", "build")
			} else {
				_, err := coll.Build(ctx, name, nil, nil)
				b.must(err)
			}
			b.must(coll.DropIndex(ctx, name))
			b.steps("", "", "")
			b.remove("sparse", 0, 1200) // a compaction renumbers the rows
			err := b.d.Compact(ctx, nil)
			b.must(err)
			b.fill("sparse", 2000, 4000)
			b.steps("", "", "")
			path := b.d.Path()
			b.must(b.d.Close())
			b.d, err = Open(ctx, path, &Options{NoSync: true, Maintenance: &maintenance.Policy{Every: 24 * time.Hour}})
			b.must(err)
			defer func() { b.must(b.d.Close()) }()
			b.steps("", "", "")
			b.indexes("sparse")
		})
	}
	t.Run("label model", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("sparse", 0, 2000)
		_, err := b.d.Collection("sparse").Build(t.Context(), "model", &index.LCIF{Params: quickModel}, nil)
		b.must(err)
		b.must(b.d.Collection("sparse").DropIndex(t.Context(), "model"))
		b.steps("", "build")
	})
}

// TestProgramBuilds: an index that the program builds takes the place of the automatic one,
// before, during and after its build.
func TestProgramBuilds(t *testing.T) {
	build := func(b *policyBed, name string, o index.Options) {
		b.t.Helper()
		_, err := b.d.Collection("dense").Build(context.Background(), name, o, nil)
		b.must(err)
	}
	used := func(b *policyBed, want string) {
		b.t.Helper()
		_, got, err := hits(b.d.Collection("dense"), Query{Vector: make([]float32, 16)}, "")
		if err != nil || got != want {
			b.t.Errorf("searched %q, %v, want %q", got, err, want)
		}
	}
	quick := &index.Forest{Seed: 3}
	t.Run("before", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("")
		done := b.d.background.LeaveTo("dense") // as while Build runs
		b.steps("")
		build(b, "main", quick)
		done()
		b.steps("", "")
		b.indexes("dense", "main")
	})
	t.Run("during", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("")
		b.during = func(ctx context.Context) {
			build(b, "main", quick)
			if ctx.Err() == nil {
				t.Error("the build by maintenance continues")
			}
		}
		if s, err := b.step(); s != "" || err != nil {
			t.Errorf("step %q, %v", s, err)
		}
		b.steps("")
		b.indexes("dense", "main")
		b.clean()
	})
	t.Run("during, not noticed", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("")
		b.during = func(context.Context) {
			_, err := b.d.indexes.Build(t.Context(), segment.Request{Collection: "dense", Name: "main", Options: &index.Forest{}})
			b.must(err)
		}
		b.steps("", "")
		b.indexes("dense", "main")
		b.clean()
	})
	t.Run("after", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("", "build")
		old, err := b.d.Snapshot()
		b.must(err)
		defer old.Release()
		build(b, "model", &index.LCIF{Neighbors: Flat, Params: quickModel})
		b.fill("dense", 1000, 1040)
		b.steps("segment")
		b.fill("dense", 1040, 1300)
		b.steps("relearn")
		b.indexes("dense", "auto", "model")
		build(b, "main", quick)
		b.indexes("dense", "main", "model")
		used(b, "main")
		_, got, err := hits(old.Collection("dense"), Query{Vector: make([]float32, 16)}, "")
		if err != nil || got != "auto" {
			t.Errorf("a snapshot taken before: searched %q, %v", got, err)
		}
		b.clean()
	})
	t.Run("after, same name", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("", "build")
		build(b, "auto", quick)
		build(b, "main", quick)
		b.indexes("dense", "auto", "main") // both are the program's
		b.steps("")
	})
	t.Run("in use", func(t *testing.T) {
		b := newPolicyBed(t, maintenance.Policy{})
		b.fill("dense", 0, 1000)
		b.steps("", "build")
		build(b, "model", &index.LCIF{Params: quickModel})
		build(b, "main", quick)
		b.indexes("dense", "auto", "main", "model")
		used(b, "main")
		err := b.d.Compact(t.Context(), &CompactOptions{Reorder: true}) // rebuilds all indexes
		b.must(err)
		b.indexes("dense", "auto", "main", "model")
		used(b, "main")
		b.clean()
	})
}

// TestLargeStepsYield: builds and compactions in the background end when they are paused, and
// when a call of the program has to wait for them. They leave nothing.
func TestLargeStepsYield(t *testing.T) {
	calls := map[string]func(d *DB) error{
		"pause":   func(d *DB) error { d.PauseMaintenance(); return nil },
		"compact": func(d *DB) error { return d.Compact(context.Background(), nil) },
	}
	for name, call := range calls {
		t.Run("build, "+name, func(t *testing.T) {
			b := newPolicyBed(t, maintenance.Policy{})
			b.fill("dense", 0, 1500)
			b.steps("")
			done := make(chan error, 1)
			b.during = func(ctx context.Context) {
				if st, err := b.d.Stats(); err != nil || !st.Maintenance.Working {
					t.Errorf("during a build: %+v, %v", st.Maintenance, err)
				}
				go func() { done <- call(b.d) }()
				<-ctx.Done()
			}
			s, _ := b.step()
			if err := <-done; s != "" || err != nil {
				t.Errorf("step %q, call %v", s, err)
			}
			b.indexes("dense")
			b.clean()
			b.d.background.Resume()
			b.steps("build")
		})
	}
}

// TestCloseDuringBuild closes a database that builds an index: the next one that opens the file
// finds none, and nothing of it.
func TestCloseDuringBuild(t *testing.T) {
	b := newPolicyBed(t, maintenance.Policy{})
	b.fill("dense", 0, 3000)
	path := b.d.Path()
	b.must(b.d.Close())
	building := make(chan struct{})
	b.during = func(context.Context) { close(building) }
	d, err := Open(t.Context(), path, &Options{NoSync: true, Maintenance: &maintenance.Policy{Every: time.Millisecond, CPU: 1}})
	b.must(err)
	<-building
	b.must(d.Close())
	d, err = Open(t.Context(), path, &Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	b.must(err)
	defer func() { b.must(d.Close()) }()
	b.d = d
	b.indexes("dense")
	b.clean()
}

// failingKind is a kind of index whose builds fail.
type failingKind struct {
	kind.Kind
	tried *int
}

var errFailingKind = errors.New("boom")

func (k failingKind) Build(context.Context, *kind.Job) (kind.Built, error) {
	*k.tried++
	return nil, errFailingKind
}

// TestMaintenanceFails: a build that fails is reported, and repeated when the collection has
// grown. It does not keep other collections from getting an index.
func TestMaintenanceFails(t *testing.T) {
	of := kinds[postingsindex.Name]
	defer func() { kinds[postingsindex.Name] = of }()
	b := newPolicyBed(t, maintenance.Policy{})
	b.fill("sparse", 0, 2000)
	b.fill("dense", 0, 1500)
	b.steps("")
	tried := 0
	kinds[postingsindex.Name] = failingKind{of, &tried}
	try := func(want string) {
		t.Helper()
		if s, err := b.step(); s != want || !errors.Is(err, errFailingKind) {
			t.Errorf("step %q, %v, want %q and an error", s, err, want)
		}
	}
	try("")
	try("build") // of the other collection
	b.indexes("dense", "auto")
	tried = 0
	try("")
	if st, err := b.d.Stats(); err != nil || st.Maintenance.Error != `db: build an index of "sparse": boom` {
		t.Errorf("%+v, %v", st.Maintenance, err)
	}
	if tried > 0 {
		t.Error("a failed build was repeated at once")
	}
	b.fill("sparse", 2000, 2400)
	if s, err := b.step(); s != "" || err != nil {
		t.Errorf("while rows are imported: %q, %v", s, err)
	}
	try("")
	if tried != 1 {
		t.Errorf("a failed build was repeated %d times", tried)
	}
}

// padding yields rows of n MiB in total.
func padding(n int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		random := rand.NewChaCha8([32]byte{})
		for i := range n {
			r := Row{Key: fmt.Append(nil, i), Payload: make([]byte, 1<<20), Vector: make([]float32, 16)}
			random.Read(r.Payload)
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestMaintenanceCompacts: a file that is mostly free is compacted once, while snapshots are
// held. Rows keep their numbers while at most half of them are deleted.
func TestMaintenanceCompacts(t *testing.T) {
	b := newPolicyBed(t, maintenance.Policy{NoBuild: true})
	ctx := t.Context()
	b.fill("dense", 0, 900)
	b.remove("dense", 0, 450)
	b.must(create(ctx, b.d, "padding", Schema{Dim: 16}))
	_, err := b.d.Collection("padding").Load(ctx, padding(24), nil)
	b.must(err)
	b.steps("")
	snap, err := b.d.Snapshot()
	b.must(err)
	defer snap.Release()
	rows := roaring.BitmapOf(600, 700)
	made := filterOf(t, b.d, "dense", rows)
	b.must(b.d.Drop(ctx, "padding"))
	before, err := os.Stat(b.d.Path())
	b.must(err)

	room := store.Room
	defer func() { store.Room = room }()
	store.Room = func(string) int64 { return 1 << 10 }
	b.steps("")
	store.Room = room
	b.steps("compact", "", "")
	after, err := os.Stat(b.d.Path())
	b.must(err)
	if after.Size() > before.Size()/4 {
		t.Errorf("%d bytes, %d before", after.Size(), before.Size())
	}
	st, err := b.d.Stats()
	want := maintenance.Step{Action: "compact", Seconds: st.Maintenance.Last.Seconds}
	if m := st.Maintenance; err != nil || m.Steps != 1 || m.Last != want || m.Error != "" {
		t.Errorf("%+v, %v", m, err)
	}
	if n, err := snap.Collection("padding").Count(t.Context(), nil); err != nil || n != 24 {
		t.Errorf("the snapshot has %d rows, %v", n, err)
	}
	q := Query{Vector: make([]float32, 16)}
	res, err := b.d.Collection("dense").Search(ctx, q, &SearchOptions{Where: made})
	if err != nil || len(res.Hits) != 2 || !rows.Contains(res.Hits[0].Row) {
		t.Errorf("by a filter made before: %v, %v", res.Hits, err)
	}
	b.clean()
}

// TestMaintenanceDropsDeletedRows: where more than half of a collection's rows are deleted, they leave the
// file, the indexes are rebuilt, and filters of row numbers that were made before are refused. A collection
// whose rows cannot get new numbers is not tried again.
func TestMaintenanceDropsDeletedRows(t *testing.T) {
	ctx := t.Context()
	for _, space := range []float64{0, 1} {
		b := newPolicyBed(t, maintenance.Policy{NoBuild: true, Space: space})
		b.fill("dense", 0, 900)
		c := b.d.Collection("dense")
		_, err := c.Build(ctx, "main", &index.Forest{Trees: 2, Seed: 3, Holdout: 20}, nil)
		b.must(err)
		b.remove("dense", 0, 451)
		made := filterOf(t, b.d, "dense", roaring.BitmapOf(600, 700))
		_, err = b.d.Maintain(ctx, 0, nil)
		b.must(err)
		info, err := c.Info()
		b.must(err)
		if space == 1 {
			b.steps("")
			continue
		}
		b.steps("compact", "", "")
		now, err := c.Info()
		if err != nil || info.Live != 449 || now.Live != 449 || now.Rows != 449 {
			t.Errorf("%d rows, %d live, before %d live, %v", now.Rows, now.Live, info.Live, err)
		}
		if x, err := c.Index("main"); err != nil || x.Rows != 449 || x.Fresh != 0 {
			t.Errorf("index %+v, %v", x, err)
		}
		q := Query{Vector: make([]float32, 16)}
		_, err = c.Search(ctx, q, &SearchOptions{Where: made})
		if _, ok := errors.AsType[*filter.Error](err); !ok {
			t.Errorf("by a filter made before: %v", err)
		}
		// Without rows the index cannot be rebuilt.
		b.remove("dense", 451, 900)
		b.steps("")
		b.clean()
	}
}

// TestCompactionFails: a compaction that fails is reported, and not repeated before there are
// more free pages.
func TestCompactionFails(t *testing.T) {
	b := newPolicyBed(t, maintenance.Policy{})
	ctx := t.Context()
	fill := func(n int) {
		b.must(create(ctx, b.d, "padding", Schema{Dim: 16}))
		_, err := b.d.Collection("padding").Load(ctx, padding(n), nil)
		b.must(err)
		b.must(b.d.Drop(ctx, "padding"))
	}
	fill(48)
	file := b.d.compactor.Target
	b.d.compactor.Target = filepath.Join(t.TempDir(), "none", "db")
	_, first := b.step()
	if first == nil {
		t.Fatal("no error")
	}
	b.d.compactor.Target = file
	if s, err := b.step(); s != "" || err == nil || err.Error() != first.Error() {
		t.Errorf("step %q, %v, want the error of before", s, err)
	}
	fill(100)
	b.steps("compact", "")
}

// TestMaintenanceCompactsNot: a file is not compacted if the share of free pages is not above the
// bound.
func TestMaintenanceCompactsNot(t *testing.T) {
	b := newPolicyBed(t, maintenance.Policy{Space: 1})
	b.must(create(t.Context(), b.d, "padding", Schema{Dim: 16}))
	_, err := b.d.Collection("padding").Load(t.Context(), padding(24), nil)
	b.must(err)
	b.must(b.d.Drop(t.Context(), "padding"))
	b.steps("", "")
}
