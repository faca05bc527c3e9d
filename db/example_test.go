package db_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// colours are some named colours as points (red, green, blue) of 0 to 255.
var colours = []struct {
	name string
	rgb  []float32
	tags []string
}{
	{"black", []float32{0, 0, 0}, []string{"grey"}},
	{"grey", []float32{128, 128, 128}, []string{"grey"}},
	{"white", []float32{255, 255, 255}, []string{"grey"}},
	{"red", []float32{255, 0, 0}, []string{"warm"}},
	{"orange", []float32{255, 165, 0}, []string{"warm"}},
	{"gold", []float32{255, 215, 0}, []string{"warm"}},
	{"pink", []float32{255, 192, 203}, []string{"warm"}},
	{"green", []float32{0, 128, 0}, []string{"cold"}},
	{"blue", []float32{0, 0, 255}, []string{"cold"}},
	{"navy", []float32{0, 0, 128}, []string{"cold"}},
	{"teal", []float32{0, 128, 128}, []string{"cold"}},
}

// palette is a new database with those colours.
func palette(dir string) *db.DB {
	d, err := db.Open(context.Background(), filepath.Join(dir, "palette.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := d.Create(context.Background(), "colours", db.Schema{Dim: 3}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(context.Background(), func(tx *db.Tx) error {
		for _, c := range colours {
			if err := tx.Collection("colours").Put(db.Row{Key: []byte(c.name), Vector: c.rgb, Labels: c.tags}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return d
}

func tempDir() string {
	dir, err := os.MkdirTemp("", "anndb-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

// Make a database, fill a collection, and ask for the nearest rows. Without an
// index a search compares with every row.
func Example() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)

	d, err := db.Open(ctx, filepath.Join(dir, "palette.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Create(ctx, "colours", db.Schema{Dim: 3, Metric: vector.L2}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for _, c := range colours {
			if err := tx.Collection("colours").Put(db.Row{Key: []byte(c.name), Vector: c.rgb}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	tomato := db.Query{Vector: []float32{255, 99, 71}}
	near, err := d.Collection("colours").Search(ctx, tomato, &db.SearchOptions{K: 3})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range near.Hits {
		fmt.Printf("%s %.1f\n", h.Key, h.Distance)
	}
	// Output:
	// orange 96.9
	// red 121.8
	// gold 136.0
}

// Build learns an index and tunes it on rows held out: a search then needs no
// more than the recall it should have.
func ExampleCollection_Build() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d, err := db.Open(ctx, filepath.Join(dir, "spiral.anndb"), &db.Options{NoSync: true})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Create(ctx, "spiral", db.Schema{Dim: 3}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for i := range 2000 {
			a := float64(i) / 30
			x := []float32{float32(a * math.Cos(a)), float32(a * math.Sin(a)), float32(a)}
			if err := tx.Collection("spiral").Put(db.Row{Key: fmt.Appendf(nil, "point %d", i), Vector: x}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	info, err := d.Collection("spiral").Build(ctx, "main", &index.Forest{Trees: 4, Seed: 1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Kind, "over", info.Rows, "rows, tuned:", info.Curve != nil)

	q := db.Query{Vector: []float32{0, 31, 30}}
	near, err := d.Collection("spiral").Search(ctx, q, &db.SearchOptions{K: 1, Recall: 0.99})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("nearest is %s\n", near.Hits[0].Key)
	// Output:
	// kd over 2000 rows, tuned: true
	// nearest is point 989
}

// A snapshot goes on seeing the state it was taken of.
func ExampleDB_Snapshot() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d := palette(dir)
	defer d.Close()

	before, err := d.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Release()
	err = d.Update(ctx, func(tx *db.Tx) error {
		return errors.Join(
			tx.Collection("colours").Delete([]byte("teal")),
			tx.Collection("colours").Put(db.Row{Key: []byte("violet"), Vector: []float32{238, 130, 238}}),
			tx.Collection("colours").Put(db.Row{Key: []byte("indigo"), Vector: []float32{75, 0, 130}}),
		)
	})
	if err != nil {
		log.Fatal(err)
	}
	after, err := d.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer after.Release()
	for _, s := range []*db.Snapshot{before, after} {
		n, err := s.Collection("colours").Count(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		_, err = s.Collection("colours").Get([]byte("teal"))
		fmt.Println(n, "colours, no teal:", errors.Is(err, db.ErrNotFound))
	}
	// Output:
	// 11 colours, no teal: false
	// 12 colours, no teal: true
}

// Filters restrict the answers before any distance is computed, by label, by
// key, or by a bitmap of row numbers. A radius asks for all rows within it.
func ExampleCollection_Search_filters() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d := palette(dir)
	defer d.Close()

	q := db.Query{Vector: []float32{90, 60, 62}}
	for _, o := range []db.SearchOptions{
		{K: 3},
		{K: 3, Where: filter.HasLabel("warm")},
		{K: 3, Where: filter.Func(func(key []byte) bool { return len(key) == 4 })},
		{Radius: new(120.0)},
	} {
		near, err := d.Collection("colours").Search(ctx, q, &o)
		if err != nil {
			log.Fatal(err)
		}
		var names []string
		for _, h := range near.Hits {
			names = append(names, string(h.Key))
		}
		fmt.Println(names)
	}
	// Output:
	// [grey black navy]
	// [red orange gold]
	// [grey navy teal]
	// [grey]
}

// A filter is made by functions or of a text. It selects rows by attributes, labels and keys, for
// searches and for other calls.
func Example_filter() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d, err := db.Open(ctx, filepath.Join(dir, "shop.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	shop, err := d.Create(ctx, "shop", db.Schema{Dim: 2})
	if err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for i, name := range []string{"walker", "runner", "tote", "clutch"} {
			label := []string{"boot", "bag"}[i/2]
			row := db.Row{Key: []byte(name), Vector: []float32{float32(i), 1}, Labels: []string{label}}
			row.Attributes = map[string]any{"price": 10 + 5.5*float64(i), "brand": []string{"x", "y"}[i%2]}
			if err := tx.Collection("shop").Put(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	cheap, err := filter.Parse(`price < 20 and label in (boot, bag)`)
	if err != nil {
		log.Fatal(err)
	}
	f := filter.And(cheap, filter.Not(filter.Eq("brand", "y")))
	fmt.Println(f)
	n, err := shop.Count(ctx, cheap)
	if err != nil {
		log.Fatal(err)
	}
	near, err := shop.Search(ctx, db.Query{Vector: []float32{3, 1}}, &db.SearchOptions{Where: f})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, len(near.Hits), string(near.Hits[0].Key))
	_, err = filter.Parse("price < cheap and")
	fmt.Println(err)
	// Output:
	// price < 20 and label in (boot, bag) and not brand = "y"
	// 2 1 walker
	// db: invalid filter: column 18: expected a condition, as in price < 20, found the end of the filter
}

// An explanation says which stage found a row, and how its label was elected
// by the leaves that the query fell into.
func ExampleCollection_Search_explain() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d := palette(dir)
	defer d.Close()

	o := &index.Forest{Trees: 3, Depth: 1, LeafNeighbors: 2, NoTune: true, Seed: 1}
	if _, err := d.Collection("colours").Build(ctx, "main", o, nil); err != nil {
		log.Fatal(err)
	}
	err := d.Update(ctx, func(tx *db.Tx) error {
		return tx.Collection("colours").Put(db.Row{Key: []byte("maroon"), Vector: []float32{128, 0, 0}})
	})
	if err != nil {
		log.Fatal(err)
	}
	search := &db.SearchOptions{K: 2, Params: &query.Params{Method: query.Natural}, Explain: true}
	near, err := d.Collection("colours").Search(ctx, db.Query{Vector: []float32{200, 0, 0}}, search)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range near.Hits {
		fmt.Printf("%s: %s\n", h.Key, h.Why)
	}
	// Output:
	// red: forest: votes 2 in 2 of 3 leaves, estimate 0.111 above 0: tree 0, leaf 0 0.167, tree 2, leaf 0 0.167
	// maroon: fresh: votes 0 in 0 of 3 leaves, estimate 0 not above 0
}
