package command

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Standard is the name of the standard input and output in place of a file.
const Standard = "-"

// Terminal is a reader or writer of a client that may be at a terminal.
type Terminal interface {
	// Terminal returns the width of the terminal, and whether there is one.
	Terminal() (width int, ok bool)
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(x any) bool {
	_, ok := terminalOf(x)
	return ok
}

// terminalOf returns the width of the terminal that a reader or writer is, 0 if it is not known.
func terminalOf(x any) (width int, ok bool) {
	switch x := x.(type) {
	case quoting:
		return terminalOf(x.Writer)
	case Terminal:
		return x.Terminal()
	case *os.File:
		if ok = term.IsTerminal(int(x.Fd())); ok {
			width, _, _ = term.GetSize(int(x.Fd()))
		}
	}
	return width, ok
}

// quoting escapes control characters on their way to a terminal, which would obey them.
type quoting struct{ io.Writer }

// Write writes p, with \xNN in the place of control characters other than newlines and tabs.
func (q quoting) Write(p []byte) (int, error) {
	var out []byte // nil as long as nothing is escaped
	for i, c := range p {
		c1 := c >= 0x80 && c < 0xa0 && i > 0 && p[i-1] == 0xc2 // in UTF-8
		if bad := c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c1; !bad {
			if out != nil {
				out = append(out, c)
			}
			continue
		}
		if out == nil {
			out = append(out, p[:i]...)
		}
		if c1 {
			out = out[:len(out)-1]
		}
		out = fmt.Appendf(out, "\\x%02x", c)
	}
	if out == nil {
		return q.Writer.Write(p)
	}
	_, err := q.Writer.Write(out)
	return len(p), err
}

// WidthOf is the width of a terminal; 0 for anything else.
func WidthOf(w io.Writer) int {
	width, _ := terminalOf(w)
	return width
}
