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
	d, err := db.Open(filepath.Join(dir, "palette.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := d.CreateDense(context.Background(), "colours", db.DenseOptions{Dim: 3}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(context.Background(), func(tx *db.Tx) error {
		for _, c := range colours {
			if err := tx.Put("colours", db.Row{Key: []byte(c.name), Vector: c.rgb, Labels: c.tags}); err != nil {
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

	d, err := db.Open(filepath.Join(dir, "palette.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if err := d.CreateDense(ctx, "colours", db.DenseOptions{Dim: 3, Metric: vector.L2}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for _, c := range colours {
			if err := tx.Put("colours", db.Row{Key: []byte(c.name), Vector: c.rgb}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	err = d.View(func(s *db.Snapshot) error {
		tomato := []float32{255, 99, 71}
		hits, _, err := s.Search(ctx, "colours", tomato, 3, nil, nil)
		for _, h := range hits {
			fmt.Printf("%s %.1f\n", h.Key, h.Distance)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// orange 96.9
	// red 121.8
	// gold 136.0
}

// Build learns an index and tunes it on rows held out: a search then needs no
// more than the recall it should have.
func ExampleDB_Build() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d, err := db.Open(filepath.Join(dir, "spiral.anndb"), &db.Options{NoSync: true})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if err := d.CreateDense(ctx, "spiral", db.DenseOptions{Dim: 3}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for i := range 2000 {
			a := float64(i) / 30
			x := []float32{float32(a * math.Cos(a)), float32(a * math.Sin(a)), float32(a)}
			if err := tx.Put("spiral", db.Row{Key: fmt.Appendf(nil, "point %d", i), Vector: x}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	info, err := d.Build(ctx, "spiral", "main", db.BuildOptions{Trees: 4, Seed: 1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Options.Kind, "over", info.Rows, "rows, tuned:", info.Curve != nil)

	err = d.View(func(s *db.Snapshot) error {
		q := []float32{0, 31, 30}
		hits, stats, err := s.Search(ctx, "spiral", q, 1, &db.SearchOptions{Recall: 0.99}, nil)
		if err != nil {
			return err
		}
		fmt.Printf("nearest is %s, compared with less than half: %t\n", hits[0].Key, stats.Exact < 1000)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// kd over 2000 rows, tuned: true
	// nearest is point 989, compared with less than half: true
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
			tx.Delete("colours", []byte("teal")),
			tx.Put("colours", db.Row{Key: []byte("violet"), Vector: []float32{238, 130, 238}}),
			tx.Put("colours", db.Row{Key: []byte("indigo"), Vector: []float32{75, 0, 130}}),
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
		n, err := s.Count("colours")
		if err != nil {
			log.Fatal(err)
		}
		_, err = s.Get("colours", []byte("teal"))
		fmt.Println(n, "colours, no teal:", errors.Is(err, db.ErrNotFound))
	}
	// Output:
	// 11 colours, no teal: false
	// 12 colours, no teal: true
}

// Filters restrict the answers before any distance is computed, by label, by
// key, or by a bitmap of row numbers. A radius asks for all rows within it.
func ExampleSnapshot_Search_filters() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d := palette(dir)
	defer d.Close()

	err := d.View(func(s *db.Snapshot) error {
		q := []float32{90, 60, 62}
		for _, o := range []db.SearchOptions{
			{},
			{Labels: []string{"warm"}},
			{Key: func(key []byte) bool { return len(key) == 4 }},
			{Radius: 120},
		} {
			hits, _, err := s.Search(ctx, "colours", q, 3, &o, nil)
			if err != nil {
				return err
			}
			var names []string
			for _, h := range hits {
				names = append(names, string(h.Key))
			}
			fmt.Println(names)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// [grey black navy]
	// [red orange gold]
	// [grey navy teal]
	// [grey]
}

// An explanation says which stage found a row, and how its label was elected
// by the leaves that the query fell into.
func ExampleSnapshot_Search_explain() {
	ctx := context.Background()
	dir := tempDir()
	defer os.RemoveAll(dir)
	d := palette(dir)
	defer d.Close()

	o := db.BuildOptions{Trees: 3, Depth: 1, LabelsK: 2, NoTune: true, Seed: 1}
	if _, err := d.Build(ctx, "colours", "main", o, nil); err != nil {
		log.Fatal(err)
	}
	err := d.Update(ctx, func(tx *db.Tx) error {
		return tx.Put("colours", db.Row{Key: []byte("maroon"), Vector: []float32{128, 0, 0}})
	})
	if err != nil {
		log.Fatal(err)
	}
	err = d.View(func(s *db.Snapshot) error {
		search := &db.SearchOptions{Params: &query.Params{Method: query.Natural}, Explain: true}
		hits, _, err := s.Search(ctx, "colours", []float32{200, 0, 0}, 2, search, nil)
		if err != nil {
			return err
		}
		for _, h := range hits {
			e := h.Explanation
			fmt.Printf("%s: %s, elected by votes: %t\n", h.Key, e.Source, e.Elected)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// red: forest, elected by votes: true
	// maroon: fresh, elected by votes: false
}
