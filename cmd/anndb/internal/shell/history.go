package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// historyLines is how many commands the history keeps.
const historyLines = 1000

// history is the commands of former shells, in a file with a quoted command a line.
type history struct {
	path  string // empty: in memory only
	lines []string
}

// historyPath is the file of the history, in the user's folder for state.
func historyPath() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "anndb", "history"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "anndb", "history"), err
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "state", "anndb", "history"), err
}

// openHistory reads the history at path, which may not exist. Lines that are damaged are left out.
func openHistory(path string) (*history, error) {
	h := &history{path: path}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	for quoted := range strings.Lines(string(data)) {
		if line, err := strconv.Unquote(strings.TrimSpace(quoted)); err == nil {
			h.lines = append(h.lines, line)
		}
	}
	if n := len(h.lines); n > historyLines {
		h.lines = h.lines[n-historyLines:]
		var b bytes.Buffer
		for _, line := range h.lines {
			fmt.Fprintln(&b, strconv.Quote(line))
		}
		err := command.WriteFile(path, 0o600, func(w io.Writer) error {
			_, err := w.Write(b.Bytes())
			return err
		})
		return h, err
	}
	return h, nil
}

// add appends a command.
func (h *history) add(line string) error {
	h.lines = append(h.lines, line)
	if h.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strconv.Quote(line))
	return errors.Join(err, f.Close())
}
