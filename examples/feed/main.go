// Command feed keeps a stream of items searchable for an hour each, while they come and go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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
	d, err := db.Open(ctx, path, nil) // searches are exact; an index follows by itself when they get slow
	if err != nil {
		return err
	}
	defer d.Close()
	feed, err := d.Create(ctx, "feed", db.Schema{Dim: 28 * 28})
	now, n := time.Now(), 0
	for item, unread := range rows.File(stream, dataset.Options{}) {
		if err != nil || unread != nil {
			return errors.Join(err, unread)
		}
		item.ExpiresAt = now.Add(time.Hour)
		if n < 1500 { // the older items of this stream are from yesterday
			item.ExpiresAt = now.Add(-23 * time.Hour)
		}
		err = d.Update(ctx, func(tx *db.Tx) error { return tx.Collection("feed").Put(item) })
		n++ // the item is durable
	}
	like, err := feed.Search(ctx, db.Query{Key: fmt.Append(nil, n-1)}, &db.SearchOptions{K: 1})
	if err != nil {
		return err
	}
	fmt.Printf("of %d items, %s looks most like the last one\n", n, like.Hits[0].Key)
	if _, err = d.Maintain(ctx, 0, nil); err != nil { // the background does this every few seconds
		return err
	}
	left, err := feed.Count(ctx, nil)
	fmt.Println(left, "items are left")
	return err
}
