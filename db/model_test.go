package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// model is what a database ought to hold: plain maps, no cleverness.
type model map[string]*modelColl

type modelColl struct {
	opts          db.Schema
	sparse, named bool // a sparse collection, opts is empty then
	rows          map[string]modelRow
	next          uint32 // next row number
	indexes       map[string]string
}

type modelRow struct {
	num     uint32
	vec     []float32
	sparse  vector.Sparse
	labels  []string // ascending, none twice
	payload []byte
	written bool // put by the transaction that is being filled, so that num is unknown
}

// clone is a copy that later changes do not reach. Rows never change.
func (m model) clone() model {
	out := model{}
	for name, c := range m {
		k := *c
		k.rows, k.indexes = maps.Clone(c.rows), maps.Clone(c.indexes)
		out[name] = &k
	}
	return out
}

func (c *modelColl) put(key string, r modelRow) {
	r.num = c.next
	c.next++
	c.rows[key] = r
}

// drawn is a row of the collection's kind, without labels and payload.
func (c *modelColl) drawn(seed uint64) modelRow {
	if c.sparse {
		return modelRow{sparse: dbtest.Sparse(seed)}
	}
	return modelRow{vec: dbtest.Vector(seed, c.opts.Dim)}
}

// renumber gives the rows numbers without gaps.
func (c *modelColl) renumber() {
	for i, key := range c.byRow() {
		r := c.rows[key]
		r.num = uint32(i)
		c.rows[key] = r
	}
	c.next = uint32(len(c.rows))
}

// byRow lists the keys in the order of their rows.
func (c *modelColl) byRow() []string {
	return slices.SortedFunc(maps.Keys(c.rows), func(a, b string) int {
		return int(c.rows[a].num) - int(c.rows[b].num)
	})
}

// modelDistance is the public distance in float64, and a bound on how far a
// float32 computation may be from it.
func modelDistance(m vector.Metric, q, x []float32) (d, tol float64) {
	var dot, qq, xx, ll float64
	for i := range q {
		a, b := float64(q[i]), float64(x[i])
		dot += a * b
		qq += a * a
		xx += b * b
		ll += (a - b) * (a - b)
	}
	switch m {
	case vector.Cosine:
		if qq == 0 || xx == 0 {
			return 1, 1e-4
		}
		return 1 - dot/math.Sqrt(qq*xx), 1e-4
	case vector.InnerProduct:
		return -dot, 1e-4 * (1 + math.Sqrt(qq*xx))
	}
	return math.Sqrt(ll), 1e-4 * (1 + math.Sqrt(ll))
}

// mustNeighbors checks an answer against a scan of the model: as many hits as
// there can be, each a row that may be an answer, no row twice, every distance
// right, and, where the search was exact, the i-th distance that of the i-th
// nearest row (rows at equal distance may stand in any order).
func mustNeighbors(c *modelColl, q []float32, k int, exact bool, passes func(modelRow) bool, hits []db.Hit) error {
	type near struct{ d, tol float64 }
	dist := map[string]near{}
	var all []near
	for key, r := range c.rows {
		if passes == nil || passes(r) {
			d, tol := modelDistance(c.opts.Metric, q, r.vec)
			dist[key] = near{d, tol}
			all = append(all, near{d, tol})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		switch {
		case a.d < b.d:
			return -1
		case a.d > b.d:
			return 1
		}
		return 0
	})
	if len(hits) != min(k, len(all)) {
		return fmt.Errorf("%d hits, want %d of %d", len(hits), k, len(all))
	}
	last := math.Inf(-1)
	for i, h := range hits {
		want, ok := dist[string(h.Key)]
		if !ok {
			return fmt.Errorf("hit %d is %q, which is no possible answer or came twice", i, h.Key)
		}
		delete(dist, string(h.Key))
		got := float64(h.Distance)
		if c.rows[string(h.Key)].num != h.Row {
			return fmt.Errorf("hit %d: key %q is row %d, want %d", i, h.Key, h.Row, c.rows[string(h.Key)].num)
		}
		if !(math.Abs(got-want.d) <= want.tol) {
			return fmt.Errorf("hit %d: distance %g of %q, want %g", i, got, h.Key, want.d)
		}
		if got < last {
			return fmt.Errorf("hit %d: distance %g after %g", i, got, last)
		}
		last = got
		if exact && !(math.Abs(got-all[i].d) <= want.tol+all[i].tol) {
			return fmt.Errorf("hit %d: distance %g, the scan has %g", i, got, all[i].d)
		}
	}
	return nil
}

