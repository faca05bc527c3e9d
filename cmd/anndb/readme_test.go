package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeFeatures: the features of the README's examples are Bibtex's.
func TestReadmeFeatures(t *testing.T) {
	data := os.Getenv("ANNDB_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(data, "bibtex", "bibtex-train.arff.gz"))
	if err != nil {
		t.Skipf("no data set: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	arff, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`docs\.anndb bibtex .*--features (\S+)`).FindAllSubmatch(readme, -1)
	if len(examples) == 0 {
		t.Fatal("the README has no example with --features")
	}
	for _, e := range examples {
		for part := range strings.SplitSeq(string(e[1]), ",") {
			name, _, _ := strings.Cut(part, "=")
			if !strings.Contains(string(arff), "\n@attribute "+name+" ") {
				t.Errorf("README: %s: Bibtex has no feature %q", e[0], name)
			}
		}
	}
}
