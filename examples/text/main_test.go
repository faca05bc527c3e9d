package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "text")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "text.anndb")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0.98  A writer must be flushed before it is closed.
	// 0.98  Writers of files flush them at the end.
	// 0.37  The river flushed the old mill.
}
