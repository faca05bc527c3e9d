package state_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// filterRows creates a dense and a sparse collection of 60 rows each, with keys u/00 to u/29 and
// v/30 to v/59, a label by the last digit, and some deleted rows.
func filterRows(t *testing.T) *db.DB {
	t.Helper()
	d, err := dbtest.Open(t.Context(), t.TempDir()+"/f.anndb", &db.Options{NoSync: true})
	dbtest.Must(t, err)
	t.Cleanup(func() { d.Close() })
	for name, schema := range map[string]db.Schema{"dense": {Dim: 2}, "sparse": {Sparse: true}} {
		if _, err := d.Create(t.Context(), name, schema); err != nil {
			t.Fatal(err)
		}
	}
	err = d.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 60 {
			key := filterKey(i)
			labels := []string{fmt.Sprint("d", i%10)}
			dense := db.Row{Key: key, Labels: labels, Attributes: filterAttributes(i)}
			sparse := dense
			dense.Vector = []float32{float32(i), float32(i % 7)}
			sparse.Sparse = vector.Sparse{Index: []uint32{0, uint32(1 + i)}, Value: []float32{1, 1}}
			if err := errors.Join(tx.Collection("dense").Put(dense), tx.Collection("sparse").Put(sparse)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
	for _, i := range []int{7, 31, 44} {
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			key := filterKey(i)
			return errors.Join(tx.Collection("dense").Delete(key), tx.Collection("sparse").Delete(key))
		})
		dbtest.Must(t, err)
	}
	return d
}

// filterAttributes are the attributes of a row: prices that are integers and floats, of two rows of
// three.
func filterAttributes(i int) map[string]any {
	of := map[string]any{
		"brand": []string{"x", "y z"}[i%2], "added": filterDay.AddDate(0, 0, i), "sold out": i%5 == 0,
	}
	switch i % 3 {
	case 0:
		of["price"] = i
	case 1:
		of["price"] = float64(i) + 0.5
	}
	return of
}

var filterDay = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)

func filterKey(i int) []byte {
	if i < 30 {
		return fmt.Appendf(nil, "u/%02d", i)
	}
	return fmt.Appendf(nil, "v/%02d", i)
}

// filterCase is a filter with its text and the rows that pass.
type filterCase struct {
	filter *filter.Filter
	text   string
	pass   func(i int) bool
}

var even = filter.Func(func(key []byte) bool { return (key[len(key)-1]-'0')%2 == 0 })