// mustEqual checks everything a snapshot can be asked against the model.
func mustEqual(s *db.Snapshot, m model, seed uint64) error {
	var names []string
	for _, c := range s.Collections() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(m)); !slices.Equal(names, want) {
		return fmt.Errorf("collections %q, want %q", names, want)
	}
	for name, c := range m {
		if err := collectionEqual(s, name, c, seed); err != nil {
			return fmt.Errorf("collection %q (dim %d, %v): %w", name, c.opts.Dim, c.opts.Metric, err)
		}
	}
	return nil
}

func collectionEqual(s *db.Snapshot, name string, c *modelColl, seed uint64) error {
	info, err := s.Collection(name).Info()
	if err != nil {
		return err
	}
	if info.Live != len(c.rows) || info.Rows != int(c.next) || !slices.Equal(info.Indexes, slices.Sorted(maps.Keys(c.indexes))) {
		return fmt.Errorf("info %+v, want %d live of %d rows and the indexes %v", info, len(c.rows), c.next, c.indexes)
	}
	if n, err := s.Collection(name).Count(context.Background(), nil); err != nil || n != len(c.rows) {
		return fmt.Errorf("count %d, %v, want %d", n, err, len(c.rows))
	}
	order, i := c.byRow(), 0
	for r, err := range s.Collection(name).Rows(context.Background(), nil) {
		if err != nil {
			return fmt.Errorf("rows: %w", err)
		}
		if i >= len(order) {
			return fmt.Errorf("rows: %q is one too many", r.Key)
		}
		if err := c.rowEqual(r, order[i], c.rows[order[i]]); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
		i++
	}
	if i != len(order) {
		return fmt.Errorf("%d rows, want %d", i, len(order))
	}
	var keys []string
	for k, err := range s.Collection(name).Keys(nil, nil) {
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		keys = append(keys, string(k))
	}
	if want := slices.Sorted(maps.Keys(c.rows)); !slices.Equal(keys, want) {
		return fmt.Errorf("keys %q, want %q", keys, want)
	}
	for key, want := range c.rows {
		r, err := s.Collection(name).Get([]byte(key))
		if err != nil {
			return fmt.Errorf("get %q: %w", key, err)
		}
		if err := c.rowEqual(r, key, want); err != nil {
			return fmt.Errorf("get: %w", err)
		}
	}
	if _, err := s.Collection(name).Get([]byte("no such key")); !errors.Is(err, fail.NoRow) {
		return fmt.Errorf("get of a missing key: %w", err)
	}
	counts := map[string]int{}
	for _, r := range c.rows {
		for _, l := range r.labels {
			counts[l]++
		}
	}
	labels, err := s.Collection(name).Labels()
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	if !maps.Equal(labels, counts) {
		return fmt.Errorf("labels %v, want %v", labels, counts)
	}
	if c.sparse {
		return sparseSearches(s, name, c, seed)
	}
	return searchesEqual(s, name, c, seed)
}

func (c *modelColl) rowEqual(r db.Row, key string, want modelRow) error {
	if !c.sparseEqual(r, want) || string(r.Key) != key || r.Row != want.num || !slices.Equal(r.Vector, want.vec) || !slices.Equal(r.Labels, want.labels) || !bytes.Equal(r.Payload, want.payload) {
		return fmt.Errorf("row %d key %q labels %q payload of %d bytes differs from row %d key %q labels %q payload of %d bytes (or its vector does)",
			r.Row, r.Key, r.Labels, len(r.Payload), want.num, key, want.labels, len(want.payload))
	}
	return nil
}

