package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/vector"
)

// sparseBed is a sparse collection beside the rows it should hold.
type sparseBed struct {
	t    *testing.T
	d    *DB
	rows map[string]vector.Sparse
	row  map[string]uint32
	next uint32
}

func newSparseBed(t *testing.T) *sparseBed {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
	must(t, err)
	b := &sparseBed{t: t, d: d, rows: map[string]vector.Sparse{}, row: map[string]uint32{}}
	t.Cleanup(func() {
		d := b.d // a test may have reopened it
		if err := d.Check(context.Background(), func(p *CorruptError) { t.Log(p) }, nil); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Create(t.Context(), "s", Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *sparseBed) put(rng *rand.Rand, keys ...string) {
	b.t.Helper()
	err := b.d.Update(b.t.Context(), func(batch *Tx) error {
		for _, k := range keys {
			b.rows[k] = randomSparse(rng, rng.IntN(12), 60)
			b.row[k] = b.next
			b.next++
			if err := batch.Collection("s").Put(Row{Key: []byte(k), Sparse: b.rows[k], Labels: []string{"l" + k[len(k)-1:]}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *sparseBed) remove(keys ...string) {
	b.t.Helper()
	err := b.d.Update(b.t.Context(), func(batch *Tx) error {
		for _, k := range keys {
			delete(b.rows, k)
			if err := batch.Collection("s").Delete([]byte(k)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// want is the answer by definition: cosine of unit vectors, as the store
// rounds them, ties by row number.
func (b *sparseBed) want(q vector.Sparse, k int, pass func(key string) bool) string {
	type hit struct {
		key   string
		score float64
	}
	var all []hit
	var unit, x vector.Sparse
	kind.UnitSparse(&unit, q)
	for key, row := range b.rows {
		kind.UnitSparse(&x, row)
		if s := vector.DotSparse(unit, x); s > 0 && pass(key) {
			all = append(all, hit{key, s})
		}
	}
	slices.SortFunc(all, func(x, y hit) int {
		if c := cmp.Compare(y.score, x.score); c != 0 {
			return c
		}
		return cmp.Compare(b.row[x.key], b.row[y.key])
	})
	all = all[:min(k, len(all))]
	distance := func(h hit) float32 { return float32(1 - min(h.score, 1)) }
	slices.SortFunc(all, func(x, y hit) int {
		return cmp.Or(cmp.Compare(distance(x), distance(y)), cmp.Compare(b.row[x.key], b.row[y.key]))
	})
	var out strings.Builder
	for _, h := range all {
		fmt.Fprintf(&out, "%s %d %v\n", h.key, b.row[h.key], distance(h))
	}
	return out.String()
}

func (b *sparseBed) got(q vector.Sparse, k int, o *SearchOptions) string {
	b.t.Helper()
	var out strings.Builder
	err := b.d.View(func(s *Snapshot) error {
		hits, _, err := nearest(b.t.Context(), s.Collection("s"), Query{Sparse: q}, k, o)
		for _, h := range hits {
			fmt.Fprintf(&out, "%s %d %v\n", h.Key, h.Row, h.Distance)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String()
}

func (b *sparseBed) filter(rows *roaring.Bitmap) *Filter {
	b.t.Helper()
	return filterOf(b.t, b.d, "s", rows)
}

func TestSearchSparseIsExact(t *testing.T) {
	t.Parallel()
	b := newSparseBed(t)
	rng := rand.New(rand.NewPCG(3, 4))
	var keys []string
	for i := range 2600 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	b.put(rng, keys[:2200]...)
	b.remove(keys[10:40]...)
	odd := roaring.New()
	for i := uint32(1); i < 2600; i += 2 {
		odd.Add(i)
	}
	isOdd := func(key string) bool { return odd.Contains(b.row[key]) }
	ends := func(chars string) func(string) bool {
		return func(key string) bool { return strings.ContainsAny(key[len(key)-1:], chars) }
	}
	type filtered struct {
		o    SearchOptions
		pass func(key string) bool
	}
	compare := func(stage string, options ...filtered) {
		t.Helper()
		for i := range 12 {
			q := randomSparse(rng, 1+rng.IntN(15), 64)
			k := []int{1, 7, 100, 5000}[i%4]
			for _, o := range options {
				if got, want := b.got(q, k, &o.o), b.want(q, k, o.pass); got != want {
					t.Fatalf("%s, k %d, %+v:\n%s\nwant\n%s", stage, k, o.o, got, want)
				}
			}
		}
	}
	all := func(string) bool { return true }
	filters := func() []filtered {
		seven := Func(func(key []byte) bool { return ends("7")(string(key)) })
		return []filtered{
			{SearchOptions{}, all},
			{SearchOptions{Where: HasLabel("l3", "l4", "none")}, ends("34")},
			{SearchOptions{Where: KeyPrefix([]byte("k1"))}, func(key string) bool { return strings.HasPrefix(key, "k1") }},
			{SearchOptions{Where: b.filter(odd)}, isOdd},
			{SearchOptions{Where: Not(b.filter(odd))}, func(key string) bool { return !isOdd(key) }},
			{
				SearchOptions{Where: And(seven, HasLabel("l7", "l8"), b.filter(odd))},
				func(key string) bool { return ends("7")(key) && isOdd(key) },
			},
			{SearchOptions{Where: Or(seven, HasLabel("l8"))}, ends("78")},
		}
	}
	compare("without an index", filters()...)
	info, err := b.d.Collection("s").Build(t.Context(), "main", &Postings{}, nil)
	must(t, err)
	if info.Rows != 2200 || info.Kind != string(postingsindex.Name) || info.Bytes["postings"] == 0 {
		t.Errorf("index %+v", info)
	}
	compare("indexed", append(filters(), filtered{SearchOptions{Index: Flat}, all}, filtered{SearchOptions{}, all})...)
	b.put(rng, keys[2200:]...)
	b.put(rng, keys[50:80]...)
	b.remove(keys[2300:2310]...)
	compare("with fresh rows", filters()...)
	path := b.d.Path()
	must(t, b.d.Close())
	if b.d, err = Open(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	compare("reopened", filters()...)
	must(t, b.d.Collection("s").DropIndex(t.Context(), "main"))
	compare("dropped", filters()[0])
}

func TestSearchSparseUniform(t *testing.T) {
	b := newSparseBed(t)
	rng := rand.New(rand.NewPCG(5, 6))
	err := b.d.Update(t.Context(), func(batch *Tx) error {
		for i := range 300 {
			x := randomSparse(rng, 1+rng.IntN(9), 40)
			for j := range x.Value {
				x.Value[j] = 1
			}
			key := fmt.Sprint(i)
			b.rows[key], b.row[key] = x, uint32(i)
			if err := batch.Collection("s").Put(Row{Key: []byte(key), Sparse: x}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	if _, err := b.d.Collection("s").Build(t.Context(), "main", nil, nil); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		q := randomSparse(rng, 5, 40)
		for j := range q.Value {
			q.Value[j] = 2
		}
		if got, want := b.got(q, 9, nil), b.want(q, 9, func(string) bool { return true }); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestSearchSparseTies: rows that are multiples of each other have cosines that
// differ in the last bits, and equal distances. All ways to search have the same
// hits, and those of equal distance are in the order of the rows.
func TestSearchSparseTies(t *testing.T) {
	t.Parallel()
	b := newSparseBed(t)
	rng := rand.New(rand.NewPCG(7, 8))
	err := b.d.Update(t.Context(), func(batch *Tx) error {
		var patterns []vector.Sparse
		for range 20 {
			patterns = append(patterns, randomSparse(rng, 3+rng.IntN(9), 40))
		}
		for i := range 600 {
			p := patterns[rng.IntN(len(patterns))]
			x := vector.Sparse{Index: p.Index, Value: slices.Clone(p.Value)}
			for j := range x.Value {
				x.Value[j] *= float32(1 + i%13)
			}
			key := fmt.Sprint(i)
			b.rows[key], b.row[key] = x, uint32(i)
			if err := batch.Collection("s").Put(Row{Key: []byte(key), Sparse: x}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	o := &Postings{}
	if _, err := b.d.Collection("s").Build(t.Context(), "main", o, nil); err != nil {
		t.Fatal(err)
	}
	options := []*SearchOptions{{Index: Flat}, {}}
	ties, rounded := 0, 0
	for i := range 40 {
		q := randomSparse(rng, 4+rng.IntN(8), 40)
		k := []int{1, 7, 60, 1000}[i%4]
		want := b.want(q, k, func(string) bool { return true })
		for _, o := range options {
			if got := b.got(q, k, o); got != want {
				t.Fatalf("k %d, %+v:\n%s\nwant\n%s", k, o, got, want)
			}
		}
		r, n := b.tied(q)
		ties, rounded = ties+n, rounded+r
	}
	if ties < 1000 || rounded < 100 {
		t.Errorf("%d equal distances, %d of different cosines: too few for the test", ties, rounded)
	}
}

// tied checks the order of all hits of a query and returns the number of neighbors
// of equal distance, and of those the number that have different cosines.
func (b *sparseBed) tied(q vector.Sparse) (rounded, ties int) {
	b.t.Helper()
	err := b.d.View(func(s *Snapshot) error {
		hits, _, err := nearest(b.t.Context(), s.Collection("s"), Query{Sparse: q}, len(b.rows), nil)
		var unit, x, y vector.Sparse
		kind.UnitSparse(&unit, q)
		for i := 1; i < len(hits); i++ {
			if hits[i].Distance != hits[i-1].Distance {
				continue
			}
			ties++
			if hits[i].Row < hits[i-1].Row {
				b.t.Fatalf("row %d after row %d, both at %v", hits[i].Row, hits[i-1].Row, hits[i].Distance)
			}
			kind.UnitSparse(&x, b.rows[string(hits[i].Key)])
			kind.UnitSparse(&y, b.rows[string(hits[i-1].Key)])
			if vector.DotSparse(unit, x) != vector.DotSparse(unit, y) {
				rounded++
			}
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return rounded, ties
}

func TestSearchSparseMisuse(t *testing.T) {
	b := newSparseBed(t)
	q := vector.Sparse{Index: []uint32{1}, Value: []float32{1}}
	search := func(coll string, q Query, k int, o *SearchOptions) error {
		return b.d.View(func(s *Snapshot) error {
			_, _, err := nearest(t.Context(), s.Collection(coll), q, k, o)
			return err
		})
	}
	if err := search("s", Query{Sparse: q}, 1, nil); err != nil {
		t.Errorf("empty collection: %v", err)
	}
	if _, err := b.d.Collection("s").Build(t.Context(), "x", nil, nil); !errors.Is(err, fail.Empty) {
		t.Errorf("build of an empty collection: %v", err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.put(rng, "k1", "k2")
	if _, err := b.d.Create(t.Context(), "d", Schema{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.d.Collection("s").Build(t.Context(), "main", nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err, want error
	}{
		"no such collection": {search("x", Query{Sparse: q}, 1, nil), fail.NoCollection},
		"dense collection":   {search("d", Query{Sparse: q}, 1, nil), fail.Kind},
		"named features":     {search("s", Query{Features: []Feature{{"a", 1}}}, 1, nil), fail.Kind},
		"negative":           {search("s", Query{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{-1}}}, 1, nil), fail.Features},
		"k":                  {search("s", Query{Sparse: q}, -1, nil), fail.K},
		"index":              {search("s", Query{Sparse: q}, 1, &SearchOptions{Index: "y"}), fail.NoIndex},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if _, err := b.d.Collection("s").Build(t.Context(), "y", &Forest{Learner: "kd"}, nil); !errors.Is(err, fail.Kind) {
		t.Errorf("forest over a sparse collection: %v", err)
	}
	if _, err := b.d.Collection("d").Build(t.Context(), "y", &Postings{}, nil); !errors.Is(err, fail.Kind) {
		t.Errorf("postings over a dense collection: %v", err)
	}
}

// TestSearchSparseRadius compares searches within a radius with the rows that are so near, over an index
// that lacks some of them.
func TestSearchSparseRadius(t *testing.T) {
	b := newSparseBed(t)
	rng := rand.New(rand.NewPCG(7, 8))
	keys := make([]string, 900)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	b.put(rng, keys[:700]...)
	if _, err := b.d.Collection("s").Build(t.Context(), "rows", &Postings{}, nil); err != nil {
		t.Fatal(err)
	}
	b.put(rng, keys[700:]...)
	b.remove(keys[100:150]...)
	c := b.d.Collection("s")
	for range 10 {
		q := Query{Sparse: randomSparse(rng, 6, 60)}
		all, err := c.Search(t.Context(), q, &SearchOptions{K: len(keys), Index: Flat})
		must(t, err)
		for _, within := range []int{1, 10, 64, 65, len(all.Hits) - 1} {
			radius := float64(all.Hits[within].Distance)
			want := all.Hits
			for float64(want[len(want)-1].Distance) > radius {
				want = want[:len(want)-1]
			}
			for _, k := range []int{0, 5, 100} {
				want := want
				if k > 0 {
					want = want[:min(k, len(want))]
				}
				for _, index := range []string{"rows", Flat} {
					got, err := c.Search(t.Context(), q, &SearchOptions{K: k, Index: index, Radius: &radius})
					same := slices.EqualFunc(got.Hits, want, func(x, y Hit) bool {
						return x.Row == y.Row && x.Distance == y.Distance
					})
					if err != nil || !same {
						t.Fatalf("%s, k %d within %g: %d hits, %v, want %d", index, k, radius, len(got.Hits), err, len(want))
					}
				}
			}
		}
	}
	for _, radius := range []float64{-1, math.NaN()} {
		_, err := c.Search(t.Context(), Query{}, &SearchOptions{Radius: &radius})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("radius %g: %v", radius, err)
		}
	}
}
