package main

import (
	"os"
	"path/filepath"

	"github.com/anndb/anndb/bench/internal/vectors"
)

// files are the raw files that children read, by slot and type.
type files struct {
	dir string
	set *vectors.Set
}

// path is the file of a slot (base, test, valid) in a type (f32, u8), written
// if it is not there.
func (f *files) path(slot, kind string) (string, int, error) {
	rows := map[string][]float32{"base": f.set.Base, "test": f.set.Test, "valid": f.set.Valid}[slot]
	n := len(rows) / f.set.Dim
	path := filepath.Join(f.dir, slot+"."+kind)
	width := map[string]int{"f32": 4, "u8": 1}[kind]
	if st, err := os.Stat(path); err == nil && st.Size() == int64(len(rows)*width) {
		return path, n, nil
	}
	data := vectors.Raw(rows)
	if kind == "u8" {
		data = f.set.Quantised(rows)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return "", 0, err
	}
	return path, n, os.Rename(path+".new", path)
}
