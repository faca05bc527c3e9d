package group_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/text"
)

// notes is a new database of texts.
func notes(path string, texts map[string]string) *db.DB {
	ctx := context.Background()
	d, err := db.Open(ctx, path, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := d.Create(ctx, "notes", db.Schema{Text: &text.Schema{}}); err != nil {
		log.Fatal(err)
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		for key, s := range texts {
			if err := tx.Collection("notes").Put(db.Row{Key: []byte(key), Text: s}); err != nil {
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

// Texts of two files are ranked as in one: by how many rows of both have a word.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	first := notes(filepath.Join(dir, "2025.anndb"), map[string]string{"a": "red boots", "b": "blue boots"})
	defer first.Close()
	second := notes(filepath.Join(dir, "2026.anndb"), map[string]string{"c": "red boots and a red hat"})
	defer second.Close()

	g, err := group.Open(context.Background(), group.Source{DB: first, Collection: "notes"},
		group.Source{DB: second, Collection: "notes"})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Release()
	res, err := g.Search(context.Background(), db.Query{Text: "red boots"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, h := range res.Hits {
		fmt.Printf("%s of file %d\n", h.Key, res.Parts[i])
	}
	// Output:
	// a of file 0
	// c of file 1
	// b of file 0
}
