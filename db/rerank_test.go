package db_test

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
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// rankBed is a collection whose rows have attributes, and what its searches find without any ranking.
type rankBed struct {
	t      *testing.T
	d      *db.DB
	schema db.Schema
	rows   map[string]db.Row
	alone  []db.Hit // all rows that the query finds
	q      db.Query
}

var rankOrigin = time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

func newRankBed(t *testing.T, name string, schema db.Schema, n int) *rankBed {
	rng := rand.New(rand.NewPCG(3, uint64(len(name))))
	b := &rankBed{t: t, schema: schema, rows: map[string]db.Row{}}
	b.d = dbtest.OpenTemp(t, nil)
	dbtest.Must(t, dbtest.Create(t.Context(), b.d, name, schema))
	draw := func() (r db.Row) {
		if schema.Dim > 0 {
			r.Vector = normal(rng, schema.Dim)
		}
		switch words := 1 + rng.IntN(6); {
		case schema.Text != nil:
			for range words {
				r.Text += fmt.Sprint("w", int(math.Pow(30, rng.Float64())), " ")
			}
		case schema.Sparse:
			for i := range words {
				r.Sparse.Index = append(r.Sparse.Index, uint32(i*3+rng.IntN(3)))
				r.Sparse.Value = append(r.Sparse.Value, float32(1+rng.IntN(3)))
			}
		}
		return r
	}
	var rows []db.Row
	for i := range n {
		r := draw()
		if i%5 == 4 { // equal rows have equal scores
			r = rows[i-1-rng.IntN(4)]
		}
		if schema.Dim > 0 && schema.Text != nil && i%7 == 0 {
			r.Vector = nil
		}
		r.Key = fmt.Append(nil, "k", i)
		if i%5 < 4 {
			r.Attributes = map[string]any{}
			if i%6 > 0 {
				r.Attributes["author"] = fmt.Sprint("a", rng.IntN(5))
			}
			if i%4 > 0 {
				r.Attributes["year"] = 2000 + rng.IntN(25)
				r.Attributes["at"] = rankOrigin.AddDate(0, 0, -rng.IntN(400))
			}
		}
		rows = append(rows, r)
		b.rows[string(r.Key)] = r
	}
	dbtest.Must(t, dbtest.Put(b.d, name, rows...))
	r := draw()
	b.q = db.Query{Vector: r.Vector, Sparse: r.Sparse}
	if schema.Text != nil {
		b.q.Text = r.Text + "w1 w2"
	}
	b.alone = b.search(name, db.SearchOptions{K: n})
	return b
}

func (b *rankBed) search(name string, o db.SearchOptions) []db.Hit {
	b.t.Helper()
	o.Recall, o.Rank.Depth = 1, cmp.Or(o.Rank.Depth, 10000)
	res, err := b.d.Collection(name).Search(b.t.Context(), b.q, &o)
	dbtest.Must(b.t, err)
	return res.Hits
}

func (b *rankBed) fused() bool { return b.q.Vector != nil && b.q.Text != "" }

// score is that of a hit without boosts.
func (b *rankBed) score(h db.Hit) float64 {
	if b.q.Text == "" && (b.schema.Sparse || b.schema.Metric == vector.Cosine) {
		return 1 - float64(h.Distance)
	}
	return -float64(h.Distance)
}

// boosted is a score after boosts.
func (b *rankBed) boosted(s float64, r db.Row, boosts []rank.Boost, passes []func(db.Row) bool) float64 {
	for i, x := range boosts {
		if !passes[i](r) {
			continue
		}
		factor := x.Factor
		if factor == 0 {
			factor = 1
		}
		if x.Attribute != "" {
			var far float64
			switch v := r.Attributes[x.Attribute].(type) {
			case int:
				far = math.Abs(float64(v)-x.Origin.(float64)) / x.Half
			case time.Time:
				far = math.Abs(v.Sub(x.Origin.(time.Time)).Seconds()) / x.Half
			default:
				continue
			}
			if factor = math.Pow(0.5, far); x.Linear {
				factor = math.Max(0, 1-far/2)
			}
		}
		if s < 0 {
			s = math.Max(s/factor, -math.MaxFloat32)
		} else {
			s *= factor
		}
		s += x.Add
	}
	return s
}