var filterCases = []filterCase{
	{nil, "true", func(int) bool { return true }},
	{&filter.Filter{}, "true", func(int) bool { return true }},
	{filter.And(), "true", func(int) bool { return true }},
	{filter.Or(), "false", func(int) bool { return false }},
	{filter.Not(nil), "not true", func(int) bool { return false }},
	{filter.Or(filter.HasLabel("d1"), nil), "label = d1 or true", func(int) bool { return true }},
	{
		filter.HasLabel("d1", "d4", "none"), "label in (d1, d4, none)",
		func(i int) bool { return i%10 == 1 || i%10 == 4 },
	},
	{filter.HasLabel(), "label in ()", func(int) bool { return false }},
	{filter.Not(filter.HasLabel("d4")), "not label = d4", func(i int) bool { return i%10 != 4 }},
	{filter.HasKey(filterKey(7)), fmt.Sprintf("key = %q", filterKey(7)), func(i int) bool { return i == 7 }},
	{
		filter.Not(filter.HasKey(filterKey(7), filterKey(31), []byte("none"), nil)), `not key in ("u/07", "v/31", none, "")`,
		func(i int) bool { return i != 7 && i != 31 },
	},
	{
		filter.And(filter.HasKey(filterKey(2), filterKey(3), filterKey(4)), even, filter.Not(filter.HasLabel("d4"))),
		`key in ("u/02", "u/03", "u/04") and <function of the key> and not label = d4`,
		func(i int) bool { return i == 2 },
	},
	{
		filter.HasKey([]byte(strings.Repeat("x", 600))), "key = " + strings.Repeat("x", 600),
		func(int) bool { return false },
	},
	{filter.HasKey(), "key in ()", func(int) bool { return false }},
	{filter.KeyPrefix([]byte("v/")), `key prefix "v/"`, func(i int) bool { return i >= 30 }},
	{filter.KeyPrefix(nil), `key prefix ""`, func(int) bool { return true }},
	{
		filter.And(filter.KeyPrefix([]byte("v/")), filter.Not(filter.HasLabel("d4"))), `key prefix "v/" and not label = d4`,
		func(i int) bool { return i >= 30 && i%10 != 4 },
	},
	{even, "<function of the key>", func(i int) bool { return i%2 == 0 }},
	{
		filter.And(even, filter.Or(filter.HasLabel("d2"), filter.Not(filter.KeyPrefix([]byte("u"))))),
		`<function of the key> and (label = d2 or not key prefix "u")`,
		func(i int) bool { return i%2 == 0 && (i%10 == 2 || i >= 30) },
	},
	{
		filter.Or(even, filter.HasLabel("d3")), "<function of the key> or label = d3",
		func(i int) bool { return i%2 == 0 || i%10 == 3 },
	},
	{filter.Not(even), "not <function of the key>", func(i int) bool { return i%2 != 0 }},
	{filter.Eq("price", 3.0), "price = 3.0", func(i int) bool { return i == 3 }},
	{filter.In("price", 3, 4, 4.5), "price in (3, 4, 4.5)", func(i int) bool { return i == 3 || i == 4 }},
	{filter.Not(filter.Range("price", 3, nil)), "not price >= 3", func(i int) bool { return i%3 == 2 || i < 3 }},
	{
		filter.And(filter.Range("price", 10, 20.5), filter.Eq("brand", "x")), `price >= 10 and price < 20.5 and brand = "x"`,
		func(i int) bool { return i%3 != 2 && i >= 10 && i <= 20 && i%2 == 0 },
	},
	{filter.Not(filter.Exists("price")), "not exists price", func(i int) bool { return i%3 == 2 }},
	{filter.Prefix("brand", "y"), `brand prefix "y"`, func(i int) bool { return i%2 == 1 }},
	{filter.Eq("sold out", true), "`sold out` = true", func(i int) bool { return i%5 == 0 }},
	{
		filter.Range("added", filterDay.AddDate(0, 0, 10), nil), "added >= 2024-05-11T00:00:00Z",
		func(i int) bool { return i >= 10 },
	},
	{
		filter.Or(filter.Eq("price", 3), filter.And(filter.HasLabel("d7"), filter.Not(filter.Eq("brand", "x")))),
		`price = 3 or label = d7 and not brand = "x"`, func(i int) bool { return i == 3 || i%10 == 7 },
	},
}

// TestFilterCalls: searches, batches, ranges, Matching, Count and Rows agree on which rows pass.
func TestFilterCalls(t *testing.T) {
	d := filterRows(t)
	for _, c := range filterCases {
		if got := c.filter.String(); got != c.text {
			t.Errorf("%s: text %s", c.text, got)
		}
		var want []string
		for i := range 60 {
			if c.pass(i) && i != 7 && i != 31 && i != 44 {
				want = append(want, string(filterKey(i)))
			}
		}
		for _, coll := range []string{"dense", "sparse"} {
			checkPassing(t, d.Collection(coll), c.filter, c.text, want)
			err := d.View(func(s *db.Snapshot) error {
				checkPassing(t, s.Collection(coll), c.filter, "snapshot: "+c.text, want)
				return nil
			})
			dbtest.Must(t, err)
		}
		parsed, err := filter.Parse(c.text)
		if strings.Contains(c.text, "<function") {
			if err == nil {
				t.Errorf("%s: parsed as %s", c.text, parsed)
			}
		} else if err != nil || parsed.String() != c.text {
			t.Errorf("%s: parsed as %s, %v", c.text, parsed, err)
		}
	}
}

