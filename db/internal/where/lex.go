package where

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// class is the class of a token.
type class uint8

const (
	endOfText class = iota
	word            // of letters, digits, _, - and ., with a letter or _ first
	number          // a number or a date, as written
	quoted          // a string
	name            // in backquotes
	mark            // an operator, a parenthesis or a comma
)

// token is a word of a filter's text.
type token struct {
	class  class
	at     int    // offset
	text   string // a string's or name's content without quotes
	source string // as written
}

// describe names a token in an error.
func (t token) describe() string {
	if t.class == endOfText {
		return "the end of the filter"
	}
	return shortened(t.source, 40)
}

// is reports whether the token is a keyword; upper and lower case are the same.
func (t token) is(keyword string) bool { return t.class == word && strings.EqualFold(t.text, keyword) }

func (t token) isMark(m string) bool { return t.class == mark && t.text == m }

var keywords = []string{"and", "or", "not", "in", "prefix", "exists", "label", "key", "true", "false"}

func isKeyword(s string) bool {
	return slices.ContainsFunc(keywords, func(k string) bool { return strings.EqualFold(k, s) })
}

// isWord reports whether a name needs no quotes.
func isWord(s string) bool {
	return s != "" && utf8.ValidString(s) && startsWord(firstRune(s)) && wordLen(s) == len(s)
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func startsWord(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func wordLen(s string) int {
	for i, r := range s {
		if !startsWord(r) && !unicode.IsDigit(r) && r != '-' && r != '.' {
			return i
		}
	}
	return len(s)
}

// startsNumber reports whether a number or date begins with r.
func startsNumber(r rune) bool { return r >= '0' && r <= '9' || r == '-' || r == '+' || r == '.' }

// next returns the token at or after an offset.
func next(text string, at int) (token, error) {
	rest := strings.TrimLeftFunc(text[at:], unicode.IsSpace)
	at = len(text) - len(rest)
	t := token{at: at}
	if rest == "" {
		return t, nil
	}
	first, size := utf8.DecodeRuneInString(rest)
	n := size
	switch {
	case first == '"' || first == '\'':
		return quotedString(text, at)
	case first == '`':
		return quotedName(text, at)
	case startsWord(first):
		t.class, n = word, wordLen(rest)
	case startsNumber(first):
		t.class = number
		for n < len(rest) && (startsNumber(rune(rest[n])) || rest[n] == ':' || isASCIILetter(rest[n])) {
			n++
		}
	case strings.ContainsRune("(),=<>!", first):
		t.class = mark
		for _, m := range []string{"<=", ">=", "!=", "==", "<>"} {
			if strings.HasPrefix(rest, m) {
				n = 2
			}
		}
	default:
		return t, &Error{text, at, fmt.Sprintf("unexpected character %q: texts are in quotes", first)}
	}
	t.text, t.source = rest[:n], rest[:n]
	return t, nil
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// quotedString reads a string in single or double quotes, with the escapes of Go.
func quotedString(text string, at int) (token, error) {
	quote, rest := text[at], text[at+1:]
	var out []byte
	for rest != "" && rest[0] != quote {
		if len(rest) > 1 && rest[0] == '\\' && (rest[1] == '"' || rest[1] == '\'') {
			out, rest = append(out, rest[1]), rest[2:]
			continue
		}
		if rest[0] != '\\' {
			out, rest = append(out, rest[0]), rest[1:]
			continue
		}
		r, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return token{}, &Error{text, len(text) - len(rest), `unknown escape: a backslash is written \\`}
		}
		if multibyte {
			out = utf8.AppendRune(out, r)
		} else {
			out = append(out, byte(r))
		}
		rest = tail
	}
	if rest == "" {
		return token{}, &Error{text, at, fmt.Sprintf("string without a closing %c", quote)}
	}
	end := len(text) - len(rest) + 1
	return token{quoted, at, string(out), text[at:end]}, nil
}

// quotedName reads a name in backquotes, in which two backquotes are one.
func quotedName(text string, at int) (token, error) {
	var out strings.Builder
	for i := at + 1; i < len(text); i++ {
		if text[i] != '`' {
			out.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '`' {
			out.WriteByte('`')
			i++
			continue
		}
		return token{name, at, out.String(), text[at : i+1]}, nil
	}
	return token{}, &Error{text, at, "name without a closing backquote"}
}