// like is the similarity of two rows.
func (b *rankBed) like(x, y db.Row) float64 {
	if x.Vector != nil && y.Vector != nil {
		if b.schema.Metric <= vector.L2 && !b.fused() && b.q.Text == "" {
			return -dbtest.Distance(vector.L2, x.Vector, y.Vector)
		}
		return 1 - dbtest.Distance(vector.Cosine, x.Vector, y.Vector)
	}
	u, v := valuesOf(x), valuesOf(y)
	dot, uu, vv := 0.0, 0.0, 0.0
	for f, n := range u {
		dot, uu = dot+n*v[f], uu+n*n
	}
	for _, n := range v {
		vv += n * n
	}
	if dot == 0 {
		return 0
	}
	return dot / math.Sqrt(uu*vv)
}

// valuesOf are the features of a row, or its words.
func valuesOf(r db.Row) map[string]float64 {
	out := countsOf(strings.Fields(r.Text))
	for i, f := range r.Sparse.Index {
		out[fmt.Sprint(f)] = float64(r.Sparse.Value[i])
	}
	return out
}

// check compares hits with the definition, one by one, given those before.
func (b *rankBed) check(what string, hits, before []db.Hit, o db.SearchOptions, passes []func(db.Row) bool) {
	b.t.Helper()
	best := math.Inf(-1)
	for _, h := range b.alone {
		best = math.Max(best, b.score(h))
	}
	unit := math.Abs(best)
	if !b.fused() && b.q.Text == "" && b.schema.Metric != vector.InnerProduct {
		unit = 1
	}
	group, used := map[any]int{}, map[string]bool{}
	room := func(r db.Row) bool {
		v, has := r.Attributes[o.Rank.GroupBy]
		return o.Rank.PerGroup == 0 || !has || group[v] < o.Rank.PerGroup
	}
	near := map[string]float64{} // the similarity of each row to the most similar one of those before
	take := func(key string) {
		used[key] = true
		r := b.rows[key]
		group[r.Attributes[o.Rank.GroupBy]]++
		for _, h := range b.alone {
			s := b.like(b.rows[string(h.Key)], r)
			if n, ok := near[string(h.Key)]; !ok || s > n {
				near[string(h.Key)] = s
			}
		}
	}
	for _, h := range before {
		take(string(h.Key))
	}
	value := func(h db.Hit) float64 {
		r := b.rows[string(h.Key)]
		s := b.boosted(b.score(h), r, o.Rank.Boosts, passes)
		if o.Rank.Diversity == 0 || len(used) == 0 {
			return (1 - o.Rank.Diversity) * s
		}
		return (1-o.Rank.Diversity)*s - o.Rank.Diversity*unit*near[string(h.Key)]
	}
	for i := 0; ; i++ {
		var wanted *db.Hit
		top := math.Inf(-1)
		for j := range b.alone {
			h := &b.alone[j]
			if used[string(h.Key)] || !room(b.rows[string(h.Key)]) {
				continue
			}
			if v := value(*h); v > top || wanted == nil {
				top, wanted = v, h
			}
		}
		if i == len(hits) {
			if wanted != nil && len(hits) < o.K {
				b.t.Fatalf("%s: %d hits, and %s is left", what, i, wanted.Key)
			}
			return
		}
		h := hits[i]
		at := slices.IndexFunc(b.alone, func(x db.Hit) bool { return string(x.Key) == string(h.Key) })
		if at < 0 || used[string(h.Key)] || !room(b.rows[string(h.Key)]) {
			b.t.Fatalf("%s: hit %d is %s", what, i, h.Key)
		}
		got := value(b.alone[at])
		if eps := 2e-6 * (1 + math.Abs(top)); got < top-eps || math.Abs(float64(h.Score)-got) > eps {
			b.t.Fatalf("%s: hit %d is %s of %g, shown as %g; %s has %g", what, i, h.Key, got, h.Score,
				wanted.Key, top)
		}
		// Of rows that are equal in all respects the first comes first.
		for _, x := range b.alone {
			r, own := b.rows[string(x.Key)], b.rows[string(h.Key)]
			if x.Row < h.Row && !used[string(x.Key)] && room(r) && x.Distance == h.Distance &&
				fmt.Sprint(r.Vector, r.Text, r.Sparse, r.Attributes) ==
					fmt.Sprint(own.Vector, own.Text, own.Sparse, own.Attributes) {
				b.t.Fatalf("%s: hit %d is row %d, and the equal row %d is left", what, i, h.Row, x.Row)
			}
		}
		take(string(h.Key))
	}
}