// searchesEqual asks the exact scan and every index.
func searchesEqual(s *db.Snapshot, name string, c *modelColl, seed uint64) error {
	ctx := context.Background()
	q := dbtest.Vector(seed, c.opts.Dim)
	if len(c.rows) == 0 {
		if hits, _, err := dbtest.Nearest(ctx, s.Collection(name), db.Query{Vector: q}, 1, &db.SearchOptions{Index: db.Flat}); err != nil || len(hits) > 0 {
			return fmt.Errorf("search of an empty collection: %d hits, %v", len(hits), err)
		}
		return nil
	}
	few := 1 + int(seed%uint64(len(c.rows)))
	for _, k := range []int{few, len(c.rows)} {
		hits, _, err := dbtest.Nearest(ctx, s.Collection(name), db.Query{Vector: q}, k, &db.SearchOptions{Index: db.Flat})
		if err == nil {
			err = mustNeighbors(c, q, k, true, nil, hits)
		}
		if err != nil {
			return fmt.Errorf("flat search, k = %d: %w", k, err)
		}
	}
	red := func(r modelRow) bool { return slices.Contains(r.labels, "red") }
	hits, _, err := dbtest.Nearest(ctx, s.Collection(name), db.Query{Vector: q}, len(c.rows), &db.SearchOptions{Index: db.Flat, Where: filter.HasLabel("red")})
	if err == nil {
		err = mustNeighbors(c, q, len(c.rows), true, red, hits)
	}
	if err != nil {
		return fmt.Errorf("flat search of a label: %w", err)
	}
	if err := predictionsEqual(s, name, c, modelRow{vec: q}, db.Query{Vector: q}); err != nil {
		return err
	}
	for index, kind := range c.indexes {
		if kind == lcifindex.Name || isTree(kind) {
			continue
		}
		for _, p := range []query.Params{
			{Method: query.Natural, Tau: 0.1, Sketch: true},
			{Method: query.NaturalZero, Extra: 1},
			{Method: query.Voting, Votes: 2},
			{Method: query.Lookup},
			{Method: query.Flat},
		} {
			for _, k := range []int{few, len(c.rows)} {
				// All rows can only be found by widening to an exact scan, and
				// then in the right order.
				exact := k == len(c.rows) || p.Method == query.Flat
				hits, _, err := dbtest.Nearest(ctx, s.Collection(name), db.Query{Vector: q}, k, &db.SearchOptions{Index: index, Params: &p})
				if err == nil {
					err = mustNeighbors(c, q, k, exact, nil, hits)
				}
				if err != nil {
					return fmt.Errorf("search of index %q by %v, k = %d: %w", index, p.Method, k, err)
				}
			}
		}
	}
	return nil
}

// machine is the state of one run of the model test.
type machine struct {
	path string
	d    *db.DB
	m    model
	held []heldSnapshot
	step uint64
}

type heldSnapshot struct {
	s *db.Snapshot
	m model
}

// modelOptions leave the fsyncs out: this test never cuts the power.
// The small reservation is for runs that fail: rapid repeats those hundreds of
// times, and each may leave a map behind.
func modelOptions() *db.Options { return &db.Options{NoSync: true, MapReserve: 1 << 32} }

func (x *machine) open(t *rapid.T) {
	d, err := db.Open(t.Context(), x.path, modelOptions())
	dbtest.Must(t, err)
	x.d = d
}

func (x *machine) release() {
	for _, h := range x.held {
		h.s.Release()
	}
	x.held = nil
}

// coll draws one of the collections, or "" when there is none.
func (x *machine) coll(t *rapid.T) string {
	if len(x.m) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(x.m))).Draw(t, "collection")
}

