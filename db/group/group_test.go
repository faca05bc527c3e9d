package group_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// forms are the forms of rows that are tested.
var forms = map[string]db.Schema{
	"l2":       {Dim: 4},
	"float32":  {Dim: 4, Float32: true},
	"cosine":   {Dim: 3, Metric: vector.Cosine},
	"ip":       {Dim: 3, Metric: vector.InnerProduct},
	"sparse":   {Sparse: true},
	"text":     {Text: &text.Schema{}},
	"pairs":    {Text: &text.Schema{Pairs: 2, B: 0.3, K1: 2}},
	"both":     {Text: &text.Schema{}, Dim: 3, Metric: vector.Cosine},
	"features": {Sparse: true, Dim: 3},
}

// bed is rows in one collection, and the same rows in several.
type bed struct {
	t     *rapid.T
	rng   *rand.Rand
	s     db.Schema
	files []*db.DB
	one   db.Collection
	parts []db.Collection
	next  int      // number of keys
	keys  []string // of all rows that were ever written
}

// newBed draws rows in parts, some of them changed and deleted, and indexes of some parts.
func newBed(t *rapid.T, dir string) *bed {
	form := rapid.SampledFrom(slices.Sorted(maps.Keys(forms))).Draw(t, "form")
	n := rapid.IntRange(1, 5).Draw(t, "parts")
	b := &bed{t: t, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), s: forms[form]}
	b.files = append(b.files, b.open(dir))
	own := rapid.Bool().Draw(t, "files")
	var err error
	b.one, err = b.files[0].Create(t.Context(), "all", b.s)
	dbtest.Must(t, err)
	for i := range n {
		d := b.files[0]
		if own {
			d = b.open(dir)
			b.files = append(b.files, d)
		}
		c, err := d.Create(t.Context(), fmt.Sprint("part", i), b.s)
		dbtest.Must(t, err)
		b.parts = append(b.parts, c)
	}
	for i := range b.parts {
		b.fill(i, rapid.IntRange(0, 70).Draw(t, "rows"))
	}
	return b
}

func (b *bed) open(dir string) *db.DB {
	at, err := os.MkdirTemp(dir, "")
	dbtest.Must(b.t, err)
	o := &db.Options{NoSync: true, MapReserve: 1 << 24}
	d, err := dbtest.Open(b.t.Context(), filepath.Join(at, "a.anndb"), o)
	dbtest.Must(b.t, err)
	return d
}

func (b *bed) close() {
	for _, d := range b.files {
		dbtest.Must(b.t, d.Close())
	}
}

// fill writes rows to a part and to the collection of all, in the same order.
func (b *bed) fill(part, rows int) {
	first := b.next
	if b.rng.IntN(3) > 0 { // an attribute that other parts may lack
		defer func() { b.put(part, b.row(fmt.Sprint("extra", part), map[string]any{fmt.Sprint("own", part): 1})) }()
	}
	for range rows {
		key := fmt.Sprint("k", b.next)
		b.next++
		if b.rng.IntN(8) == 0 && b.next > first+1 { // an update, which moves the row to the end
			key = fmt.Sprint("k", first+b.rng.IntN(b.next-first))
		}
		b.put(part, b.row(key, map[string]any{"n": b.rng.IntN(5)}))
		if b.rng.IntN(30) == 0 {
			b.build(b.parts[part])
		}
		if b.rng.IntN(40) == 0 {
			b.build(b.one)
		}
		if b.rng.IntN(10) == 0 {
			key := fmt.Append(nil, "k", first+b.rng.IntN(b.next-first))
			b.each(part, func(c db.TxCollection) error { return c.Delete(key) })
		}
	}
}

func (b *bed) put(part int, r db.Row) {
	b.keys = append(b.keys, string(r.Key))
	b.each(part, func(c db.TxCollection) error { return c.Put(r) })
}

func (b *bed) each(part int, f func(c db.TxCollection) error) {
	for _, c := range []db.Collection{b.one, b.parts[part]} {
		d := b.files[0]
		if part+1 < len(b.files) && c == b.parts[part] {
			d = b.files[part+1]
		}
		dbtest.Must(b.t, d.Update(b.t.Context(), func(tx *db.Tx) error { return f(tx.Collection(c.Name())) }))
	}
}

// build makes an exact index, if there is a kind for the rows.
func (b *bed) build(c db.Collection) {
	if !b.s.Sparse && b.s.Text == nil {
		return
	}
	if _, err := c.Build(b.t.Context(), "main", &index.Postings{}, nil); !errors.Is(err, db.ErrUnsuitable) {
		dbtest.Must(b.t, err)
	}
}

func (b *bed) row(key string, attributes map[string]any) db.Row {
	r := db.Row{Key: []byte(key), Attributes: attributes, Payload: []byte("payload of " + key),
		Labels: []string{fmt.Sprint("label", b.rng.IntN(4)), fmt.Sprint("label", b.rng.IntN(9))}}
	q := b.query(2)
	r.Vector, r.Sparse, r.Text = q.Vector, q.Sparse, strings.ReplaceAll(q.Text, `"`, "")
	if b.s.Metric == vector.Cosine && r.Vector != nil && !slices.ContainsFunc(r.Vector,
		func(x float32) bool { return x != 0 }) {
		r.Vector[0] = 1
	}
	return r
}

