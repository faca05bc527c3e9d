// Command tagging learns which packages source files import from their words, and
// predicts them for a file that it has not seen.
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
	if err := run("files.anndb", "testdata"); err != nil {
		log.Fatal(err)
	}
}

func run(path, data string) error {
	ctx := context.Background()
	d, err := db.Open(path, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	files, err := d.Create(ctx, "files", db.Schema{Features: db.Named})
	if err != nil {
		return err
	}
	sparse := dataset.Options{Kind: dataset.Sparse}
	if _, err := files.Load(ctx, rows.File(data+"/go-files-train.jsonl.gz", sparse)); err != nil {
		return err
	}
	if _, err := files.Build(ctx, "imports", &db.LCIF{Weight: db.WeightTFIDF}); err != nil {
		return err
	}
	for r, err := range rows.File(data+"/go-files-test.jsonl.gz", sparse) {
		if err != nil {
			return err
		}
		if string(r.Key) != "time/tick.go" {
			continue
		}
		best, err := files.Predict(ctx, db.Query{Features: r.Features}, nil)
		if err != nil {
			return err
		}
		fmt.Printf("%s imports %q\n", r.Key, r.Labels)
		for _, l := range best.Labels {
			fmt.Printf("\t%s\n", l.Label)
		}
	}
	return nil
}
