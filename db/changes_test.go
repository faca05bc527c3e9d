package db

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// changedBase is a file with the dense collection "d" and the sparse one "s" of n rows each. Row i
// has the key "i", the label "l" and i modulo 3, and the payload "p".
func changedBase(t *testing.T, n, dim int) (*DB, string) {
	t.Helper()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "x.anndb")
	d, err := Open(ctx, path, &Options{NoSync: true})
	if err == nil {
		t.Cleanup(func() { _ = d.Close() }) // a test may have closed it
		err = errors.Join(create(ctx, d, "d", Schema{Dim: dim}), create(ctx, d, "s", Schema{Sparse: true}))
	}
	if err == nil {
		err = d.Update(ctx, func(b *Tx) error { return putChanged(b, 0, n, dim) })
	}
	must(t, err)
	return d, path
}

// putChanged puts rows of changedBase.
func putChanged(b *Tx, from, to, dim int) error {
	for i := from; i < to; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		r := Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}, Payload: []byte("p")}
		x := r
		for range dim {
			r.Vector = append(r.Vector, rng.Float32())
		}
		x.Sparse = vector.Sparse{
			Index: []uint32{uint32(i % 3), uint32(3 + rng.IntN(10)), uint32(13 + rng.IntN(10))},
			Value: []float32{1, 1, 2},
		}
		if err := errors.Join(b.Collection("d").Put(r), b.Collection("s").Put(x)); err != nil {
			return err
		}
	}
	return nil
}

// relabel gives a row of both collections labels.
func relabel(t *testing.T, d *DB, i int, labels ...string) {
	t.Helper()
	err := d.Update(t.Context(), func(b *Tx) error {
		key := fmt.Append(nil, i)
		return errors.Join(b.Collection("d").SetLabels(key, labels...), b.Collection("s").SetLabels(key, labels...))
	})
	must(t, err)
}

