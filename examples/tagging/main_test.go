package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "tagging")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "files.anndb"), "../../testdata/go-files-train.jsonl.gz"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// syscall, because of 7 rows, 3 features
	// os, because of 6 rows, 3 features
}
