package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "words")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "words.anndb"), "../../testdata/glove-words.jsonl.gz"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// all: movie, films, directed, documentary, movies
	// rank > 1500: documentary, starring, scenes, inspired, oscar
	// length = 7 and not key prefix "m": picture, episode, written, version, reality
}