func (x *machine) create(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	// The large dimensions have chunks of 16 and 8 rows, so that few rows seal
	// some; the small ones keep all of theirs in the tail.
	o := db.Schema{
		Dim:     rapid.SampledFrom([]int{1, 5, 9, 8192, 8192, 20000}).Draw(t, "dim"),
		Metric:  rapid.SampledFrom([]vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct}).Draw(t, "metric"),
		Float32: rapid.Bool().Draw(t, "float32"),
	}
	_, err := x.d.Create(context.Background(), name, o)
	if x.m[name] != nil {
		if !errors.Is(err, db.ErrExists) {
			t.Fatalf("create of an existing collection: %v", err)
		}
		return
	}
	dbtest.Must(t, err)
	x.m[name] = &modelColl{opts: o, rows: map[string]modelRow{}, indexes: map[string]string{}}
}

func (x *machine) drop(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	err := x.d.Drop(context.Background(), name)
	if (x.m[name] == nil) != errors.Is(err, fail.NoCollection) || x.m[name] != nil && err != nil {
		t.Fatalf("drop of %q: %v", name, err)
	}
	delete(x.m, name)
}

// errWanted is what the callback of a failing batch returns.
var errWanted = errors.New("the batch's own error")

// update applies a batch of changes over all collections; some batches fail
// at their end and must change nothing.
func (x *machine) update(t *rapid.T) {
	if len(x.m) == 0 {
		return
	}
	next := x.m.clone()
	flaw := rapid.SampledFrom([]string{"", "", "", "", "own", "exists", "dimension", "nan", "collection"}).Draw(t, "fail")
	n := rapid.IntRange(1, 12).Draw(t, "changes")
	var last, lastKey string
	var changed [][2]string // collections and keys, in the order of their first changes
	err := x.d.Update(context.Background(), func(b *db.Tx) error {
		for range n {
			name := x.coll(t)
			key := fmt.Sprintf("key-%d", rapid.IntRange(0, 39).Draw(t, "key"))
			last, lastKey = name, key
			c := next[name]
			mustReadAs(t, b, name, key, c)
			what := rapid.IntRange(0, 7).Draw(t, "what")
			changes := what <= 4 || c.change(t, b, name, key, what)
			if change := [2]string{name, key}; changes && !slices.Contains(changed, change) {
				changed = append(changed, change)
			}
			if what > 4 {
				continue
			}
			if what == 0 {
				dbtest.Must(t, b.Collection(name).Delete([]byte(key)))
				delete(c.rows, key)
				continue
			}
			r := c.drawn(rapid.Uint64Range(0, 1000).Draw(t, "vector"))
			r.labels, r.payload = modelLabels(t), modelPayload(t)
			dbtest.Must(t, b.Collection(name).Put(c.row(key, r)))
			r.labels, r.written = slices.Sorted(slices.Values(r.labels)), true
			c.rows[key] = r
		}
		dim := next[last].opts.Dim
		switch flaw {
		case "own":
			return errWanted
		case "exists":
			// The error must fail the transaction even if the callback ignores it.
			r := next[last].row(lastKey, next[last].drawn(1))
			_ = b.Collection(last).Put(r)
			_ = b.Collection(last).Insert(r)
		case "dimension":
			_ = b.Collection(last).Put(db.Row{Key: []byte("other"), Vector: make([]float32, dim+1)})
		case "nan":
			_ = b.Collection(last).Put(db.Row{Key: []byte("other"), Vector: slices.Repeat([]float32{float32(math.NaN())}, dim)})
		case "collection":
			_ = b.Collection("no such collection").Put(db.Row{Key: []byte("other"), Vector: make([]float32, dim)})
		}
		return nil
	})
	if next[last].sparse && flaw == "dimension" || next[last].sparse && flaw == "nan" {
		if !errors.Is(err, fail.Kind) {
			t.Fatalf("dense rows for a sparse collection: %v", err)
		}
		return
	}
	want := map[string]error{"own": errWanted, "exists": db.ErrExists, "dimension": fail.Dimension, "nan": fail.NotFinite, "collection": fail.NoCollection}[flaw]
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Fatalf("update that should fail with %v: %v", want, err)
	}
	if want != nil {
		return
	}
	for _, change := range changed {
		c := next[change[0]]
		if r, ok := c.rows[change[1]]; ok && r.written {
			r.written = false
			c.put(change[1], r)
		}
	}
	x.m = next
}

