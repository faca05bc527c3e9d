package script

import (
	"slices"
	"strings"
)

// Typed is the command at the end of a text that is being typed.
type Typed struct {
	// Words are those of the command. The last one is the one at the end of the text; it is empty
	// behind a blank. A filter behind the word where is one word, --where=TEXT.
	Words []string
	// Quote is the quote that is open at the end, 0 if none is.
	Quote  rune
	filter bool // the last word is such a filter
}

// Parse returns the command at the end of a text.
func Parse(text string) Typed {
	s := splitter{text: []rune(text), line: 1}
	_ = s.run() // reports only what is open
	t := Typed{Words: slices.Clone(s.current.Words), Quote: s.quote, filter: s.inFilter}
	last := len(t.Words) - 1
	switch {
	case last < 0 || s.wordEnd < len(s.text) && !t.filter:
		t.Words = append(t.Words, "")
	case s.wordEnd < len(s.text):
		t.Words[last] += " "
	case t.filter && t.Words[last] == "--where=": // no blank behind it yet
		t.Words[last], t.filter = "where", false
	}
	return t
}

// Continue returns text that appends more to the last word, and ends the word if it is complete.
func (t Typed) Continue(more string, complete bool) string {
	end := ""
	if complete {
		end = " "
	}
	last := len(t.Words) - 1
	switch {
	case t.filter: // where quotes and backslashes are the filter's
		return more + end
	case t.Quote == 0 && t.Words[last] == "" && complete:
		return Escape(more) + end
	case t.Quote == 0:
		return escape(more, special) + end
	case t.Quote == '\'':
		more = strings.ReplaceAll(more, "'", `'\''`)
	default:
		more = escape(more, func(r rune) bool { return r == t.Quote })
	}
	if complete && !t.InFilter() { // of which more words may follow
		end = string(t.Quote) + end
	}
	return more + end
}

// InFilter reports whether the last word is a filter.
func (t Typed) InFilter() bool {
	last := len(t.Words) - 1
	return strings.HasPrefix(t.Words[last], "--where=") || last > 0 && t.Words[last-1] == "--where"
}
