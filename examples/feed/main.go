// Command feed keeps the last items of a stream searchable while they come and go.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/anndb/anndb/dataset"
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
	in, err := dataset.Open(stream, dataset.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := d.Create(ctx, "feed", db.Schema{Dim: in.Schema().Dim}); err != nil {
		return err
	}
	n := 0
	for rec, err := range dataset.All(in) {
		if err != nil {
			return err
		}
		err = d.Update(ctx, func(tx *db.Tx) error { // both or neither, durable on return
			if err := tx.Collection("feed").Put(db.Row{Key: rec.Key, Vector: rec.Vector}); err != nil || n < kept {
				return err
			}
			return tx.Collection("feed").Delete(fmt.Append(nil, n-kept))
		})
		if n++; err == nil && n == kept {
			_, err = d.Collection("feed").Build(ctx, "main", nil)
		}
		if err != nil {
			return err
		}
	}
	return d.View(func(s *db.Snapshot) error {
		rows, err := s.Collection("feed").Count()
		if err != nil {
			return err
		}
		last := db.Query{Key: fmt.Append(nil, n-1)}
		like, err := s.Collection("feed").Search(ctx, last, &db.SearchOptions{K: 1})
		if err != nil {
			return err
		}
		fmt.Printf("%d items, %s looks most like the last one\n", rows, like.Hits[0].Key)
		return nil
	})
}
