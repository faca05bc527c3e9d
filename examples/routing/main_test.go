package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "routing")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "routing.anndb"), "../../testdata/go-files-train.jsonl.gz"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// to context
	// to errors
	// to net
	// context, net in 1 of 1 training row: syscall? no (0 of 30 features, 506 rows) -0.862 (offset -0.862), fmt? no (0 of 40 features, 367 rows) -1.11 (offset -1.11), io? no (0 of 30 features, 248 rows) -1.2 (offset -1.2), strings? no (0 of 30 features, 189 rows) -1.01 (offset -1.01), 15 more
}
