// Package goroot turns the source of Go's standard library, which every
// machine with Go has, into dense vectors: one document for every exported
// function, method and type (doc comment and source), tf-idf over its words,
// and a truncated SVD to a small number of dimensions. Documents that use the
// same vocabulary end up close by angle.
package goroot

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/internal/par"
)

// ErrNoSource is returned if there is no readable Go source tree.
var ErrNoSource = errors.New("goroot: no Go source tree")

// Document is one exported declaration.
type Document struct {
	// Key is the import path and name, such as net/http.Get or
	// net/http.Client.Do; it is unique among the documents of a walk.
	Key string
	// Package is the import path.
	Package string
	// Kind is "func", "method" or "type".
	Kind string
	// Synopsis is the first sentence of the doc comment, possibly empty.
	Synopsis string
	// Text is the doc comment followed by the declaration's source.
	Text string
}

// Find returns the root of the Go installation: the GOROOT variable, or what
// the go command reports. It wraps ErrNoSource if there is neither, or if the
// place found has no src folder.
func Find(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("%w: run go env GOROOT: %v", ErrNoSource, err)
		}
		root = strings.TrimSpace(string(out))
	}
	if st, err := os.Stat(filepath.Join(root, "src", "fmt")); err != nil || !st.IsDir() {
		return "", fmt.Errorf("%w: no src/fmt below %q", ErrNoSource, root)
	}
	return root, nil
}

// Walk parses every Go file below src (tests and testdata left out) on the
// given number of goroutines, all processors when workers < 1, and returns
// one Document for every exported function, exported method of an exported
// type, and exported type, ordered by Key. Where build tags give several
// declarations of one name, the one in the first file by name counts. Files
// that do not parse are skipped. progress, if not nil, gets files done and
// files in all, never concurrently.
//
// Errors: ErrNoSource where the folder cannot be read or holds no
// declaration, and the context's error.
func Walk(ctx context.Context, src string, workers int, progress func(done, total int)) ([]Document, error) {
	files, err := goFiles(ctx, src)
	if err != nil {
		return nil, err
	}
	perFile := make([][]Document, len(files))
	work := par.Work{N: len(files), Workers: workers, Progress: everyStep(progress)}
	err = par.Each(ctx, work, func(i int) error {
		perFile[i] = parseFile(src, files[i])
		return nil
	})
	if err != nil {
		return nil, err
	}
	docs := slices.Concat(perFile...)
	// Stable: among equal keys the file that comes first by name stays first.
	slices.SortStableFunc(docs, func(a, b Document) int { return strings.Compare(a.Key, b.Key) })
	docs = slices.CompactFunc(docs, func(a, b Document) bool { return a.Key == b.Key })
	if len(docs) == 0 {
		return nil, fmt.Errorf("%w: no exported declaration below %q", ErrNoSource, src)
	}
	return docs, nil
}

// goFiles lists the files to parse, by path, relative to src.
func goFiles(ctx context.Context, src string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && p == src:
			return fmt.Errorf("%w: %v", ErrNoSource, err)
		case err != nil:
			return nil // an unreadable part of the tree only makes the corpus smaller
		case d.IsDir() && p != src && skipDir(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(src, p)
		if err == nil {
			files = append(files, rel)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

func skipDir(name string) bool {
	return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// parseFile returns the exported declarations of one file.
func parseFile(src, rel string) []Document {
	text, err := os.ReadFile(filepath.Join(src, rel))
	if err != nil {
		return nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || f.Name.Name == "main" {
		return nil
	}
	base := fset.File(f.FileStart).Base()
	source := func(n ast.Node) string { return string(text[int(n.Pos())-base : int(n.End())-base]) }
	p := path.Dir(filepath.ToSlash(rel))
	if p == "." {
		p = f.Name.Name // a file right in src
	}
	var docs []Document
	add := func(name, kind, comment, body string) {
		docs = append(docs, Document{
			Key: p + "." + name, Package: p, Kind: kind,
			Synopsis: (&doc.Package{}).Synopsis(comment),
			Text:     name + "\n" + comment + "\n" + body,
		})
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name, kind := d.Name.Name, "func"
			if !ast.IsExported(name) {
				continue
			}
			if d.Recv != nil && len(d.Recv.List) == 1 {
				recv := receiver(d.Recv.List[0].Type)
				if !ast.IsExported(recv) {
					continue
				}
				name, kind = recv+"."+name, "method"
			}
			add(name, kind, d.Doc.Text(), source(d))
		case *ast.GenDecl:
			if d.Tok != token.TYPE {
				continue
			}
			for _, s := range d.Specs {
				t, ok := s.(*ast.TypeSpec)
				if !ok || !t.Name.IsExported() {
					continue
				}
				comment := t.Doc.Text()
				if comment == "" {
					comment = d.Doc.Text()
				}
				add(t.Name.Name, "type", comment, source(t))
			}
		}
	}
	return docs
}

// receiver is the type name of a method's receiver, without pointer and type
// parameters.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// everyStep is progress called for every 256th file and the last one.
func everyStep(progress func(done, total int)) func(done, total int) {
	if progress == nil {
		return nil
	}
	return func(done, total int) {
		if done%256 == 0 || done == total {
			progress(done, total)
		}
	}
}
