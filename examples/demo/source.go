package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/db"
)

// file is a source file: how often each word occurs in it without its import declarations, and what
// it imports.
type file struct {
	path    string
	words   []db.Feature
	imports []string
}

// readFiles returns the files below a folder that import something, without tests and commands.
func readFiles(src string) ([]file, error) {
	var files []file
	var counts []map[string]int
	inFiles := map[string]int{} // by word
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"cmd", "vendor", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		imports, words, err := readFile(path)
		if err != nil || len(imports) == 0 {
			return err
		}
		name, err := filepath.Rel(src, path)
		files = append(files, file{path: filepath.ToSlash(name), imports: imports})
		counts = append(counts, words)
		for w := range words {
			inFiles[w]++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(files) < 20 {
		return nil, fmt.Errorf("%s has %d files that import something, too few for a demo", src, len(files))
	}
	for i := range files {
		for _, w := range slices.Sorted(maps.Keys(counts[i])) {
			// A word of one file finds no other, and one of very many files says little.
			if inFiles[w] > 1 && inFiles[w] <= len(files)/5 {
				files[i].words = append(files[i].words, db.Feature{Name: w, Value: float32(counts[i][w])})
			}
		}
	}
	return slices.DeleteFunc(files, func(f file) bool { return len(f.words) == 0 }), nil
}

// word matches a part of a name: ReadFile has two.
var word = regexp.MustCompile(`[A-Z]*[a-z]+|[A-Z]{2,}`)

// readFile returns the imports of a file, and counts its other words.
func readFile(path string) (imports []string, words map[string]int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.ImportsOnly)
	if err != nil {
		return nil, nil, err
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, nil, err
		}
		imports = append(imports, name)
	}
	slices.Sort(imports)
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok { // an import declaration, which would give the answer away
			from, to := set.Position(g.Pos()).Offset, set.Position(g.End()).Offset
			copy(text[from:to], strings.Repeat(" ", to-from))
		}
	}
	words = map[string]int{}
	for _, w := range word.FindAllString(string(text), -1) {
		if len(w) > 1 && len(w) <= 40 {
			words[strings.ToLower(w)]++
		}
	}
	return slices.Compact(imports), words, nil
}
