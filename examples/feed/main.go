// Command feed keeps the last items of a stream searchable while they come and go.
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
	if err := run("feed.anndb", "testdata/fashion-mnist-train-images-idx3-ubyte.gz"); err != nil {
		log.Fatal(err)
	}
}

// kept is how many items stay searchable.
const kept = 500

func run(path, stream string) error {
	ctx := context.Background()
	d, err := db.Open(path, nil) // indexes follow by themselves
	if err != nil {
		return err
	}
	defer d.Close()
	feed, err := d.Create(ctx, "feed", db.Schema{Dim: 28 * 28})
	if err != nil {
		return err
	}
	n := 0
	for item, err := range rows.File(stream, dataset.Options{}) {
		if err != nil {
			return err
		}
		err = d.Update(ctx, func(tx *db.Tx) error { // both or neither, durable on return
			if err := tx.Collection("feed").Put(item); err != nil || n < kept {
				return err
			}
			return tx.Collection("feed").Delete(fmt.Append(nil, n-kept))
		})
		if n++; err == nil && n == kept {
			_, err = feed.Build(ctx, "main", nil)
		}
		if err != nil {
			return err
		}
	}
	count, err := feed.Count(ctx, nil)
	if err != nil {
		return err
	}
	last := fmt.Append(nil, n-1)
	like, err := feed.Search(ctx, db.Query{Key: last}, &db.SearchOptions{K: 1})
	if err != nil {
		return err
	}
	fmt.Printf("%d items, %s looks most like the last one\n", count, like.Hits[0].Key)
	return nil
}