// modelLabels draws labels of a row, in any order.
func modelLabels(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(
		rapid.SampledFrom([]string{"blue", "green", "red"}), 0, 2, rapid.ID).Draw(t, "labels")
}

// modelPayload draws a payload.
func modelPayload(t *rapid.T) []byte {
	size := rapid.SampledFrom([]int{0, 1, 20, 70_000}).Draw(t, "payload")
	return bytes.Repeat([]byte{byte(size%251 + 1)}, size)
}

// change changes labels, payload or both of a row that may not exist. The row keeps its number.
// It reports whether anything changes.
func (c *modelColl) change(t *rapid.T, b *db.Tx, name, key string, what int) bool {
	r, exists := c.rows[key]
	before := r
	var errs []error
	if what != 5 {
		r.labels = modelLabels(t)
		errs = append(errs, b.Collection(name).SetLabels([]byte(key), r.labels...))
		r.labels = slices.Sorted(slices.Values(r.labels))
	}
	if what != 6 {
		r.payload = modelPayload(t)
		errs = append(errs, b.Collection(name).SetPayload([]byte(key), r.payload))
	}
	for _, err := range errs {
		if exists && err != nil || !exists && !errors.Is(err, fail.NoRow) {
			t.Fatalf("change of %s/%s, which exists: %v: %v", name, key, exists, err)
		}
	}
	if exists {
		c.rows[key] = r
	}
	return exists && (!slices.Equal(r.labels, before.labels) || !bytes.Equal(r.payload, before.payload))
}

// mustReadAs compares what a transaction reads with the rows as it leaves them.
func mustReadAs(t *rapid.T, b *db.Tx, name, key string, c *modelColl) {
	want, exists := c.rows[key]
	if has, err := b.Collection(name).Has([]byte(key)); err != nil || has != exists {
		t.Fatalf("has %s/%s: %v, want %v: %v", name, key, has, exists, err)
	}
	got, err := b.Collection(name).Get([]byte(key))
	if !exists {
		if !errors.Is(err, fail.NoRow) {
			t.Fatalf("get %s/%s: %v, want errNoRow", name, key, err)
		}
		return
	}
	want.num = got.Row // unknown before the commit
	if err := errors.Join(err, c.rowEqual(got, key, want)); err != nil {
		t.Fatalf("get %s/%s: %v", name, key, err)
	}
}

func (x *machine) build(t *rapid.T) {
	name := x.coll(t)
	if name == "" {
		return
	}
	c := x.m[name]
	built := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "index")
	if c.sparse || rapid.IntRange(0, 2).Draw(t, "label model") == 0 {
		x.buildOther(t, name, built)
		return
	}
	o := &index.Forest{
		Learner:       rapid.SampledFrom([]string{"rp", "kd", "kd-chrono", "pca", "rf"}).Draw(t, "kind"),
		Trees:         3,
		Depth:         rapid.IntRange(1, 3).Draw(t, "depth"),
		LeafNeighbors: 4, ListNeighbors: 3, Members: true, NoTune: true,
		Seed: rapid.Uint64Range(0, 9).Draw(t, "seed"),
	}
	if c.opts.Dim > 100 {
		// Principal coordinates of so many dimensions take too long for a test.
		o.Learner, o.NoRotation, o.NoSketches = "rp", true, true
	}
	_, err := x.d.Collection(name).Build(context.Background(), built, o, nil)
	if len(c.rows) == 0 {
		if !errors.Is(err, fail.Empty) {
			t.Fatalf("build over no rows: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("build of %+v over %d rows of dim %d: %v", o, len(c.rows), c.opts.Dim, err)
	}
	c.indexes[built] = string(o.Learner)
}

// buildOther builds anything but a forest.
func (x *machine) buildOther(t *rapid.T, name, built string) {
	c := x.m[name]
	kind, o := c.sparseBuild(t)
	_, err := x.d.Collection(name).Build(context.Background(), built, o, nil)
	if len(c.rows) == 0 || kind != postingsindex.Name && !c.labelled() {
		want := error(fail.Empty)
		if len(c.rows) > 0 {
			want = db.ErrUnsuitable
		}
		if !errors.Is(err, want) {
			t.Fatalf("build of %s over nothing: %v", kind, err)
		}
		return
	}
	if isTree(kind) && errors.Is(err, budget.ErrInput) {
		return // all rows have the same labels
	}
	if err != nil {
		t.Fatalf("build of %+v over %d rows: %v", o, len(c.rows), err)
	}
	c.indexes[built] = kind
}

func (x *machine) dropIndex(t *rapid.T) {
	name := x.coll(t)
	if name == "" {
		return
	}
	built := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "index")
	err := x.d.Collection(name).DropIndex(context.Background(), built)
	if _, has := x.m[name].indexes[built]; has && err != nil || !has && !errors.Is(err, fail.NoIndex) {
		t.Fatalf("drop of index %q: %v", built, err)
	}
	delete(x.m[name].indexes, built)
}