// checkPassing compares the rows of all calls with a filter with the keys of the rows that pass.
func checkPassing(t *testing.T, c db.Collection, f *filter.Filter, name string, want []string) {
	t.Helper()
	ctx := t.Context()
	same := func(call string, keys []string, err error) {
		t.Helper()
		slices.Sort(keys)
		if err != nil || !slices.Equal(keys, want) {
			t.Errorf("%s of %s with %s: %q, %v, want %q", call, c.Name(), name, keys, err, want)
		}
	}
	n, err := c.Count(ctx, f)
	if err != nil || n != len(want) {
		t.Errorf("Count with %s: %d, %v, want %d", name, n, err, len(want))
	}
	var keys []string
	for r, err := range c.Rows(ctx, f) {
		dbtest.Must(t, err)
		keys = append(keys, string(r.Key))
	}
	same("Rows", keys, nil)
	keys = nil
	matching, err := c.MatchingKeys(ctx, f)
	for _, key := range matching {
		keys = append(keys, string(key))
	}
	same("MatchingKeys", keys, err)
	set, err := c.Matching(ctx, f)
	dbtest.Must(t, err)
	ready, err := c.RowFilter(set)
	dbtest.Must(t, err)
	q := db.Query{Vector: []float32{1, 2}}
	if c.Name() == "sparse" {
		q = db.Query{Sparse: vector.Sparse{Index: []uint32{0}, Value: []float32{1}}}
	}
	for call, o := range map[string]*db.SearchOptions{
		"Search": {K: 100, Where: f}, "Search with the matching rows": {K: 100, Where: ready},
		"Range":           {Radius: new(1e6), Where: f},
		"Search for half": {K: max(1, len(want)-1), Where: f},
	} {
		if call == "Range" && c.Name() == "sparse" {
			continue
		}
		res, err := c.Search(ctx, q, o)
		if call == "Search for half" && len(want) > 1 {
			if err != nil || len(res.Hits) != len(want)-1 {
				t.Errorf("%s with %s: %d hits, %v", call, name, len(res.Hits), err)
			}
			continue
		}
		same(call, hitKeys(res.Hits), err)
		many, err := c.SearchBatch(ctx, []db.Query{q, q}, o)
		dbtest.Must(t, err)
		same(call+", batch", hitKeys(many[1].Hits), nil)
	}
}

func hitKeys(hits []db.Hit) (keys []string) {
	for _, h := range hits {
		keys = append(keys, string(h.Key))
	}
	return keys
}

// TestBadFilter: a filter with a bad value is refused by every call.
func TestBadFilter(t *testing.T) {
	d := filterRows(t)
	ctx := t.Context()
	brands := []string{"x", "y"}
	parsed, err := filter.Parse("label  =  x  and exists none")
	dbtest.Must(t, err)
	for text, f := range map[string]*filter.Filter{
		`column 1: attribute "price": value is NaN`:                                                                 filter.Range("price", math.NaN(), nil),
		`column 15: attribute "brand": value of type []string`:                                                      filter.And(filter.HasLabel("x"), filter.Eq("brand", brands)),
		`column 5: attribute "size": integer`:                                                                       filter.Not(filter.In("size", 1, uint64(math.MaxUint64))),
		`column 9: attribute "": name ""`:                                                                           filter.Or(nil, filter.Exists("")),
		`column 1: attribute "name": string "\xff" is not UTF-8`:                                                    filter.Prefix("name", "\xff"),
		`column 14: size = 3: no row has ever had an attribute "size": they have had added, brand, price, sold out`: filter.Or(filter.Eq("price", 1), filter.Eq("size", 3)),
		`column 1: price < "x": attribute "price" is a number, not a string`:                                        filter.Range("price", nil, "x"),
		`column 5: brand in (3): attribute "brand" is a string, not a number`:                                       filter.Not(filter.In("brand", 3)),
		`column 18: exists none`:                                                                                    parsed,
	} {
		for _, coll := range []string{"dense", "sparse"} {
			c := d.Collection(coll)
			_, search := c.Search(ctx, db.Query{Vector: []float32{1, 2}}, &db.SearchOptions{Where: f})
			_, batch := c.SearchBatch(ctx, nil, &db.SearchOptions{Where: f})
			_, count := c.Count(ctx, f)
			_, matching := c.Matching(ctx, f)
			var rows error
			for _, rows = range c.Rows(ctx, f) {
			}
			for _, err := range []error{search, batch, count, matching, rows} {
				var at *filter.Error
				if !errors.As(err, &at) || !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "invalid filter: "+text) {
					t.Errorf("%v, want %s", err, text)
				}
			}
		}
	}
	var at *filter.Error
	_, err = filter.Parse("price < 20 und x = 1")
	if !errors.As(err, &at) || !errors.Is(err, db.ErrInvalid) ||
		err.Error() != `db: invalid filter: column 12: expected "and" or "or", found und` ||
		at.Caret() != "price < 20 und x = 1\n           ^" {
		t.Errorf("%v", err)
	}
}

