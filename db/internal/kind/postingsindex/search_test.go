package postingsindex_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// bed is a sparse collection, "s", and an account of the rows it should hold.
type bed struct {
	t    *testing.T
	d    *db.DB
	rng  *rand.Rand
	rows map[string]vector.Sparse
	row  map[string]uint32
	next uint32
}

func newBed(t *testing.T, seed uint64) *bed {
	b := &bed{t: t, rng: rand.New(rand.NewPCG(seed, 4)), rows: map[string]vector.Sparse{}, row: map[string]uint32{}}
	b.open(filepath.Join(t.TempDir(), "a.anndb"))
	dbtest.Must(t, dbtest.Create(t.Context(), b.d, "s", db.Schema{Sparse: true}))
	t.Cleanup(func() { dbtest.Must(t, dbtest.Closed(b.d, dbtest.Check(b.d), dbtest.LeavesNothing(b.d))) })
	return b
}

func (b *bed) open(path string) {
	b.t.Helper()
	d, err := dbtest.Open(b.t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(b.t, err)
	b.d = d
}

// put writes rows with the keys k0, k1, ..., kn-1 in any order, so many of them, drawn by a function.
func (b *bed) put(many, n int, draw func() vector.Sparse) {
	b.t.Helper()
	var rows []db.Row
	for _, i := range b.rng.Perm(n)[:many] {
		r := db.Row{Key: fmt.Append(nil, "k", i), Sparse: draw(), Labels: []string{fmt.Sprint("l", i%10)}}
		b.rows[string(r.Key)], b.row[string(r.Key)] = r.Sparse, b.next
		b.next++
		rows = append(rows, r)
	}
	dbtest.Must(b.t, dbtest.Put(b.d, "s", rows...))
}

// hit is a row with its cosine to a query.
type hit struct {
	key   string
	score float64
}

// ranked are the rows by definition: by their cosines of unit vectors, as the store rounds them, then by their
// numbers.
func (b *bed) ranked(q vector.Sparse) (all []hit) {
	var unit, x vector.Sparse
	kind.UnitSparse(&unit, q)
	for key, row := range b.rows {
		kind.UnitSparse(&x, row)
		if s := vector.DotSparse(unit, x); s > 0 {
			all = append(all, hit{key, s})
		}
	}
	slices.SortFunc(all, func(x, y hit) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(b.row[x.key], b.row[y.key]))
	})
	return all
}

// want is the answer by definition: the first k of the ranked rows that pass, rows of equal distance by their
// numbers.
func (b *bed) want(ranked []hit, k int, pass func(key string) bool) string {
	var all []hit
	for _, h := range ranked {
		if len(all) < k && pass(h.key) {
			all = append(all, h)
		}
	}
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

func (b *bed) got(q vector.Sparse, k int, o db.SearchOptions) string {
	b.t.Helper()
	var out strings.Builder
	hits, _, err := dbtest.Nearest(b.t.Context(), b.d.Collection("s"), db.Query{Sparse: q}, k, &o)
	dbtest.Must(b.t, err)
	for _, h := range hits {
		fmt.Fprintf(&out, "%s %d %v\n", h.Key, h.Row, h.Distance)
	}
	return out.String()
}

// TestExact: the rows and distances of searches are those of the definition, by a scan and by an index, with
// filters and without: before an index is built, with fresh and deleted rows, maintained, reopened and dropped,
// of random rows, of rows of one value, and of rows that are multiples of each other, whose cosines differ in
// the last bits and whose distances are equal.
func TestExact(t *testing.T) {
	var patterns []vector.Sparse
	for name, draw := range map[string]func(rng *rand.Rand) vector.Sparse{
		"random": func(rng *rand.Rand) vector.Sparse { return dbtest.RandomSparse(rng, rng.IntN(12), 60) },
		"ones": func(rng *rand.Rand) vector.Sparse {
			x := dbtest.RandomSparse(rng, rng.IntN(9), 40)
			for i := range x.Value {
				x.Value[i] = 1
			}
			return x
		},
		"multiples": func(rng *rand.Rand) vector.Sparse {
			if len(patterns) < 20 {
				patterns = append(patterns, dbtest.RandomSparse(rng, 3+rng.IntN(9), 40))
			}
			p := patterns[rng.IntN(len(patterns))]
			x := vector.Sparse{Index: p.Index, Value: slices.Clone(p.Value)}
			scale := float32(1 + rng.IntN(13))
			for i := range x.Value {
				x.Value[i] *= scale
			}
			return x
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 3)
			row := func() vector.Sparse { return draw(b.rng) }
			compare := func(stage string, indexes ...string) {
				t.Helper()
				odd := roaring.New()
				for i := uint32(1); i < b.next; i += 2 {
					odd.Add(i)
				}
				ready, err := b.d.Collection("s").RowFilter(odd)
				dbtest.Must(t, err)
				isOdd := func(key string) bool { return b.row[key]%2 == 1 }
				seven := func(key string) bool { return strings.HasSuffix(key, "7") }
				for i := range 12 {
					q := dbtest.RandomSparse(b.rng, 1+b.rng.IntN(15), 64)
					ranked := b.ranked(q)
					for _, f := range []struct {
						where *filter.Filter
						pass  func(key string) bool
					}{
						{nil, func(string) bool { return true }}, {ready, isOdd}, {filter.Not(ready), func(key string) bool { return !isOdd(key) }},
						{filter.HasLabel("l3", "none"), func(key string) bool { return strings.HasSuffix(key, "3") }},
						{filter.And(filter.Func(func(k []byte) bool { return seven(string(k)) }), ready), func(key string) bool { return seven(key) && isOdd(key) }},
					} {
						k := []int{1, 7, 100, 5000}[i%4]
						want := b.want(ranked, k, f.pass)
						for _, index := range indexes {
							if got := b.got(q, k, db.SearchOptions{Index: index, Where: f.where}); got != want {
								t.Fatalf("%s, k %d, %q with %v:\n%s\nwant\n%s", stage, k, index, f.where, got, want)
							}
						}
					}
				}
			}
			b.put(1300, 1300, row)
			compare("without an index", "")
			dbtest.Builds(t, b.d, "s", "main", nil)
			compare("indexed", db.Flat, "main", "")
			for round := range 3 {
				b.put(200, 1600, row)
				for _, i := range b.rng.Perm(1600)[:100] {
					key := fmt.Sprint("k", i)
					if _, there := b.rows[key]; there {
						dbtest.Must(t, dbtest.Delete(b.d, "s", key))
						delete(b.rows, key)
					}
				}
				compare("with fresh rows", "main")
				_, err := b.d.Maintain(t.Context(), 0, nil)
				dbtest.Must(t, err)
				if round == 1 {
					dbtest.Must(t, b.d.Close())
					b.open(b.d.Path())
				}
				compare("maintained", "main")
				if again, err := b.d.Maintain(t.Context(), 0, nil); err != nil || len(again) > 0 {
					t.Fatalf("maintained twice: %v, %v", again, err)
				}
			}
			if info, err := b.d.Collection("s").Index("main"); err != nil || info.Rows != int(b.next) {
				t.Errorf("the index covers %d of %d rows, %v", info.Rows, b.next, err)
			}
			dbtest.Must(t, b.d.Collection("s").DropIndex(t.Context(), "main"))
			compare("dropped", "")
		})
	}
}

