package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "feed")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "feed.anndb"), "../../testdata/fashion-mnist-train-images-idx3-ubyte.gz"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// of 2000 items, 1796 looks most like the last one
	// 500 items are left
}
