package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// standard is the name of the standard input and output in place of a file.
const standard = "-"

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// widthOf is the width of a terminal; 0 for anything else.
func widthOf(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}
