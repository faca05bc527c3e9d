// Command feed keeps the last 500 items of a stream searchable while they come and go.
package main

import (
	"context"
	"errors"
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

func run(path, stream string) error {
	ctx := context.Background()
	d, err := db.Open(path, nil) // searches are exact; an index follows by itself when they get slow
	if err != nil {
		return err
	}
	defer d.Close()
	feed, err := d.Create(ctx, "feed", db.Schema{Dim: 28 * 28})
	n := 0
	for item, unread := range rows.File(stream, dataset.Options{}) {
		if err != nil || unread != nil {
			return errors.Join(err, unread)
		}
		err = d.Update(ctx, func(tx *db.Tx) error { // both or neither, durable on return
			items := tx.Collection("feed")
			return errors.Join(items.Put(item), items.Delete(fmt.Append(nil, n-500)))
		})
		n++
	}
	like, err := feed.Search(ctx, db.Query{Key: fmt.Append(nil, n-1)}, &db.SearchOptions{K: 1})
	if err == nil {
		fmt.Printf("of %d items, %s looks most like the last one\n", n, like.Hits[0].Key)
	}
	return err
}