// TestChangesOfOneKey: changes of one key compose within a transaction.
func TestChangesOfOneKey(t *testing.T) {
	key, other := []byte("1"), []byte("none")
	put := func(b *Tx) error {
		return b.Collection("d").Put(Row{Key: key, Vector: []float32{7, 7}, Labels: []string{"put"}, Payload: []byte("put")})
	}
	insert := func(b *Tx) error { return b.Collection("d").Insert(Row{Key: other, Vector: []float32{7, 7}}) }
	del := func(b *Tx) error { return b.Collection("d").Delete(key) }
	labels := func(b *Tx) error { return b.Collection("d").SetLabels(key, "z", "a", "z") }
	payload := func(b *Tx) error { return b.Collection("d").SetPayload(key, []byte("new")) }
	none := func(b *Tx) error { return b.Collection("d").SetLabels(other, "a") }
	for _, c := range []struct {
		name  string
		do    []func(*Tx) error
		last  error  // of the last call
		want  string // labels, payload and first coordinate, empty if the row is deleted
		moved bool   // the row gets a new number
	}{
		{"labels", []func(*Tx) error{labels}, nil, "[a z] p old", false},
		{"payload", []func(*Tx) error{payload}, nil, "[l1] new old", false},
		{"both", []func(*Tx) error{labels, payload}, nil, "[a z] new old", false},
		{"put, labels", []func(*Tx) error{put, labels}, nil, "[a z] put 7", true},
		{"put, payload", []func(*Tx) error{put, payload}, nil, "[put] new 7", true},
		{"labels, put", []func(*Tx) error{labels, put}, nil, "[put] put 7", true},
		{"labels, put, payload", []func(*Tx) error{labels, put, payload}, nil, "[put] new 7", true},
		{"labels, delete", []func(*Tx) error{labels, del}, nil, "", true},
		{"delete, labels", []func(*Tx) error{del, labels}, fail.NoRow, "", true},
		{"labels, delete, put", []func(*Tx) error{labels, del, put}, nil, "[put] put 7", true},
		{"put, delete, payload", []func(*Tx) error{put, del, payload}, fail.NoRow, "", true},
		{"no such row", []func(*Tx) error{none}, fail.NoRow, "[l1] p old", false},
		{"insert, labels", []func(*Tx) error{insert, none}, nil, "[l1] p old", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := changedBase(t, 3, 2)
			read := func(get func() (Row, error)) string {
				r, err := get()
				if errors.Is(err, fail.NoRow) {
					return ""
				} else if err != nil {
					t.Fatal(err)
				}
				x := "old"
				if r.Vector[0] == 7 {
					x = "7"
				}
				return fmt.Sprintf("%v %s %s", r.Labels, r.Payload, x)
			}
			err := d.Update(t.Context(), func(b *Tx) (err error) {
				for _, f := range c.do {
					if err != nil {
						return err
					}
					err = f(b)
				}
				if !errors.Is(err, c.last) {
					t.Errorf("the last call returns %v, want %v", err, c.last)
				}
				if got := read(func() (Row, error) { return b.Collection("d").Get(key) }); got != c.want {
					t.Errorf("the transaction reads %q, want %q", got, c.want)
				}
				return nil
			})
			must(t, err)
			err = d.View(func(s *Snapshot) error {
				r, err := s.Collection("d").Get(key)
				if err == nil && (r.Row != 1) != c.moved {
					t.Errorf("row %d", r.Row)
				}
				if got := read(func() (Row, error) { return r, err }); got != c.want {
					t.Errorf("after the commit: %q, want %q", got, c.want)
				}
				return nil
			})
			if err := errors.Join(err, mustCheck(d)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChangeOfDeletedRow: a change is deleted with its row, or with the row that is replaced.
func TestChangeOfDeletedRow(t *testing.T) {
	d, _ := changedBase(t, 9, 2)
	for i := range 4 {
		relabel(t, d, i, "changed")
	}
	err := d.Update(t.Context(), func(b *Tx) error {
		return errors.Join(b.Collection("d").Delete([]byte("1")), b.Collection("s").Delete([]byte("1")),
			putChanged(b, 2, 3, 2))
	})
	must(t, err)
	n := 0
	for k := range storedPairs(t, d) {
		if kindInKey(k) == codec.KindChange {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d changes are stored, want those of two rows in each collection", n)
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// TestChangeErrors: a change that is refused fails the Update, except for one of a missing row.
func TestChangeErrors(t *testing.T) {
	d, _ := changedBase(t, 3, 2)
	for _, c := range []struct {
		name string
		do   func(b *Tx) error
		want error
	}{
		{"empty label", func(b *Tx) error { return b.Collection("d").SetLabels([]byte("1"), "") }, fail.Label},
		{"many labels", func(b *Tx) error {
			return b.Collection("d").SetLabels([]byte("1"), make([]string, rows.MaxLabels+1)...)
		}, fail.Label},
		{"large payload", func(b *Tx) error { return b.Collection("d").SetPayload([]byte("1"), make([]byte, rows.MaxPayload+1)) }, fail.Payload},
		{"empty key", func(b *Tx) error { return b.Collection("d").SetLabels(nil) }, fail.Key},
		{"no collection", func(b *Tx) error { return b.Collection("none").SetLabels([]byte("1")) }, fail.NoCollection},
	} {
		err := d.Update(t.Context(), func(b *Tx) error {
			if err := c.do(b); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			return b.Collection("d").SetPayload([]byte("2"), []byte("must not be written"))
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: the update returns %v, want %v", c.name, err, c.want)
		}
	}
	var late *Tx
	must(t, d.Update(t.Context(), func(b *Tx) error { late = b; return nil }))
	if err := late.Collection("d").SetLabels([]byte("1")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Update has returned: %v", err)
	}
	if err := d.View(func(s *Snapshot) error {
		r, err := s.Collection("d").Get([]byte("2"))
		if string(r.Payload) != "p" {
			t.Errorf("payload %q", r.Payload)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// storedPairs returns the checksums of all values in the file, by bucket and key.
func storedPairs(t *testing.T, d *DB) map[string]uint32 {
	t.Helper()
	out := map[string]uint32{}
	err := viewTx(d, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				out[string(name)+string(k)] = crc32.ChecksumIEEE(v)
				return nil
			})
		})
	})
	must(t, err)
	return out
}

// TestChangeWritesLittle changes a sealed row of 784 coordinates in a collection with a forest,
// and one with an inverted index: no block of vectors, rows or indexes is written, indexes are
// not behind, and the transaction writes a few pages.
func TestChangeWritesLittle(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, _ := changedBase(t, 1100, 784)
	for coll, o := range map[string]IndexOptions{"d": &Forest{NoTune: true, Seed: 1}, "s": nil} {
		if _, err := d.Collection(coll).Build(ctx, "x", o, nil); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := d.Collections(); err != nil || c[0].Sealed == 0 || c[1].Sealed == 0 {
		t.Fatalf("no row is sealed: %+v, %v", c, err)
	}
	relabel(t, d, 2, "a", "label") // new labels
	allocated := func() int64 {
		stats := d.txn.File().Stats()
		return stats.TxStats.GetPageAlloc()
	}
	before, pages := storedPairs(t, d), allocated()
	relabel(t, d, 1, "a", "label")
	pages = allocated() - pages
	after := storedPairs(t, d)
	for k, sum := range after {
		if before[k] == sum {
			continue
		}
		switch kind := kindInKey(k); {
		case strings.HasPrefix(k, string(layout.BucketSets)), strings.HasPrefix(k, string(layout.BucketMeta)) && kind == codec.KindCatalog,
			strings.HasPrefix(k, string(layout.BucketTail)) && kind == codec.KindChange:
		default:
			t.Errorf("a block of kind %v was written, key %q", kind, k)
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok && !strings.HasPrefix(k, string(layout.BucketSets)) {
			t.Errorf("%q was deleted", k)
		}
	}
	// A row alone has 3,136 bytes, its chunk 800,000. The pages are those of the paths to five
	// buckets, and the list of free pages.
	if limit := int64(40 * layout.PageSize); pages > limit {
		t.Errorf("%d bytes of pages are allocated, want at most %d", pages, limit)
	}
	commits := d.txn.Commits()
	if relabel(t, d, 1, "label", "a"); d.txn.Commits() != commits {
		t.Error("labels that a row has were written")
	}
	st, err := d.Stats()
	must(t, err)
	for _, i := range st.Indexes {
		if i.Fresh != 0 || i.Relabelled != 0 {
			t.Errorf("index %+v is behind", i)
		}
	}
	if steps, err := d.Maintain(ctx, 0, nil); err != nil || len(steps) > 0 {
		t.Errorf("steps %+v, %v", steps, err)
	}
}

// kindInKey returns the kind of the block with a key that begins with its bucket's name.
func kindInKey(k string) codec.Kind {
	if len(k) < codec.KeySize {
		return codec.KindGeneric
	}
	_, kind, _ := codec.ParseKey([]byte(k[len(k)-codec.KeySize:]))
	return kind
}

// TestLabelsDisappear: a label that no row has is not listed, takes no space once its rows were
// relabelled, and can come again.
func TestLabelsDisappear(t *testing.T) {
	d, _ := changedBase(t, 9, 2)
	labels := func(want string) {
		t.Helper()
		err := d.View(func(s *Snapshot) error {
			all, err := s.Collection("d").Labels()
			if got := fmt.Sprint(all); got != want {
				t.Errorf("labels %v, want %s", got, want)
			}
			for _, l := range all {
				o := &SearchOptions{K: 9, Where: HasLabel(l.Label)}
				found, err := s.Collection("d").Search(t.Context(), Query{Vector: []float32{0, 0}}, o)
				if err != nil || len(found.Hits) != l.Rows {
					t.Errorf("label %s: %d hits, %v", l.Label, len(found.Hits), err)
				}
			}
			return err
		})
		if err := errors.Join(err, mustCheck(d), mustLeaveNothing(d)); err != nil {
			t.Error(err)
		}
	}
	objects := func() (n int) {
		for k := range storedPairs(t, d) {
			if strings.HasPrefix(k, string(layout.BucketLabels)) {
				n++
			}
		}
		return n
	}
	labels("[{l0 3} {l1 3} {l2 3}]")
	for i := range 3 {
		relabel(t, d, 3*i, "only")
	}
	labels("[{l1 3} {l2 3} {only 3}]")
	if n := objects(); n != 6 {
		t.Errorf("%d labels are stored", n)
	}
	relabel(t, d, 3, "l0", "l1")
	labels("[{l0 1} {l1 4} {l2 3} {only 2}]")
	relabel(t, d, 3)
	labels("[{l1 3} {l2 3} {only 2}]")
}

// labelKinds are options of one index of each kind that learns from labels, by collection.
var labelKinds = map[string]map[string]IndexOptions{
	"s": {
		"lcif":  &LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"tfidf": &LCIF{Weight: "tfidf", Params: &lcif.Params{K: 5, Lambda: 0.5}},
		"pt":    &Trees{Kind: "pt", Budget: 4},
		"at":    &Trees{Kind: "at", Budget: 4},
	},
	"d": {"sbt": &Trees{Kind: "sbt", Budget: 4}},
}

// behind returns Relabelled of all indexes by name.
func behind(t *testing.T, d *DB) map[string]int {
	t.Helper()
	st, err := d.Stats()
	must(t, err)
	out := map[string]int{}
	for _, i := range st.Indexes {
		if i.Error != "" {
			t.Errorf("index %s: %s", i.Name, i.Error)
		}
		out[i.Name] = i.Relabelled
	}
	peeked, err := Peek(t.Context(), d.Path())
	must(t, err)
	for _, i := range peeked.Indexes {
		if i.Error != "" || i.Relabelled != out[i.Name] {
			t.Errorf("peek: index %s has %d rows relabelled, want %d: %s", i.Name, i.Relabelled, out[i.Name], i.Error)
		}
	}
	return out
}

// TestRelabelledModels: label models are behind by the rows whose labels have changed, and only by
// these; maintenance makes the counts of LCIF those of the present labels.
func TestRelabelledModels(t *testing.T) {
	ctx := t.Context()
	d, path := changedBase(t, 300, 4)
	all := map[string]int{}
	for coll, kinds := range labelKinds {
		for name, o := range kinds {
			if _, err := d.Collection(coll).Build(ctx, name, o, nil); err != nil {
				t.Fatal(err)
			}
			all[name] = 0
		}
	}
	want := func(what string, n int) {
		t.Helper()
		for name := range all {
			all[name] = n
		}
		if got := behind(t, d); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("%s: relabelled %v, want %d", what, got, n)
		}
	}
	maintain := func(share float64, steps bool) {
		t.Helper()
		done, err := d.Maintain(ctx, share, nil)
		if err != nil || (len(done) > 0) != steps {
			t.Fatalf("share %g: steps %+v, %v", share, done, err)
		}
	}
	must(t, d.Update(ctx, func(b *Tx) error {
		for i := range 50 {
			key := fmt.Append(nil, i)
			if err := errors.Join(b.Collection("d").SetPayload(key, []byte("q")), b.Collection("s").SetPayload(key, []byte("q"))); err != nil {
				return err
			}
		}
		return nil
	}))
	want("payloads only", 0)
	maintain(0, false)
	for i := 0; i < 40; i += 2 {
		relabel(t, d, i, fmt.Sprint("l", (i+1)%3))
	}
	relabel(t, d, 2, "l1")
	want("relabelled", 20)
	must(t, d.Update(ctx, func(b *Tx) error {
		return errors.Join(b.Collection("s").Delete([]byte("38")), b.Collection("d").Delete([]byte("38")))
	}))
	want("deleted", 19)
	maintain(0.1, false)
	must(t, errors.Join(mustCheck(d), d.Close()))
	var err error
	if d, err = Open(ctx, path, &Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want("reopened", 19)
	must(t, d.Compact(ctx, nil))
	want("compacted", 19)
	maintain(0.05, true)
	for name, n := range behind(t, d) { // trees stay until a fifth has changed
		if tree := isTree(name); tree && n != 19 || !tree && n != 0 {
			t.Errorf("maintained: %d rows of %s are relabelled", n, name)
		}
	}
	maintain(0, false)
	must(t, mustCheck(d))
	relabel(t, d, 7, "l2")
	if _, err := d.Collection("s").Build(ctx, "at", labelKinds["s"]["at"], nil); err != nil {
		t.Fatal(err)
	}
	if got := behind(t, d); got["at"] != 0 || got["pt"] != 20 || got["lcif"] != 1 {
		t.Errorf("after a build: %v", got)
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// TestRelabelledMeanwhile relabels rows while an index is built, maintained or rebuilt: it is
// then behind by these rows, and maintenance makes up for it.
func TestRelabelledMeanwhile(t *testing.T) {
	t.Parallel()
	for coll, kinds := range labelKinds {
		for name, o := range kinds {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				d, _ := changedBase(t, 200, 4)
				next := 0
				once := func() func(p progress) {
					done := false
					return func(p progress) {
						if (p.Stage == "read" || p.Stage == "postings") && !done {
							done = true
							relabel(t, d, next, fmt.Sprint("l", (next+1)%3))
							next += 2
						}
					}
				}
				if _, err := d.Collection(coll).Build(ctx, name, o, reporting(once())); err != nil {
					t.Fatal(err)
				}
				if got := behind(t, d)[name]; next != 2 || got != 1 {
					t.Fatalf("after the build: %d rows relabelled, want 1 of %d", got, next/2)
				}
				must(t, d.Update(ctx, func(b *Tx) error { return putChanged(b, 200, 205, 4) }))
				// The step absorbs the row; another one is relabelled during it, and absorbed by the
				// next step. Nothing is left then. Trees stay.
				left := 0
				if isTree(name) {
					left = 1
				} else if steps, err := d.Maintain(ctx, 0, reporting(once())); err != nil || len(steps) != 2 || next != 4 {
					t.Fatalf("steps %+v, %v", steps, err)
				}
				if got := behind(t, d)[name]; got != left {
					t.Errorf("after maintenance: %d rows relabelled, want %d", got, left)
				}
				for i := 50; i < 120; i++ { // so many that trees are retrained, while another row is relabelled
					relabel(t, d, i, fmt.Sprint("l", (i+1)%3))
				}
				if _, err := d.Maintain(ctx, 0, reporting(once())); err != nil {
					t.Fatal(err)
				}
				if got := behind(t, d)[name]; got != left {
					t.Errorf("after more maintenance: %d rows relabelled, want %d", got, left)
				}
				if err := mustCheck(d); err != nil {
					t.Error(err)
				}
				if _, ok := o.(*LCIF); ok {
					mustBeExact(t, d, coll, name)
				}
			})
		}
	}
}

// mustBeExact compares the counts of a label model with those of a model of the present rows.
func mustBeExact(t *testing.T, d *DB, coll, name string) {
	t.Helper()
	err := d.View(func(s *Snapshot) error {
		st := s.gen.Collections[coll]
		m, err := st.ManifestOf(st.Entry.Index(name))
		if err != nil {
			return err
		}
		if err := st.Load(t.Context()); err != nil {
			return err
		}
		a, err := lcifindex.ReadArrays(t.Context(), st, m)
		if err != nil {
			return err
		}
		_, counts, names, err := inMemory(t.Context(), st, a, m)
		if err != nil {
			return err
		}
		return samePairs(a, m, counts, names)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPredictRelabelled: a label model counts a relabelled row with its present labels as a
// neighbor at once, whether the model covers the row or not; a snapshot from before sees the
// labels of its time.
func TestPredictRelabelled(t *testing.T) {
	ctx := t.Context()
	d, _ := changedBase(t, 60, 4)
	if _, err := d.Collection("s").Build(ctx, "lcif", labelKinds["s"]["lcif"], nil); err != nil {
		t.Fatal(err)
	}
	must(t, d.Update(ctx, func(b *Tx) error { return putChanged(b, 60, 63, 4) }))
	one := &PredictOptions{Index: "lcif", Params: &lcif.Params{K: 1, Lambda: 1, Top: 1}}
	label := func(s *Snapshot, i int) string {
		r, err := s.Collection("s").Get(fmt.Append(nil, i))
		must(t, err)
		p, err := s.Collection("s").Predict(ctx, Query{Sparse: r.Sparse}, one)
		if err != nil || len(p.Labels) != 1 {
			t.Fatalf("%v, %v", p, err)
		}
		return p.Labels[0].Label
	}
	old, err := d.Snapshot()
	must(t, err)
	defer old.Release()
	relabel(t, d, 4, "quite new")
	relabel(t, d, 61, "newer")
	for range 2 {
		must(t, d.View(func(s *Snapshot) error {
			for i, want := range map[int]string{4: "quite new", 61: "newer", 5: "l2", 62: "l2"} {
				if got := label(s, i); got != want {
					t.Errorf("row %d: %q, want %q", i, got, want)
				}
			}
			return nil
		}))
		for i, want := range map[int]string{4: "l1", 61: "l1", 62: "l2"} {
			if got := label(old, i); got != want {
				t.Errorf("row %d before: %q, want %q", i, got, want)
			}
		}
		if steps, err := d.Maintain(ctx, 0, nil); err != nil {
			t.Fatalf("%v, %v", steps, err)
		}
	}
}

// TestDamagedChanges: damage to what a change stores is found by reads, by Check, or both, and no
// read returns labels that are not true.
func TestDamagedChanges(t *testing.T) {
	d, path := changedBase(t, 1100, 4)
	var x *layout.Collection
	relabel(t, d, 5, "new")
	relabel(t, d, 6, "new")
	must(t, d.Update(t.Context(), func(b *Tx) error { return b.Collection("s").Delete([]byte("7")) }))
	if _, err := d.Collection("s").Build(t.Context(), "lcif", labelKinds["s"]["lcif"], nil); err != nil {
		t.Fatal(err)
	}
	relabel(t, d, 5, "newer")
	must(t, d.View(func(s *Snapshot) error { x = s.gen.Collections["s"].Entry; return nil }))
	must(t, errors.Join(mustCheck(d), d.Close()))
	pristine, err := os.ReadFile(path)
	must(t, err)
	put := func(bucket []byte, key [codec.KeySize]byte, payload []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			_, kind, _ := codec.ParseKey(key[:])
			return tx.Bucket(bucket).Put(key[:], codec.Encode(key[:], codec.Header{Kind: kind}, payload))
		}
	}
	set := func(rows ...uint32) []byte {
		data, err := roaring.BitmapOf(rows...).ToBytes()
		must(t, err)
		return data
	}
	change := func(row uint32, revision byte) ([codec.KeySize]byte, []byte) {
		p := append([]byte{revision, 0, 0, 0, 0, 0, 0, 0}, rows.AppendCold(nil, &rows.Cold{Labels: []string{"forged"}})...)
		return codec.Key(x.ID, codec.KindChange, row), p
	}
	at := x.Index("lcif").Object
	five, forged := change(5, 2)
	_, late := change(5, 77)
	_, none := change(5, 0)
	six, _ := change(6, 2)
	other, _ := change(8, 2)
	changed := codec.Key(x.ID, codec.KindChanged, 0)
	for _, c := range []struct {
		name  string
		do    func(*bbolt.Tx) error
		read  bool // Get of row 5 notices
		model bool // the index notices
	}{
		{"missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketTail).Delete(five[:]) }, true, true},
		{"another one missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketTail).Delete(six[:]) }, false, false},
		{"of an unchanged row", put(layout.BucketTail, other, forged), false, false},
		{"forged", put(layout.BucketTail, five, forged), false, false},
		{"of the future", put(layout.BucketTail, five, late), true, true},
		{"without revision", put(layout.BucketTail, five, none), true, true},
		{"short", put(layout.BucketTail, five, []byte{1, 0}), true, true},
		{"of a deleted row", put(layout.BucketSets, changed, set(5, 6, 7)), false, false},
		{"of a row beyond", put(layout.BucketSets, changed, set(5, 6, 1500)), true, true},
		{"set missing", func(tx *bbolt.Tx) error { return tx.Bucket(layout.BucketSets).Delete(changed[:]) }, false, false},
		{"relabelled row beyond", put(layout.BucketSets, codec.Key(at, codec.KindRelabelled, 0), set(1500)), false, true},
		{"relabelled set damaged", put(layout.BucketSets, codec.Key(at, codec.KindRelabelled, 0), []byte{1}), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, os.WriteFile(path, pristine, 0o600))
			inFile(t, path, c.do)
			withFile(t, path, func(d *DB, s *Snapshot) {
				r, err := s.Collection("s").Get([]byte("5"))
				if c.read {
					mustBeCorrupt(t, "get", err)
				} else if err != nil {
					t.Errorf("get: %+v, %v", r, err)
				}
				mustBeCorrupt(t, "check", s.check(t.Context(), nil))
				_, err = d.Maintain(t.Context(), 0, nil)
				if c.model {
					mustBeCorrupt(t, "maintain", err)
				}
			})
		})
	}
}

// flipValue flips a bit in the payload of a block, in all copies that the file has of it.
func flipValue(t *testing.T, path string, bucket []byte, key [codec.KeySize]byte) {
	t.Helper()
	var v []byte
	inFile(t, path, func(tx *bbolt.Tx) error {
		v = bytes.Clone(tx.Bucket(bucket).Get(key[:]))
		return nil
	})
	data, err := os.ReadFile(path)
	must(t, err)
	n := 0
	for at := 0; ; n++ {
		next := bytes.Index(data[at:], v)
		if next < 0 {
			break
		}
		at += next
		data[at+codec.HeaderSize] ^= 4
	}
	if err := os.WriteFile(path, data, 0o600); err != nil || n == 0 {
		t.Fatalf("%d copies, %v", n, err)
	}
}

// TestHostileRelabelled: the label sets that a step of maintenance stores for relabelled rows are
// checked before they are used, in a sparse and in a dense collection.
func TestHostileRelabelled(t *testing.T) {
	d, path := changedBase(t, 200, 4)
	o := labelKinds["s"]["lcif"]
	for _, coll := range []string{"d", "s"} {
		if _, err := d.Collection(coll).Build(t.Context(), "x", o, nil); err != nil {
			t.Fatal(err)
		}
	}
	relabel(t, d, 3, "l1", "l2")
	relabel(t, d, 9)
	relabel(t, d, 12, "l2")
	steps, err := d.Maintain(t.Context(), 0, nil)
	must(t, errors.Join(err, mustCheck(d), d.Close()))
	for _, s := range steps {
		if s.Action != "relabel" || s.Rows != 3 {
			t.Fatalf("steps %+v", steps)
		}
	}
	pristine, err := os.ReadFile(path)
	must(t, err)
	le := func(width int, numbers ...uint64) (out []byte) {
		for _, x := range numbers {
			for i := range width {
				out = append(out, byte(x>>(8*i)))
			}
		}
		return out
	}
	for _, c := range []struct {
		name              string
		rows, ptr, labels []byte // nil: as it is
	}{
		{name: "row beyond", rows: le(4, 3, 9, 200)},
		{name: "rows out of order", rows: le(4, 3, 12, 9)},
		{name: "row twice", rows: le(4, 3, 3, 12)},
		{name: "fewer rows", rows: le(4, 3, 9)},
		{name: "label beyond", labels: le(4, 1, 2, 70)},
		{name: "labels out of order", labels: le(4, 2, 1, 2)},
		{name: "offsets beyond", ptr: le(8, 0, 2, 2, 9)},
		{name: "offsets decrease", ptr: le(8, 0, 2, 1, 3)},
		{name: "offsets missing", ptr: le(8, 0)},
	} {
		for _, coll := range []string{"d", "s"} {
			must(t, os.WriteFile(path, pristine, 0o600))
			object := objectIn(t, path, coll, "x")
			for i, data := range [][]byte{c.rows, c.ptr, c.labels} {
				if data != nil {
					key := codec.Key(object, codec.KindLabelMatrix, arrayRelabelledRow+uint32(i))
					putBlock(t, path, layout.BucketBlocks, key, data)
				}
			}
			withFile(t, path, func(d *DB, s *Snapshot) {
				_, err := s.Collection(coll).Predict(t.Context(), Query{Key: []byte("5")}, &PredictOptions{Index: "x"})
				mustBeCorrupt(t, coll+": "+c.name, err)
			})
		}
	}
}
