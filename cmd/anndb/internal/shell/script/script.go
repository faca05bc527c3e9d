// Package script splits text into commands and their words, as the shell of anndb and
// its scripts have them.
//
// Commands end at a newline or a semicolon, words at blanks, unless single or double quotes are
// around these. A backslash in front of a blank, a quote, ;, [, # or a backslash takes
// that as it is, except in single quotes. A word that begins with [ ends at the ] that closes
// it. # begins a comment where a word could begin. The word where takes the text up to the next
// flag as one word, --where=TEXT, so that a filter needs no quotes.
package script

import (
	"errors"
	"strings"
	"unicode"
)

// ErrOpen is returned for text that ends inside of quotes or brackets: more lines may follow.
var ErrOpen = errors.New("a quote or bracket is not closed")

// Command is a command of a script.
type Command struct {
	Words []string
	Line  int // number of the line on which it begins, from 1
}

// Split returns the commands of a text. With ErrOpen it returns those in front of the open one,
// which is the last.
func Split(text string) ([]Command, error) {
	s := splitter{text: []rune(text), line: 1}
	err := s.run()
	s.end()
	return s.commands, err
}

// splitter is the state of Split.
type splitter struct {
	text     []rune
	at, line int
	commands []Command
	current  Command
	// wordStart and wordEnd are the ends of the last word.
	wordStart, wordEnd int
	inFilter           bool // the last word is a filter that reaches the end of the text
}

func (s *splitter) run() error {
	for s.at < len(s.text) {
		switch r := s.text[s.at]; {
		case r == '\n' || r == ';':
			s.end()
			s.take()
		case blank(r):
			s.at++
		case r == '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			if len(s.current.Words) == 0 {
				s.current.Line = s.line
			}
			word, plain, err := s.word(false)
			if plain && word == "where" && len(s.current.Words) > 0 {
				word, err = s.filter()
				s.inFilter = s.at == len(s.text)
			}
			s.current.Words = append(s.current.Words, word)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// take steps over a rune and counts lines.
func (s *splitter) take() rune {
	r := s.text[s.at]
	s.at++
	if r == '\n' {
		s.line++
	}
	return r
}

// end ends the current command.
func (s *splitter) end() {
	if len(s.current.Words) > 0 {
		s.commands = append(s.commands, s.current)
	}
	s.current = Command{}
}

// word reads a word; raw keeps quotes and backslashes. plain reports that it has neither.
func (s *splitter) word(raw bool) (word string, plain bool, err error) {
	var b strings.Builder
	keep := func(r rune) {
		if raw {
			b.WriteRune(r)
		}
	}
	plain = true
	depth := 0
	s.wordStart = s.at
	bracketed := s.text[s.at] == '['
	var quote rune
	for s.at < len(s.text) {
		switch r := s.text[s.at]; {
		case quote != 0 && r == quote:
			quote = 0
			keep(s.take())
		case quote == '\'':
			b.WriteRune(s.take())
		case r == '\\' && s.at+1 < len(s.text) && special(s.text[s.at+1]):
			plain = false
			keep(s.take())
			b.WriteRune(s.take())
		case quote != 0:
			b.WriteRune(s.take())
		case r == '\'' || r == '"':
			plain, quote = false, r
			keep(s.take())
		case depth == 0 && (blank(r) || r == ';'):
			s.wordEnd = s.at
			return b.String(), plain, nil
		default:
			switch {
			case bracketed && r == '[':
				depth++
			case bracketed && r == ']':
				depth--
			}
			b.WriteRune(s.take())
		}
	}
	if quote != 0 || depth > 0 {
		err = ErrOpen
	}
	s.wordEnd = s.at
	return b.String(), plain, err
}

// blank reports whether a rune is between words. The other blanks of Unicode are parts of words,
// so that keys may have them.
func blank(r rune) bool { return r == ' ' || '\t' <= r && r <= '\r' }

// special reports whether a backslash takes the rune behind it as it is.
func special(r rune) bool { return blank(r) || strings.ContainsRune("\\'\";[#", r) }

// Escape returns text that Split reads as the word, behind another word.
func Escape(word string) string {
	if word == "" || word == "where" {
		return "'" + word + "'"
	}
	var b strings.Builder
	runes := []rune(word)
	for i, r := range runes {
		last := i+1 == len(runes)
		if r == '\\' && (last || special(runes[i+1])) || r != '\\' && special(r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// filter reads the text behind the word where up to a flag or the end of the command.
func (s *splitter) filter() (string, error) {
	var parts []string
	for s.at < len(s.text) {
		r := s.text[s.at]
		next := rune(0)
		if s.at+1 < len(s.text) {
			next = s.text[s.at+1]
		}
		if r == '\n' || r == ';' || r == '#' || r == '-' && (next == '-' || unicode.IsLetter(next)) {
			break
		}
		if blank(r) {
			s.at++
			continue
		}
		word, _, err := s.word(true)
		parts = append(parts, word)
		if err != nil {
			return "--where=" + strings.Join(parts, " "), err
		}
	}
	return "--where=" + strings.Join(parts, " "), nil
}
