package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

// Host is the server in whose process a command of a client runs. All methods take a nil host, which is
// that of a command in a process of its own.
type Host struct {
	Files []HostedFile
	// Folder, Env and Pid are the working folder, the environment and the number of the client's process.
	Folder string
	Env    []string
	Pid    int
}

// HostedFile is a database that the server has open.
type HostedFile struct {
	Path string
	DB   *db.DB
}

// inFolder is between the client's folder and a relative path, so that messages can show the latter.
var inFolder = string(filepath.Separator) + "." + string(filepath.Separator)

// Resolve returns a path of the client as the process of the server opens it.
func (h *Host) Resolve(path string) string {
	if h == nil || path == "" || path == Standard {
		return path
	}
	if !filepath.IsAbs(path) {
		return h.Folder + inFolder + path
	}
	if runtime.GOOS == "linux" { // an open file of the client, such as <(command) of its shell
		if i := slices.Index([]string{"/dev/stdin", "/dev/stdout", "/dev/stderr"}, path); i >= 0 {
			path = fmt.Sprintf("%s%d", openFiles, i)
		}
		if number, ok := strings.CutPrefix(path, openFiles); ok {
			return h.openFiles() + number
		}
	}
	return path
}

// openFiles is the folder of the open files of a process itself.
const openFiles = "/dev/fd/"

// openFiles is the folder of the client's open files on Linux.
func (h *Host) openFiles() string { return fmt.Sprintf("/proc/%d/fd/", h.Pid) }

// Shown returns a text with the paths that Resolve has returned as the client has given them.
func (h *Host) Shown(text string) string {
	if h == nil {
		return text
	}
	return strings.NewReplacer(h.Folder+inFolder, "", h.openFiles(), openFiles).Replace(text)
}

// Message is Shown for a message, whose paths may have been joined with others.
func (h *Host) Message(text string) string {
	if text = h.Shown(text); h == nil || filepath.Dir(h.Folder) == h.Folder { // the root
		return text
	}
	return strings.ReplaceAll(text, h.Folder+string(filepath.Separator), "")
}

// Process prepares a process that a command of the client starts.
func (h *Host) Process(c *exec.Cmd) *exec.Cmd {
	if h != nil {
		c.Dir, c.Env = h.Folder, h.Env
	}
	return c
}

// Database returns the database that the server has open at a path; nil if it has none.
func (h *Host) Database(path string) *db.DB {
	if h == nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, f := range h.Files {
		if other, err := os.Stat(f.Path); err == nil && os.SameFile(info, other) {
			return f.DB
		}
	}
	return nil
}