// TestRerank compares boosts, decays, diversity, groups and pages of all kinds of searches with the
// definition.
func TestRerank(t *testing.T) {
	dbtest.Whole(t)
	all := func(db.Row) bool { return true }
	young := func(r db.Row) bool { y, ok := r.Attributes["year"].(int); return ok && y > 2012 }
	boosts := []rank.Boost{
		{Where: filter.Range("year", 2013, nil), Factor: 1.7},
		{Where: filter.Range("year", 2013, nil), Add: 0.3},
		{Attribute: "year", Origin: 2010.0, Half: 4},
		{Attribute: "at", Origin: rankOrigin, Half: (100 * 24 * time.Hour).Seconds(), Linear: true},
		{Factor: 0.5},
	}
	passes := []func(db.Row) bool{young, young, all, all, all}
	for name, schema := range map[string]db.Schema{
		"l2": {Dim: 5}, "cosine": {Dim: 5, Metric: vector.Cosine},
		"product": {Dim: 5, Metric: vector.InnerProduct},
		"sparse":  {Sparse: true}, "texts": {Text: &text.Schema{}},
		"both":          {Dim: 5, Metric: vector.Cosine, Text: &text.Schema{}},
		"both-l2":       {Dim: 5, Text: &text.Schema{}},
		"words of both": {Dim: 5, Text: &text.Schema{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRankBed(t, name, schema, 160)
			if name == "words of both" {
				b.q.Vector = nil
				b.alone = b.search(name, db.SearchOptions{K: 160})
			}
			if schema.Dim == 0 {
				dbtest.Builds(t, b.d, name, "x", &index.Postings{})
			}
			for i := range 24 {
				o := db.SearchOptions{K: 9}
				var pass []func(db.Row) bool
				for j := range boosts {
					if i%6 == j || i >= 12 && i%4 == j {
						o.Rank.Boosts, pass = append(o.Rank.Boosts, boosts[j]), append(pass, passes[j])
					}
				}
				o.Rank.Diversity = []float64{0, 0.3, 0.8}[i%3]
				if i%5 > 1 {
					o.Rank.PerGroup, o.Rank.GroupBy = i%5-1, "author"
				}
				if len(o.Rank.Boosts)+o.Rank.PerGroup == 0 && o.Rank.Diversity == 0 {
					o.Rank.Diversity = 0.5
				}
				var before []db.Hit
				for page := range 3 {
					o.After = before
					hits := b.search(name, o)
					b.check(fmt.Sprintf("%d, page %d: %+v", i, page, o), hits, before, o, pass)
					before = append(slices.Clone(before), hits...)
				}
				o.After, o.K = nil, 27
				long := b.search(name, o)
				if got, want := fmt.Sprint(keysOf(before)), fmt.Sprint(keysOf(long)); got != want {
					t.Fatalf("%+v: pages %s, at once %s", o, got, want)
				}
			}
		})
	}
}

