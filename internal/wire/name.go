package wire

import (
	"path/filepath"
	"strings"
)

// Socket returns the path of the Unix socket of a server that has a database open, which is next to the file
// that a link leads to.
func Socket(database string) string {
	if path, err := filepath.EvalSymlinks(database); err == nil {
		database = path
	}
	return database + ".sock"
}

// FileName returns the name that a file has in requests unless it is given another one.
func FileName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}