// query draws a query. Values are few, so that many distances are equal.
func (b *bed) query(most int) (q db.Query) {
	vectors := b.s.Dim > 0
	features := b.s.Sparse || b.s.Text != nil
	if vectors && features {
		switch b.rng.IntN(4) {
		case 0:
			vectors = false
		case 1:
			features = false
		}
	}
	if vectors {
		q.Vector = make([]float32, b.s.Dim)
		for i := range q.Vector {
			if q.Vector[i] = float32(b.rng.IntN(3)); b.rng.IntN(3) == 0 {
				q.Vector[i] += b.rng.Float32()
			}
		}
		q.Vector[0] += 0.5
	}
	switch {
	case !features:
	case b.s.Text == nil:
		q.Sparse = dbtest.RandomSparse(b.rng, 1+b.rng.IntN(6), 20)
	default:
		words := []string{"red", "green", "blue", "boot", "shoe", "sole", "of", "leather", "rare", "new"}
		for range 1 + b.rng.IntN(6*most) {
			q.Text += words[min(b.rng.IntN(len(words)), b.rng.IntN(len(words)))] + " "
		}
		if b.rng.IntN(3) == 0 {
			q.Text += fmt.Sprint("word", b.rng.IntN(60))
		}
	}
	return q
}

// group returns the parts as one.
func (b *bed) group() *group.Group {
	var sources []group.Source
	for i, c := range b.parts {
		sources = append(sources, group.Source{DB: b.files[min(i+1, len(b.files)-1)], Collection: c.Name()})
	}
	g, err := group.Open(b.t.Context(), sources...)
	dbtest.Must(b.t, err)
	return g
}

// options draws the options of a search.
func (b *bed) options() db.SearchOptions {
	o := db.SearchOptions{K: []int{0, 1, 3, 10, 60, 200}[b.rng.IntN(6)], Recall: 1, Index: ""}
	if b.rng.IntN(3) == 0 {
		o.Include = db.Labels | db.Attributes | db.Text | db.Payload
	}
	switch b.rng.IntN(5) {
	case 0:
		o.Where = filter.HasLabel("label1", "label5")
	case 1:
		o.Where = filter.Range("n", 1, 3)
	case 2:
		o.Where = filter.Or(filter.Eq(fmt.Sprint("own", b.rng.IntN(len(b.parts))), 1), filter.Eq("n", 2))
	}
	o.Explain = b.s.Text != nil && b.rng.IntN(4) == 0
	switch b.rng.IntN(4) {
	case 0:
		o.Rank.Weight = 0.7
	case 1:
		o.Rank.Reciprocal = true
	case 2:
		o.Rank.Depth = 5
	}
	if b.rng.IntN(4) == 0 {
		r := []float64{0.3, 1, 2, math.Inf(1)}[b.rng.IntN(4)]
		o.Radius = &r
	}
	return o
}

// hits returns the hits as text, without the numbers of rows.
func hits(list []db.Hit) string {
	var s strings.Builder
	for _, h := range list {
		fmt.Fprintf(&s, "%s %x %x", h.Key, math.Float32bits(h.Distance), math.Float32bits(h.Score))
		if h.Places != nil {
			fmt.Fprintf(&s, " %+v", *h.Places)
		}
		fmt.Fprintf(&s, " %q %q %q %v %v\n", h.Labels, h.Text, h.Payload, h.Attributes, h.Why)
	}
	return s.String()
}

// TestSearch: a search of parts finds what a search of one collection with the rows of all finds, bit
// for bit.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(t, dir)
		defer b.close()
		g := b.group()
		defer g.Release()
		for i := range 25 {
			q, o := b.query(1), b.options()
			if q.Vector != nil && (q.Text != "" || q.Sparse.Len() > 0) {
				o.Radius = nil
			}
			switch {
			case b.s.Text != nil && q.Text != "" && i%5 == 0:
				q.Text += ` +boot -"red shoe"`
			case i%5 == 1 && len(b.keys) > 0:
				q = db.Query{Key: []byte(b.keys[b.rng.IntN(len(b.keys))])}
				o.Radius = nil
			}
			for page := range 3 {
				want, wantErr := b.one.Search(t.Context(), q, &o)
				got, err := g.Search(t.Context(), q, &o)
				if (err != nil) != (wantErr != nil) {
					t.Fatalf("%+v %+v: %v, want %v", q, o, err, wantErr)
				}
				if got, want := hits(got.Hits), hits(want.Hits); got != want {
					t.Fatalf("page %d of %+v %+v\ngot\n%swant\n%s", page, q, o, got, want)
				}
				if !slices.Equal(got.Stats.Unknown, want.Stats.Unknown) {
					t.Fatalf("unknown %v, want %v", got.Stats.Unknown, want.Stats.Unknown)
				}
				o.After = append(o.After, want.Hits...)
			}
		}
	})
}

// TestReads: counts, labels and rows of parts are those of one collection.
func TestReads(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(t, dir)
		defer b.close()
		g := b.group()
		defer g.Release()
		for range 10 {
			o := b.options()
			want, wantErr := b.one.Count(t.Context(), o.Where)
			if got, err := g.Count(t.Context(), o.Where); got != want || (err != nil) != (wantErr != nil) {
				t.Fatalf("%v: %d, %v, want %d, %v", o.Where, got, err, want, wantErr)
			}
		}
		want, err := b.one.Labels()
		dbtest.Must(t, err)
		if got, err := g.Labels(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
		for _, key := range append(b.keys, "none") {
			want, wantErr := b.one.Get([]byte(key))
			got, part, err := g.Get(t.Context(), []byte(key))
			if errors.Is(err, db.ErrNotFound) != errors.Is(wantErr, db.ErrNotFound) {
				t.Fatalf("%q: %v, want %v", key, err, wantErr)
			}
			if err == nil {
				if _, err := b.parts[part].Get([]byte(key)); err != nil {
					t.Fatalf("%q is not in part %d: %v", key, part, err)
				}
			}
			if want.Row = got.Row; !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}