func keysOf(hits []db.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, string(h.Key))
	}
	return out
}

// TestRerankDepth: as deep as it has to be, a search finds K hits in groups, if there are so many, by an
// index and without one; pages have no key twice, whatever is written and compacted between them.
func TestRerankDepth(t *testing.T) {
	dbtest.Whole(t)
	d := dbtest.OpenTemp(t, nil)
	dbtest.Must(t, errors.Join(
		dbtest.Create(t.Context(), d, "both", db.Schema{Dim: 8, Text: &text.Schema{}}),
		dbtest.Create(t.Context(), d, "none", db.Schema{Dim: 2})))
	var rows []db.Row
	for i, x := range dbtest.Mixture(5, 3000, 8) {
		author := "one"
		if i%500 == 499 {
			author = fmt.Sprint(i)
		}
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: x, Text: fmt.Sprint("w", i%3),
			Attributes: map[string]any{"author": author, "year": i}})
	}
	dbtest.Must(t, dbtest.Put(d, "both", rows...))
	c, q := d.Collection("both"), db.Query{Vector: rows[0].Vector, Text: "w1"}
	o := &db.SearchOptions{K: 6, Rank: rank.Options{PerGroup: 1, GroupBy: "author"}}
	for _, stage := range []string{"scanned", "indexed"} {
		for _, q := range []db.Query{q, {Vector: q.Vector}, {Text: "w0 w1 w2"}, {Key: []byte("7")}} {
			res, err := c.Search(t.Context(), q, o)
			dbtest.Must(t, err)
			authors := map[any]bool{}
			for _, h := range res.Hits {
				r, err := c.Get(h.Key)
				dbtest.Must(t, err)
				authors[r.Attributes["author"]] = true
			}
			if len(res.Hits) != 6 || len(authors) != 6 {
				t.Errorf("%s: %d hits of %d authors", stage, len(res.Hits), len(authors))
			}
		}
		dbtest.Builds(t, d, "both", "near", &index.Forest{Seed: 1})
	}
	for _, q := range []db.Query{q, {Vector: q.Vector}, {Text: "w1"}, {Key: []byte("7")}} {
		seen, all := map[string]bool{}, []db.Hit(nil)
		for page := range 5 {
			res, err := c.Search(t.Context(), q, &db.SearchOptions{K: 100, After: all})
			dbtest.Must(t, err)
			for _, h := range res.Hits {
				if seen[string(h.Key)] || string(q.Key) == string(h.Key) {
					t.Fatalf("page %d: %s once more", page, h.Key)
				}
				seen[string(h.Key)] = true
			}
			if all = append(all, res.Hits...); len(res.Hits) != 100 {
				t.Fatalf("page %d: %d hits", page, len(res.Hits))
			}
			deleted := []string{fmt.Sprint(page), string(res.Hits[3].Key)}
			dbtest.Must(t, errors.Join(dbtest.Delete(d, "both", deleted...), d.Compact(t.Context(), nil)))
		}
	}
	radius := 1.0
	for want, o := range map[string]db.SearchOptions{
		"diversity 1, want":               {Rank: rank.Options{Diversity: 1}},
		"diversity -0.1, want":            {Rank: rank.Options{Diversity: -0.1}},
		"a diversity without K":           {Rank: rank.Options{Diversity: 0.5}, Radius: &radius},
		"0 hits a group":                  {Rank: rank.Options{GroupBy: "author"}},
		`1 hits a group by attribute ""`:  {Rank: rank.Options{PerGroup: 1}},
		"-1 hits a group":                 {Rank: rank.Options{PerGroup: -1, GroupBy: "author"}},
		`had an attribute "color"`:        {Rank: rank.Options{PerGroup: 1, GroupBy: "color"}},
		"depth -1":                        {Rank: rank.Options{Depth: -1}},
		"page after hit 0: invalid key":   {After: []db.Hit{{}}},
		"factor -1 and summand 0":         {Rank: rank.Options{Boosts: []rank.Boost{{Factor: -1}}}},
		"factor NaN":                      {Rank: rank.Options{Boosts: []rank.Boost{{Factor: math.NaN()}}}},
		"summand +Inf":                    {Rank: rank.Options{Boosts: []rank.Boost{{Add: math.Inf(1)}}}},
		"boost 1: invalid option: a deca": {Rank: rank.Options{Boosts: []rank.Boost{{Factor: 2}, {Half: 3}}}},
		"a half within 0":                 {Rank: rank.Options{Boosts: []rank.Boost{{Attribute: "year"}}}},
		"and a decay by attribute": {Rank: rank.Options{
			Boosts: []rank.Boost{{Attribute: "year", Half: 1, Add: 2}},
		}},
		`"author" is a string, not a num`: {Rank: rank.Options{
			Boosts: []rank.Boost{{Attribute: "author", Half: 1}},
		}},
		"origin true of a decay": {Rank: rank.Options{
			Boosts: []rank.Boost{{Attribute: "year", Half: 1, Origin: true}},
		}},
		"boost 0: ": {Rank: rank.Options{Boosts: []rank.Boost{{Where: filter.Eq("color", 1)}}}},
	} {
		if _, err := c.Search(t.Context(), db.Query{Vector: q.Vector}, &o); !errors.Is(err, db.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	res, err := c.Search(t.Context(), db.Query{Text: "w1"},
		&db.SearchOptions{K: 5, After: []db.Hit{{Key: []byte("nowhere")}}})
	if err != nil || len(res.Hits) != 5 {
		t.Errorf("after a deleted row: %d hits, %v", len(res.Hits), err)
	}
	ranks := rank.Options{
		PerGroup: 1, GroupBy: "color", Diversity: 0.5, Boosts: []rank.Boost{{Attribute: "year", Half: 1}},
	}
	res, err = d.Collection("none").Search(t.Context(), db.Query{Vector: []float32{1, 2}},
		&db.SearchOptions{Rank: ranks})
	if err != nil || len(res.Hits) > 0 {
		t.Errorf("no rows: %v, %v", res.Hits, err)
	}
}

// TestRerankSample: a search that groups make deeper is one query in the sample of queries.
func TestRerankSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.anndb")
	d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Dim: 8}))
	x := dbtest.Mixture(5, 1000, 8)
	put(t, d, len(x), func(i int) db.Row {
		return db.Row{Key: fmt.Append(nil, i), Vector: x[i], Attributes: map[string]any{"author": "one"}}
	})
	dbtest.Builds(t, d, "docs", "near", &index.Forest{Seed: 1})
	res, err := d.Collection("docs").Search(t.Context(), db.Query{Vector: x[0]},
		&db.SearchOptions{K: 5, Rank: rank.Options{PerGroup: 1, GroupBy: "author"}})
	dbtest.Must(t, errors.Join(err, d.Close()))
	if len(res.Hits) != 1 || res.Index != "near" {
		t.Errorf("%d hits by %q, want 1 of the only group by the index", len(res.Hits), res.Index)
	}
	p := dbtest.Block(t, path, layout.BucketQueries, "docs", "", codec.KindQueries, 0)
	block, err := codec.Parse(p.Value)
	dbtest.Must(t, err)
	if block.Rows != 1 {
		t.Errorf("%d queries in the sample, want 1", block.Rows)
	}
}