// TestFuncCalls: a predicate gets copies of keys, is called at most once per row, not for deleted
// rows or those that the rest of the filter excludes, and not after the context has ended.
func TestFuncCalls(t *testing.T) {
	d := filterRows(t)
	for _, coll := range []string{"dense", "sparse"} {
		c := d.Collection(coll)
		q := db.Query{Key: filterKey(3)}
		for call, run := range map[string]func(ctx context.Context, f *filter.Filter) error{
			"search": func(ctx context.Context, f *filter.Filter) error {
				_, err := c.Search(ctx, q, &db.SearchOptions{Where: f, K: 5})
				return err
			},
			"count":    func(ctx context.Context, f *filter.Filter) error { _, err := c.Count(ctx, f); return err },
			"matching": func(ctx context.Context, f *filter.Filter) error { _, err := c.Matching(ctx, f); return err },
			"rows": func(ctx context.Context, f *filter.Filter) (err error) {
				for _, e := range c.Rows(ctx, f) {
					err = e
				}
				return err
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			seen := map[string]int{}
			f := filter.And(filter.KeyPrefix([]byte("v")), filter.Func(func(key []byte) bool {
				seen[string(key)]++
				clear(key)
				return true
			}))
			dbtest.Must(t, run(ctx, f))
			for key, n := range seen {
				if n > 1 || key[0] != 'v' || key == "v/31" {
					t.Errorf("%s of %s: %d calls for %q", call, coll, n, key)
				}
			}
			calls := 0
			err := run(ctx, filter.Func(func([]byte) bool {
				if calls++; calls == 3 {
					cancel()
				}
				return true
			}))
			if !errors.Is(err, context.Canceled) || calls != 3 {
				t.Errorf("%s of %s: %d calls, %v", call, coll, calls, err)
			}
			cancel()
		}
	}
}

// No read and no search finds a row that has expired, whatever its filter, and its key can be inserted
// again. A row that expires later is found.
func TestExpiredAreNotFound(t *testing.T) {
	d := filterRows(t)
	ctx := t.Context()
	for _, coll := range []string{"dense", "sparse"} {
		c, key := d.Collection(coll), filterKey(3)
		before, err := c.Count(ctx, nil)
		dbtest.Must(t, err)
		three, err := c.Matching(ctx, filter.HasKey(filterKey(3), filterKey(4)))
		dbtest.Must(t, err)
		rows, err := c.RowFilter(three)
		dbtest.Must(t, err)
		old, err := c.Get(key)
		dbtest.Must(t, err)
		dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection(coll)
			err := errors.Join(c.SetExpiry(key, time.Now().Add(-time.Second)),
				c.SetExpiry(filterKey(4), time.Now().Add(time.Hour)))
			has, hasErr := c.Has(key)
			if _, getErr := c.Get(key); has || !errors.Is(getErr, db.ErrNotFound) {
				t.Errorf("%s: the transaction finds the expired row: %v", coll, getErr)
			}
			return errors.Join(err, hasErr)
		}))
		q := db.Query{Key: filterKey(5)}
		all := filter.Func(func([]byte) bool { return true })
		for _, f := range []*filter.Filter{nil, rows, filter.Not(filter.Eq("price", -1)), all} {
			res, err := c.Search(ctx, q, &db.SearchOptions{K: 100, Where: f})
			dbtest.Must(t, err)
			many, err := c.SearchBatch(ctx, []db.Query{q}, &db.SearchOptions{K: 100, Where: f})
			dbtest.Must(t, err)
			var read []string
			for r, err := range c.Rows(ctx, f) {
				dbtest.Must(t, err)
				read = append(read, string(r.Key))
			}
			var matching []string
			keys, err := c.MatchingKeys(ctx, f)
			dbtest.Must(t, err)
			for _, k := range keys {
				matching = append(matching, string(k))
			}
			n, err := c.Count(ctx, f)
			dbtest.Must(t, err)
			if n != len(read) || n != len(matching) {
				t.Errorf("%s with %s: %d rows, %d keys, count %d", coll, f, len(read), len(matching), n)
			}
			for _, keys := range [][]string{hitKeys(res.Hits), hitKeys(many[0].Hits), read, matching} {
				if slices.Contains(keys, "u/03") || !slices.Contains(keys, "u/04") {
					t.Errorf("%s with %s: %q", coll, f, keys)
				}
			}
		}
		n, keys := 0, 0
		for k, err := range c.Keys(nil, nil) {
			dbtest.Must(t, err)
			if keys++; string(k) == "u/03" {
				t.Errorf("%s: Keys has %q", coll, k)
			}
		}
		if n, err = c.Count(ctx, nil); err != nil || n != before-1 || keys != n {
			t.Errorf("%s: %d of %d rows, %d keys, %v", coll, n, before, keys, err)
		}
		if _, err := c.Get(key); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: Get: %v", coll, err)
		}
		if _, err := c.GetRow(old.Row); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: GetRow: %v", coll, err)
		}
		if _, err := c.Search(ctx, db.Query{Key: key}, nil); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: Search like an expired row: %v", coll, err)
		}
		if has, err := c.Has(key); has || err != nil {
			t.Errorf("%s: Has: %v, %v", coll, has, err)
		}
		dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection(coll)
			if has, err := c.Has(key); has || err != nil {
				t.Errorf("%s: Has in a transaction: %v, %v", coll, has, err)
			}
			if _, err := c.Get(key); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("%s: Get in a transaction: %v", coll, err)
			}
			if err := c.SetLabels(key, "x"); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("%s: SetLabels: %v", coll, err)
			}
			return nil
		}))
		old.ExpiresAt = time.Time{}
		insert := func(tx *db.Tx) error { return tx.Collection(coll).Insert(old) }
		dbtest.Must(t, d.Update(ctx, insert))
		if r, err := c.Get(key); err != nil || r.Row == old.Row {
			t.Errorf("%s: %v, %v", coll, r, err)
		}
		if err := d.Update(ctx, insert); !errors.Is(err, db.ErrExists) {
			t.Errorf("%s: inserted twice: %v", coll, err)
		}
		dbtest.Must(t, d.Check(ctx, nil, nil))
	}
}

