package script

// Typed returns the words of the command at the end of a text that is being typed, and where in the text
// the last one begins. It is empty behind a blank. Inside of a filter behind the word where there are none.
func Typed(text string) (words []string, at int) {
	s := splitter{text: []rune(text), line: 1}
	_ = s.run() // reports only what is open
	words = s.current.Words
	switch {
	case s.inFilter:
		return nil, len(text)
	case len(words) == 0 || s.wordEnd < len(s.text):
		return append(words, ""), len(text)
	}
	for at = range text { // a byte that is no UTF-8 is a rune, too
		if s.wordStart--; s.wordStart < 0 {
			break
		}
	}
	return words, at
}
