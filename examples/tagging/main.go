// Command tagging learns which packages source files import from their words, and predicts them for
// the words of a file that it has not seen.
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
	if err := run("files.anndb", "testdata/go-files-train.jsonl.gz"); err != nil {
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
	if err == nil {
		_, err = files.Build(ctx, "imports", &index.LCIF{Weight: "tfidf"}, nil)
	}
	if err != nil {
		return err
	}
	words := []vector.Feature{
		{Name: "listener", Value: 3}, {Name: "accept", Value: 2}, {Name: "conn", Value: 5},
	}
	best, err := files.Predict(ctx, db.Query{Features: words}, &db.PredictOptions{Top: 2, Explain: true})
	for _, p := range best.Labels {
		fmt.Printf("%s, because of %s\n", p.Label, p.Why.Text) // p.Why.Parts has the rows and features
	}
	return err
}
