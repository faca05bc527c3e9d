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
	if err := d.CreateDense(ctx, "images", db.DenseOptions{Dim: in.Schema().Dim}); err != nil {
		return err
	}
	if _, err := d.Load(ctx, "images", rows(in), nil); err != nil {
		return err
	}
	if _, err := d.Build(ctx, "images", "main", db.BuildOptions{}, nil); err != nil {
		return err
	}
	return d.View(func(s *db.Snapshot) error {
		first, err := s.Get("images", []byte("0"))
		if err != nil {
			return err
		}
		hits, _, err := s.Search(ctx, "images", first.Vector, 5, &db.SearchOptions{Recall: 0.99}, nil)
		for _, h := range hits {
			fmt.Printf("image %s, distance %.0f\n", h.Key, h.Distance)
		}
		return err
	})
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
