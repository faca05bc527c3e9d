package table

import (
	"strings"
	"unicode/utf8"
)

// Marked is a text in which each marked part is between two Marks. Only an Output with Bold shows the marks.
type Marked string

// Mark begins and ends a marked part. No text that people read has this character.
const Mark = "\x00"

// String returns the text without marks.
func (m Marked) String() string { return strings.ReplaceAll(string(m), Mark, "") }

// width is the number of characters of a cell.
func width(cell string) int { return utf8.RuneCountInString(cell) - strings.Count(cell, Mark) }

// cut is Cut for a cell that may have marks: a part that is marked stays so up to where it is cut.
func cut(cell string, width int) string {
	if !strings.Contains(cell, Mark) {
		return Cut(cell, width)
	}
	short := []rune(Cut(Marked(cell).String(), width))
	var b strings.Builder
	marked := false
	for _, r := range cell {
		switch {
		case string(r) == Mark:
			marked = !marked
			b.WriteString(Mark)
		case len(short) > 0:
			b.WriteRune(short[0])
			short = short[1:]
		}
		if len(short) == 0 {
			break
		}
	}
	if marked {
		b.WriteString(Mark)
	}
	return b.String()
}

// bold writes the marked parts of a cell for a terminal.
func bold(cell string) string {
	if !strings.Contains(cell, Mark) {
		return cell
	}
	parts := strings.Split(cell, Mark)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "\x1b[1m" + parts[i] + "\x1b[0m"
	}
	return strings.Join(parts, "")
}
