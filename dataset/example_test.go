package dataset_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/anndb/anndb/dataset"
)

// Convert a table to compressed jsonl.
func Example() {
	dir, err := os.MkdirTemp("", "dataset")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	table := "name,x,y,kind\nboot,1,0.5,shoe|winter\nshirt,-2,0,top\n"
	in, err := dataset.NewReader("table.csv", strings.NewReader(table), dataset.Options{
		KeyColumn:    "name",
		LabelColumns: []string{"kind"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()

	path := filepath.Join(dir, "table.jsonl.gz")
	out, err := dataset.Create(path, dataset.Schema{Dim: in.Schema().Dim})
	if err != nil {
		log.Fatal(err)
	}
	defer out.Abort()
	for rec, err := range dataset.All(in) {
		if err != nil {
			log.Fatal(err)
		}
		if err := out.Write(rec); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}

	again, err := dataset.Open(path, dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	for rec, err := range dataset.All(again) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %v %q\n", rec.Key, rec.Vector, rec.Labels)
	}
	// Output:
	// boot [1 0.5] ["shoe" "winter"]
	// shirt [-2 0] ["top"]
}

// An error says where.
func ExampleFormatError() {
	r, err := dataset.NewReader("table.csv", strings.NewReader("x,y\n1,2\n3,oops\n"), dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	var rec dataset.Record
	for err == nil {
		err = r.Read(&rec)
	}
	fmt.Println(err)
	fmt.Println(errors.Is(err, dataset.ErrFormat))
	// Output:
	// table.csv: line 3: record 1: column 2 ("y"): "oops" is not a number
	// true
}
