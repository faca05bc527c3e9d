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
	if err := run(filepath.Join(dir, "files.anndb"), "../../testdata"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// time/tick.go imports ["unsafe"]
	// 	internal/godebug
	// 	unsafe
}
