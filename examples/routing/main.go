// Command routing learns a tree that routes documents by few of their words, and explains where it
// sends a document that it has not seen.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/vector"
)

func main() {
	if err := run("routing.anndb", "testdata/go-files-train.jsonl.gz"); err != nil {
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
	files, err := d.Create(ctx, "files", db.Schema{Named: true})
	if err == nil {
		_, err = files.Load(ctx, rows.File(file, dataset.Options{Kind: dataset.Sparse}), nil)
	}
	if err == nil { // at most 10 words a round for each decision
		_, err = files.Build(ctx, "tree", &index.Trees{Kind: "at", Budget: 10}, nil)
	}
	if err != nil {
		return err
	}
	document := []vector.Feature{
		{Name: "listener", Value: 3}, {Name: "accept", Value: 2}, {Name: "conn", Value: 5},
		{Name: "context", Value: 4}, {Name: "errors", Value: 2}, {Name: "sync", Value: 2},
	}
	route, err := files.Predict(ctx, db.Query{Features: document}, &db.PredictOptions{Set: true, Explain: true})
	if err != nil {
		return err
	}
	for _, p := range route.Labels {
		fmt.Println("to", p.Label)
	}
	fmt.Println(route.Why)
	return nil
}
