// Command tagging learns which packages source files import from their words, and
// predicts them for a file that it has not seen.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/anndb/anndb/dataset"
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
	if _, err := d.Create(ctx, "files", db.Schema{Features: db.Named}); err != nil {
		return err
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		return files(data+"/go-files-train.jsonl.gz", func(r db.Row) error { return tx.Collection("files").Put(r) })
	})
	if err != nil {
		return err
	}
	_, err = d.Collection("files").Build(ctx, "imports", &db.LCIF{Weight: db.WeightTFIDF})
	if err != nil {
		return err
	}
	return d.View(func(s *db.Snapshot) error {
		return files(data+"/go-files-test.jsonl.gz", func(r db.Row) error {
			if string(r.Key) != "time/tick.go" {
				return nil
			}
			best, err := s.Collection("files").Predict(ctx, db.Query{Features: r.Features}, nil)
			fmt.Printf("%s imports %q\n", r.Key, r.Labels)
			for _, l := range best.Labels {
				fmt.Printf("\t%s\n", l.Label)
			}
			return err
		})
	})
}

// files calls f for each file of a data set.
func files(path string, f func(db.Row) error) error {
	in, err := dataset.Open(path, dataset.Options{Kind: dataset.Sparse})
	if err != nil {
		return err
	}
	defer in.Close()
	for rec, err := range dataset.All(in) {
		if err != nil {
			return err
		}
		r := db.Row{Key: rec.Key, Labels: rec.Labels}
		for i, number := range rec.Features.Index {
			name := in.Schema().FeatureNames[number]
			r.Features = append(r.Features, db.Feature{Name: name, Value: rec.Features.Value[i]})
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}
