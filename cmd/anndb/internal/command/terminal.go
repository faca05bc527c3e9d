package command

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Standard is the name of the standard input and output in place of a file.
const Standard = "-"

// Terminal is the terminal that a reader or writer is; nil if it is none.
func Terminal(x any) *os.File {
	if q, ok := x.(quoting); ok {
		x = q.Writer
	}
	if f, ok := x.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
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
	f := Terminal(w)
	if f == nil {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
