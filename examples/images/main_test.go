package main

import (
	"log"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(filepath.Join(dir, "images.anndb"), "../../testdata/fashion-mnist-train-images-idx3-ubyte.gz"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// image 1719, distance 1440
	// image 1370, distance 1446
	// image 680, distance 1475
	// image 208, distance 1487
	// image 1926, distance 1544
}