// TestRerankZero: the score of a row without distance is 0, not -0, which JSON would leave out.
func TestRerankZero(t *testing.T) {
	d := dbtest.OpenTemp(t, nil)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 1}))
	dbtest.Must(t, dbtest.Put(d, "c", db.Row{Key: []byte("k"), Vector: []float32{9}}))
	res, err := d.Collection("c").Search(t.Context(), db.Query{Vector: []float32{9}},
		&db.SearchOptions{Rank: rank.Options{Diversity: 0.5}})
	dbtest.Must(t, err)
	if len(res.Hits) != 1 || math.Float32bits(res.Hits[0].Score) != 0 {
		t.Errorf("hits %+v", res.Hits)
	}
}

// TestRerankValues: decays and groups see the values of all rows: in chunks, after them, changed and removed
// ones.
func TestRerankValues(t *testing.T) {
	d := dbtest.OpenTemp(t, nil)
	const dim, n = 2048, 300 // chunks have 128 rows
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: dim, Metric: vector.InnerProduct}))
	x := make([]float32, dim)
	x[0] = 1
	values := func(i int) map[string]any {
		v := map[string]any{"number": any(i % 9), "at": rankOrigin.Add(time.Duration(i%7) * time.Hour),
			"name": fmt.Sprint(i % 11)}
		switch {
		case i%5 == 0:
			v["number"] = -float64(i%4) - 0.5
		case i%13 == 0:
			delete(v, "number")
			delete(v, "name")
		}
		return v
	}
	c := d.Collection("c")
	for i := range n {
		dbtest.Must(t, dbtest.Put(d, "c", db.Row{Key: fmt.Append(nil, i), Vector: x, Attributes: values(i)}))
	}
	compare := func(stage string) {
		t.Helper()
		for name, b := range map[string]rank.Boost{
			"number": {Half: 2}, "at": {Half: 7200, Origin: rankOrigin},
		} {
			b.Attribute = name
			res, err := c.Search(t.Context(), db.Query{Vector: x},
				&db.SearchOptions{K: n, Rank: rank.Options{Boosts: []rank.Boost{b}}})
			dbtest.Must(t, err)
			if len(res.Hits) != n {
				t.Fatalf("%s: %d hits", stage, len(res.Hits))
			}
			for _, h := range res.Hits {
				r, err := c.Get(h.Key)
				dbtest.Must(t, err)
				far := 0.0
				switch v := r.Attributes[name].(type) {
				case int64:
					far = float64(v) / 2
				case float64:
					far = -v / 2
				case time.Time:
					far = v.Sub(rankOrigin).Hours() / 2
				}
				if want := math.Pow(0.5, far); math.Abs(float64(h.Score)-want) > 1e-6 {
					t.Fatalf("%s: %s has %s %v and score %g, want %g", stage, h.Key, name,
						r.Attributes[name], h.Score, want)
				}
			}
		}
		res, err := c.Search(t.Context(), db.Query{Vector: x},
			&db.SearchOptions{K: n, Rank: rank.Options{PerGroup: 2, GroupBy: "name"}})
		dbtest.Must(t, err)
		group, without := map[any]int{}, 0
		for _, h := range res.Hits {
			r, err := c.Get(h.Key)
			dbtest.Must(t, err)
			if v := r.Attributes["name"]; v == nil {
				without++
			} else if group[v]++; group[v] > 2 {
				t.Errorf("%s: a third hit of %v", stage, v)
			}
		}
		if all, err := c.Count(t.Context(), filter.Not(filter.Exists("name"))); err != nil ||
			without != all || len(res.Hits) != all+2*len(group) {
			t.Errorf("%s: %d hits in %d groups, %d of %d without a group: %v", stage, len(res.Hits),
				len(group), without, all, err)
		}
	}
	compare("stored")
	dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		for i := 0; i < n; i += 6 {
			v := values(i + 1)
			if i%4 == 0 {
				delete(v, "name")
				delete(v, "at")
			}
			if err := tx.Collection("c").SetAttributes(fmt.Append(nil, i), v); err != nil {
				return err
			}
		}
		return nil
	}))
	compare("changed")
	dbtest.Must(t, d.Compact(t.Context(), nil))
	compare("compacted")
}