// TestRadius compares searches within a radius with the rows that are so near, over an index that lacks some.
func TestRadius(t *testing.T) {
	b := newBed(t, 7)
	row := func() vector.Sparse { return dbtest.RandomSparse(b.rng, b.rng.IntN(12), 60) }
	b.put(700, 700, row)
	dbtest.Builds(t, b.d, "s", "rows", nil)
	b.put(200, 900, row)
	c := b.d.Collection("s")
	for range 10 {
		q := db.Query{Sparse: dbtest.RandomSparse(b.rng, 6, 60)}
		all, err := c.Search(t.Context(), q, &db.SearchOptions{K: 900, Index: db.Flat})
		dbtest.Must(t, err)
		for _, within := range []int{1, 10, 64, 65, len(all.Hits) - 1} {
			radius := float64(all.Hits[within].Distance)
			near := all.Hits
			for float64(near[len(near)-1].Distance) > radius {
				near = near[:len(near)-1]
			}
			for _, k := range []int{0, 5, 100} {
				want := near
				if k > 0 {
					want = near[:min(k, len(near))]
				}
				for _, index := range []string{"rows", db.Flat} {
					got, err := c.Search(t.Context(), q, &db.SearchOptions{K: k, Index: index, Radius: &radius})
					same := slices.EqualFunc(got.Hits, want, func(x, y db.Hit) bool { return x.Row == y.Row && x.Distance == y.Distance })
					if err != nil || !same {
						t.Fatalf("%s, k %d within %g: %d hits, %v, want %d", index, k, radius, len(got.Hits), err, len(want))
					}
				}
			}
		}
	}
	for _, radius := range []float64{-1, math.NaN()} {
		if _, err := c.Search(t.Context(), db.Query{}, &db.SearchOptions{Radius: &radius}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("radius %g: %v", radius, err)
		}
	}
}

// TestLargeStep makes a step that is too large for the transaction that publishes it.
func TestLargeStep(t *testing.T) {
	dbtest.Whole(t)
	const rows, features = 5600, 3200
	b := newBed(t, 1)
	width := 9
	row := func() (x vector.Sparse) {
		for f := range width {
			if b.rng.IntN(8) > 0 {
				x.Index, x.Value = append(x.Index, uint32(f)), append(x.Value, 1+float32(b.rng.IntN(50)))
			}
		}
		return x
	}
	b.put(30, 30, row)
	dbtest.Builds(t, b.d, "s", "x", nil)
	width = features
	b.put(rows, rows, row)
	steps, err := b.d.Maintain(t.Context(), 0, nil)
	info, err2 := b.d.Collection("s").Index("x")
	// A step writes up to 16 MiB in one transaction.
	if errors.Join(err, err2) != nil || len(steps) != 1 || info.Bytes["postings"] <= 16<<20 || info.Rows != rows+30 {
		t.Fatalf("steps %v, index %+v, %v", steps, info, errors.Join(err, err2))
	}
	for range 5 {
		q := dbtest.RandomSparse(b.rng, 12, features)
		if got, want := b.got(q, 9, db.SearchOptions{}), b.got(q, 9, db.SearchOptions{Index: db.Flat}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