func (x *machine) hold(t *rapid.T) {
	if len(x.held) >= 3 {
		return
	}
	s, err := x.d.Snapshot()
	dbtest.Must(t, err)
	x.held = append(x.held, heldSnapshot{s, x.m.clone()})
}

// look compares the oldest held snapshot with what the database was then.
func (x *machine) look(t *rapid.T) {
	if len(x.held) == 0 {
		return
	}
	h := x.held[0]
	if err := mustEqual(h.s, h.m, x.step); err != nil {
		t.Fatalf("held snapshot: %v", err)
	}
	// A held snapshot must be checkable, too, with newer commits in the file.
	var found []string
	if err := db.CheckSnapshot(h.s, func(p *db.CorruptError) { found = append(found, p.Error()) }); err != nil {
		t.Fatalf("held snapshot: %v: %s", err, strings.Join(found, "; "))
	}
	h.s.Release()
	x.held = x.held[1:]
}

func (x *machine) reopen(t *rapid.T) {
	x.release()
	dbtest.Must(t, x.d.Close())
	x.open(t)
}

func (x *machine) compact(t *rapid.T) {
	dbtest.Must(t, x.d.Compact(context.Background(), nil))
	infos, err := x.d.Collections()
	dbtest.Must(t, err)
	for _, info := range infos {
		c := x.m[info.Name]
		dead := int(c.next) - len(c.rows)
		worth := dead > 0 && 3*dead >= int(c.next)
		// An index that cannot be relearned keeps the rows where they are.
		if moved := info.Rows != int(c.next); moved && !worth || !moved && worth && len(c.indexes) == 0 {
			t.Fatalf("%q has %d row numbers after a compaction, %d before, %d rows", info.Name, info.Rows, c.next, len(c.rows))
		} else if moved {
			c.renumber()
		}
	}
}

// reorder gives rows any new numbers, which the model takes over.
func (x *machine) reorder(t *rapid.T) {
	dbtest.Must(t, x.d.Compact(context.Background(), &db.CompactOptions{Reorder: true}))
	err := x.d.View(func(s *db.Snapshot) error {
		for name, c := range x.m {
			info, err := s.Collection(name).Info()
			if err != nil {
				return err
			}
			if c.next = uint32(info.Rows); info.Live != len(c.rows) {
				t.Fatalf("%q has %d rows after reordering, want %d", name, info.Live, len(c.rows))
			}
			for key, want := range c.rows {
				r, err := s.Collection(name).Get([]byte(key))
				if err != nil {
					return err
				}
				want.num = r.Row
				c.rows[key] = want
			}
		}
		return nil
	})
	dbtest.Must(t, err)
}