// TestPredictAmong: predictions with a filter get their labels from neighbors that pass, one by one
// and in batches, also from rows written after the build.
func TestPredictAmong(t *testing.T) {
	d := filterRows(t)
	ctx := t.Context()
	pass := func(key []byte) bool { return key[0] == 'v' && (key[len(key)-1]-'0')%2 == 0 }
	filters := map[string]*filter.Filter{
		"attributes": filter.And(filter.KeyPrefix([]byte("v")), filter.Eq("brand", "x")),
		"function":   filter.Func(pass),
	}
	for _, coll := range []string{"dense", "sparse"} {
		c := d.Collection(coll)
		model := &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1, Alpha: 1, Beta: 1}}
		if _, err := c.Build(ctx, "labels", model, nil); err != nil {
			t.Fatal(err)
		}
		fresh := db.Row{Key: []byte("v/98"), Labels: []string{"fresh"}, Attributes: filterAttributes(0)}
		fresh.Vector = []float32{3, 3}
		if coll == "sparse" {
			fresh.Vector, fresh.Sparse = nil, vector.Sparse{Index: []uint32{0, 4}, Value: []float32{1, 1}}
		}
		dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error { return tx.Collection(coll).Put(fresh) }))
		queries := []db.Query{{Key: filterKey(3)}, {Key: filterKey(40)}}
		for name, f := range filters {
			many, err := c.PredictBatch(ctx, queries, &db.PredictOptions{Where: f, Top: 5})
			dbtest.Must(t, err)
			for i, q := range queries {
				one, err := c.Predict(ctx, q, &db.PredictOptions{Where: f, Top: 5, Explain: true})
				if err != nil || len(one.Labels) == 0 || len(one.Labels) != len(many[i].Labels) {
					t.Fatalf("%s, %s: %v, %v, %v", coll, name, one, many[i], err)
				}
				seen := false
				for j, p := range one.Labels {
					if other := many[i].Labels[j]; other.Label != p.Label || other.Score != p.Score {
						t.Errorf("%s, %s: %v alone, %v in a batch", coll, name, p, other)
					}
					near, _ := dbtest.Evidence(p.Why)
					for _, n := range near {
						seen = seen || string(n.Key) == "v/98"
						if !pass(n.Key) {
							t.Errorf("%s, %s: row %q does not pass", coll, name, n.Key)
						}
					}
				}
				if i == 0 && !seen {
					t.Errorf("%s, %s: the nearest row that passes is no neighbor", coll, name)
				}
			}
		}
		bad := &db.PredictOptions{Where: filter.Eq("x", math.NaN())}
		if _, err := c.Predict(ctx, queries[0], bad); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("bad filter: %v", err)
		}
	}
	c := d.Collection("sparse")
	if _, err := c.Build(ctx, "tree", &index.Trees{Kind: "at"}, nil); err != nil {
		t.Fatal(err)
	}
	o := &db.PredictOptions{Index: "tree"}
	if _, err := c.Predict(ctx, db.Query{Key: filterKey(3)}, o); err != nil {
		t.Fatal(err)
	}
	o.Where = filter.HasLabel("d1")
	if _, err := c.Predict(ctx, db.Query{Key: filterKey(3)}, o); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a tree with a filter: %v", err)
	}
	queries := []db.Query{{Key: filterKey(3)}, {Key: filterKey(4)}}
	if _, err := c.PredictBatch(ctx, queries, o); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a tree with a filter: %v", err)
	}
}
