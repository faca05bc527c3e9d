package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/db"
)

// file is a source file: its text without its import declarations, which would give the answer away, and
// what it imports.
type file struct {
	path, text string
	imports    []string
}

// readFiles returns the files below a folder that import something, without tests and commands, and the
// documentation of what they declare.
func readFiles(src string) (files []file, docs []db.Row, err error) {
	err = filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"cmd", "vendor", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		f, more, err := readFile(path, filepath.ToSlash(name))
		if len(f.imports) > 0 {
			files = append(files, f)
		}
		docs = append(docs, more...)
		return err
	})
	if err == nil && len(files) < 20 {
		err = fmt.Errorf("%s has %d files that import something, too few for a demo", src, len(files))
	}
	return files, docs, err
}

func readFile(path, name string) (f file, docs []db.Row, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return f, nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		return f, nil, err
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, nil, err
		}
		f.imports = append(f.imports, name)
	}
	slices.Sort(f.imports)
	f.imports = slices.Compact(f.imports)
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				from, to := set.Position(d.Pos()).Offset, set.Position(d.End()).Offset
				copy(source[from:to], strings.Repeat(" ", to-from))
			} else if t, ok := d.Specs[0].(*ast.TypeSpec); ok && d.Doc != nil && t.Name.IsExported() {
				docs = append(docs, document(name, t.Name.Name, d.Doc))
			}
		case *ast.FuncDecl:
			if d.Doc == nil || !d.Name.IsExported() {
				continue
			}
			declared := d.Name.Name
			if d.Recv != nil {
				from, to := set.Position(d.Recv.Pos()).Offset, set.Position(d.Recv.End()).Offset
				declared = string(source[from:to]) + " " + declared
			}
			docs = append(docs, document(name, declared, d.Doc))
		}
	}
	// Rows keep valid UTF-8 without NUL, which a source may have in its literals.
	f.path, f.text = name, strings.ReplaceAll(strings.ToValidUTF8(string(source), " "), "\x00", " ")
	return f, docs, nil
}

// document returns the row of a documented declaration. Its key is unique among the files of a folder.
func document(file, declared string, doc *ast.CommentGroup) db.Row {
	return db.Row{Key: []byte(file + " " + declared), Text: declared + ": " + doc.Text()}
}
