package goroot

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/anndb/anndb/internal/par"
)

// maxWord is the length in bytes of the longest word that counts: longer ones
// are tables of data.
const maxWord = 40

// File is one source file as a bag of words with the packages it imports.
type File struct {
	// Path is relative to src, with slashes.
	Path string
	// Imports are the import paths, sorted, each once.
	Imports []string
	// Words counts the words of the text without its import declarations.
	Words map[string]int
}

// Files reads every Go file below src, tests and testdata left out, that
// imports something, ordered by path. Files that do not parse are skipped.
// workers and progress are as for Walk.
//
// Errors: ErrNoSource where the folder cannot be read, and the context's error.
func Files(ctx context.Context, src string, workers int, progress func(done, total int)) ([]File, error) {
	paths, err := goFiles(ctx, src)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(paths))
	work := par.Work{N: len(paths), Workers: workers, Progress: everyStep(progress)}
	err = par.Each(ctx, work, func(i int) error {
		files[i] = readFile(src, paths[i])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("goroot: %w", err)
	}
	return slices.DeleteFunc(files, func(f File) bool { return len(f.Imports) == 0 || len(f.Words) == 0 }), nil
}

// readFile reads one file; one that cannot be read or parsed has no imports.
func readFile(src, rel string) File {
	out := File{Path: filepath.ToSlash(rel)}
	text, err := os.ReadFile(filepath.Join(src, rel))
	if err != nil {
		return out
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, text, parser.ImportsOnly)
	if err != nil {
		return out
	}
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out.Imports = append(out.Imports, p)
		}
	}
	slices.Sort(out.Imports)
	out.Imports = slices.Compact(out.Imports)
	// The imports themselves would give the answer away. Blanks in their place
	// keep the words around them apart.
	base := fset.File(f.FileStart).Base()
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			for i := int(g.Pos()) - base; i < int(g.End())-base; i++ {
				text[i] = ' '
			}
		}
	}
	out.Words = map[string]int{}
	for _, w := range Tokens(nil, string(text)) {
		if len(w) <= maxWord {
			out.Words[w]++
		}
	}
	return out
}