// maintain brings all indexes up to date, except for those that cannot be learned from the rows.
func (x *machine) maintain(t *rapid.T) {
	_, err := x.d.Maintain(context.Background(), 0, nil)
	dbtest.Must(t, err)
	st, err := x.d.Stats()
	dbtest.Must(t, err)
	for _, i := range st.Indexes {
		tree := isTree(x.m[i.Collection].indexes[i.Name])
		if i.Relabelled > 0 && !tree && i.Error == "" {
			t.Fatalf("%s/%s has %d relabelled rows after maintenance", i.Collection, i.Name, i.Relabelled)
		}
	}
}

// salvage compares what a salvage of the file has with the model.
func (x *machine) salvage(t *rapid.T) {
	x.release()
	dbtest.Must(t, x.d.Close())
	defer x.open(t)
	name := x.path + ".saved"
	defer os.Remove(name)
	report, err := rescue.Salvage(context.Background(), x.path, name, &rescue.Options{NoIndexes: true})
	if err != nil || report.Lost > 0 {
		t.Fatalf("salvage: %+v, %v", report, err)
	}
	d, err := db.Open(t.Context(), name, modelOptions())
	dbtest.Must(t, err)
	saved := x.m.clone()
	for _, c := range saved {
		c.renumber()
		clear(c.indexes)
	}
	err = d.View(func(s *db.Snapshot) error { return mustEqual(s, saved, x.step) })
	if err := errors.Join(err, dbtest.Check(d), d.Close()); err != nil {
		t.Fatalf("salvage: %v", err)
	}
}

// backup opens a copy read-only and compares it.
func (x *machine) backup(t *rapid.T) {
	name := x.path + ".copy"
	f, err := os.Create(name)
	dbtest.Must(t, err)
	n, err := x.d.Backup(context.Background(), f)
	dbtest.Must(t, errors.Join(err, f.Close()))
	if info, err := os.Stat(name); err != nil || info.Size() != n {
		t.Fatalf("backup of %d bytes: %v, %v", n, info, err)
	}
	d, err := db.Open(t.Context(), name, &db.Options{ReadOnly: true, MapReserve: 1 << 32})
	dbtest.Must(t, err)
	err = d.View(func(s *db.Snapshot) error { return mustEqual(s, x.m, x.step) })
	if err := errors.Join(err, dbtest.Check(d), d.Close()); err != nil {
		t.Fatalf("backup: %v", err)
	}
}

// TestModel runs random histories against the model. A failure prints the
// shortest history that rapid finds, and the flags that repeat it.
func TestModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		x := &machine{path: filepath.Join(dir, fmt.Sprintf("model-%d.anndb", run)), m: model{}}
		x.open(t)
		defer func() {
			x.release()
			if err := x.d.Close(); err != nil {
				t.Error(err)
			}
			for _, name := range []string{x.path, x.path + ".copy"} {
				_ = os.Remove(name) // the directory goes at the end anyway
			}
		}()
		x.create(t)
		x.createSparse(t)
		t.Repeat(map[string]func(*rapid.T){
			"create": x.create, "create sparse": x.createSparse, "drop": x.drop,
			"update": x.update, "update again": x.update, "update once more": x.update,
			"build": x.build, "drop index": x.dropIndex,
			"hold": x.hold, "look": x.look,
			"reopen": x.reopen, "compact": x.compact, "backup": x.backup,
			"reorder": x.reorder, "maintain": x.maintain, "salvage": x.salvage,
			"": func(t *rapid.T) {
				x.step++
				if x.step%4 != 0 {
					return // a whole comparison after every step is too slow
				}
				dbtest.Must(t, x.d.View(func(s *db.Snapshot) error { return mustEqual(s, x.m, x.step) }))
			},
		})
		for len(x.held) > 0 {
			x.look(t)
		}
		dbtest.Must(t, x.d.View(func(s *db.Snapshot) error { return mustEqual(s, x.m, x.step) }))
		dbtest.Must(t, dbtest.Check(x.d))
	})
}
