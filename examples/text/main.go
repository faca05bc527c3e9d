// Command text finds sentences by their words. Run it from the top of the repository; it makes the file
// text.anndb there.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

var sentences = []string{
	"A writer must be flushed before it is closed.", "The river flushed the old mill.",
	"Close the file, then remove it.", "Writers of files flush them at the end.",
}

func main() {
	if err := run("text.anndb"); err != nil {
		log.Fatal(err)
	}
}

func run(path string) (err error) {
	ctx := context.Background()
	d, err := db.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	notes, err := d.Create(ctx, "notes", db.Schema{Text: &text.Schema{Analyzer: "english"}})
	if err != nil {
		return err
	}
	err = d.Update(ctx, func(tx *db.Tx) (err error) {
		for i, s := range sentences {
			err = errors.Join(err, tx.Collection("notes").Put(db.Row{Key: fmt.Append(nil, i), Text: s}))
		}
		return err
	})
	if err != nil {
		return err
	}
	found, err := notes.Search(ctx, db.Query{Text: "how do I flush a writer"}, &db.SearchOptions{Include: db.Text})
	for _, h := range found.Hits {
		fmt.Printf("%.2f  %s\n", -h.Distance, h.Text)
	}
	return err
}
