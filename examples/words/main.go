// Command words finds words of similar meaning by their vectors, among those that a filter selects.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/vector"
)

func main() {
	if err := run("words.anndb", "testdata/glove-words.jsonl.gz"); err != nil {
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
	words, err := d.Create(ctx, "words", db.Schema{Dim: 100, Metric: vector.Cosine})
	if err == nil {
		_, err = words.Load(ctx, rows.File(file, dataset.Options{}), nil)
	}
	if err == nil {
		_, err = words.Build(ctx, "main", nil, nil)
	}
	if err != nil {
		return err
	}
	for _, where := range []string{"", "rank > 1500", `length = 7 and not key prefix "m"`} {
		o := &db.SearchOptions{K: 5, Recall: 0.99}
		if where != "" {
			if o.Where, err = filter.Parse(where); err != nil {
				return err
			}
		}
		near, err := words.Search(ctx, db.Query{Key: []byte("film")}, o)
		if err != nil {
			return err
		}
		var found []string
		for _, h := range near.Hits {
			found = append(found, string(h.Key))
		}
		fmt.Printf("%s: %s\n", cmp.Or(where, "all"), strings.Join(found, ", "))
	}
	return nil
}
