// Command images finds the images that look most like the first one.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

func main() {
	if err := run("images.anndb", "testdata/fashion-mnist-train-images-idx3-ubyte.gz"); err != nil {
		log.Fatal(err)
	}
}

func run(path, images string) error {
	ctx := context.Background()
	d, err := db.Open(path, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	in, err := dataset.Open(images, dataset.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	all, err := d.Create(ctx, "images", db.Schema{Dim: in.Schema().Dim})
	if err != nil {
		return err
	}
	if _, err := all.Load(ctx, rows(in)); err != nil {
		return err
	}
	if _, err := all.Build(ctx, "main", nil); err != nil {
		return err
	}
	near, err := all.Search(ctx, db.Query{Key: []byte("0")}, &db.SearchOptions{K: 5, Recall: 0.99})
	for _, h := range near.Hits {
		fmt.Printf("image %s, distance %.0f\n", h.Key, h.Distance)
	}
	return err
}

// rows makes rows of records.
func rows(in dataset.Reader) func(yield func(db.Row, error) bool) {
	return func(yield func(db.Row, error) bool) {
		for rec, err := range dataset.All(in) {
			if err != nil {
				yield(db.Row{}, err)
				return
			}
			if !yield(db.Row{Key: rec.Key, Vector: rec.Vector}, nil) {
				return
			}
		}
	}
}
