package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// standard is the name of the standard input and output in place of a file.
const standard = "-"

// terminal is the terminal that a reader or writer is; nil if it is none.
func terminal(x any) *os.File {
	if p, ok := x.(*pager); ok {
		x = p.out
	}
	if f, ok := x.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// widthOf is the width of a terminal; 0 for anything else.
func widthOf(w io.Writer) int {
	f := terminal(w)
	if f == nil {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
