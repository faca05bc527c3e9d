package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if line, err := strconv.Unquote(lines.Text()); err == nil {
			h.lines = append(h.lines, line)
		}
	}
	if n := len(h.lines); n > historyLines {
		h.lines = h.lines[n-historyLines:]
		var b bytes.Buffer
		for _, line := range h.lines {
			fmt.Fprintln(&b, strconv.Quote(line))
		}
		err := writeFile(path, 0o600, func(w io.Writer) error {
			_, err := w.Write(b.Bytes())
			return err
		})
		return h, err
	}
	return h, nil
}

// Write appends a command.
func (h *history) Write(line string) (int, error) {
	h.lines = append(h.lines, line)
	if h.path == "" {
		return len(h.lines), nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return len(h.lines), err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return len(h.lines), err
	}
	_, err = fmt.Fprintln(f, strconv.Quote(line))
	return len(h.lines), errors.Join(err, f.Close())
}

// GetLine returns a command.
func (h *history) GetLine(i int) (string, error) {
	if i < 0 || i >= len(h.lines) {
		return "", fmt.Errorf("the history has no line %d", i)
	}
	return h.lines[i], nil
}

// Len is the number of commands.
func (h *history) Len() int { return len(h.lines) }

// Dump returns all commands.
func (h *history) Dump() any { return h.lines }
