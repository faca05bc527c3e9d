// Command images finds the images that look most like the first one.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
)

func main() {
	if err := run("images.anndb", "testdata/fashion-mnist-train-images-idx3-ubyte.gz"); err != nil {
		log.Fatal(err)
	}
}

func run(path, file string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	images, err := d.Create(ctx, "images", db.Schema{Dim: 28 * 28})
	if err == nil {
		_, err = images.Load(ctx, rows.File(file, dataset.Options{}), nil)
	}
	if err == nil {
		_, err = images.Build(ctx, "main", nil, nil)
	}
	if err != nil {
		return err
	}
	near, err := images.Search(ctx, db.Query{Key: []byte("0")}, &db.SearchOptions{K: 5, Recall: 0.99})
	for _, h := range near.Hits {
		fmt.Printf("image %s, distance %.0f\n", h.Key, h.Distance)
	}
	return err
}
