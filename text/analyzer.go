// Package text turns texts into terms, the features that a collection of texts is indexed and searched
// by, and reads what people type as queries. The same analyzer reads the rows and the queries.
package text

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/kljensen/snowball/english"
)

// MaxTerm is the largest length of a term in bytes; longer words are left out.
const MaxTerm = 256

// Token is a term and where it is in its text.
type Token struct {
	Term string
	// Start and End are the bytes of the text that the term was made of.
	Start, End int
	// Position counts the words of the text, also those that are left out. The words of a phrase
	// have consecutive positions. Several tokens can have the same one.
	Position int
}

// Analyzer calls emit for each token of a text, in the order of their positions. It must give equal
// tokens for equal texts, and can be called by several goroutines at once.
type Analyzer func(text string, emit func(Token))

// Names of the analyzers of this package. Their behavior belongs to the name: one that changes gets
// another.
const (
	// Words has each word between Unicode word boundaries (UAX 29), case folded.
	Words = "words"
	// English leaves out the 33 most common words, and stems the others (Porter 2).
	English = "english"
	// Code has identifiers, paths and numbers whole and in parts: net/http is found by net/http, net
	// and http, and bufioFlushWriter also by writer.
	Code = "code"
)

// ByName returns the analyzer of this package, or the registered one, with the name, nil if there is
// none.
func ByName(name string) Analyzer {
	switch name {
	case Words:
		return eachWord
	case English:
		return eachStem
	case Code:
		return eachIdentifier
	}
	if a, ok := registered.Load(name); ok {
		return a.(Analyzer)
	}
	return nil
}

// registered are the analyzers of programs by name.
var registered sync.Map

// Register makes an analyzer known by a name, which collections refer to: a program that writes or
// searches texts of such a collection must register it first. It must give the same tokens as long as
// the collection exists, so a changed one needs another name. Registering a name twice is an error.
func Register(name string, a Analyzer) error {
	switch {
	case a == nil:
		return fmt.Errorf("text: analyzer %q is nil", name)
	case name == "" || len(name) > MaxTerm || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("text: name %q of an analyzer: want 1 to %d bytes of UTF-8", name, MaxTerm)
	case ByName(name) != nil:
		return fmt.Errorf("text: an analyzer %q is registered already", name)
	}
	if _, twice := registered.LoadOrStore(name, a); twice {
		return fmt.Errorf("text: an analyzer %q is registered already", name)
	}
	return nil
}

// Names returns the names of the analyzers of this package.
func Names() []string { return []string{Words, English, Code} }

// Check refuses a text that no collection keeps.
func Check(s string) error {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Errorf("a NUL byte at byte %d", i)
	}
	if utf8.ValidString(s) {
		return nil
	}
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			return fmt.Errorf("byte 0x%02x at byte %d is not valid UTF-8", s[i], i)
		}
	}
	return nil
}

// eachWord is the analyzer Words.
func eachWord(text string, emit func(Token)) {
	segments(text, nil, func(word string, start, position int) {
		if len(word) <= MaxTerm {
			emit(Token{fold(word), start, start + len(word), position})
		}
	})
}

// eachStem is the analyzer English.
func eachStem(text string, emit func(Token)) {
	segments(text, nil, func(word string, start, position int) {
		if len(word) > MaxTerm {
			return
		}
		term := fold(word)
		if _, stop := slices.BinarySearch(stopWords, term); !stop {
			emit(Token{stem(term), start, start + len(word), position})
		}
	})
}

// stems are the stems of words that occurred lately, each with its word, at the hash of the word: stemming
// one takes longer than anything else that is done with it.
var (
	stems    [1 << 14]atomic.Pointer[[2]string]
	stemSeed = maphash.MakeSeed()
)

// stem returns the stem of a folded word.
func stem(word string) string {
	slot := &stems[maphash.String(stemSeed, word)%uint64(len(stems))]
	if known := slot.Load(); known != nil && known[0] == word {
		return known[1]
	}
	word = strings.Clone(word) // not the text that it is a part of
	s := english.Stem(word, true)
	slot.Store(&[2]string{word, s})
	return s
}

// stopWords are those of Lucene's English analyzer, ascending.
var stopWords = []string{
	"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not",
	"of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was",
	"will", "with",
}

// identifiers joins what programmers write as one name.
var identifiers = &words.Joiners[string]{Middle: []rune("/:-@#$+"), Leading: []rune("$@#")}

// eachIdentifier is the analyzer Code. A name takes the position of its first part, and as many
// positions as it has parts.
func eachIdentifier(text string, emit func(Token)) {
	shift := 0 // positions that parts have added
	segments(text, identifiers, func(word string, start, position int) {
		position += shift
		parts := splitIdentifier(word)
		if len(word) <= MaxTerm {
			emit(Token{fold(word), start, start + len(word), position})
		}
		if len(parts) == 1 && parts[0] == [2]int{0, len(word)} {
			return
		}
		for i, p := range parts {
			if p[1]-p[0] <= MaxTerm {
				emit(Token{fold(word[p[0]:p[1]]), start + p[0], start + p[1], position + i})
			}
		}
		shift += max(0, len(parts)-1)
	})
}

// splitIdentifier returns the start and end of each part of an identifier: those between characters
// that are no letters or digits, and before a capital after a small letter (flushWriter) or in front of
// one (HTTPServer).
func splitIdentifier(word string) (parts [][2]int) {
	start := -1
	var last, beforeLast rune
	lastAt := 0
	end := func(at int) {
		if start >= 0 && at > start {
			parts = append(parts, [2]int{start, at})
		}
		start = -1
	}
	for i, r := range word {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && r != '\'' && r != '’':
			end(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && !unicode.IsUpper(last):
			end(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(beforeLast) && lastAt > start:
			end(lastAt)
			start = lastAt
		}
		beforeLast, last, lastAt = last, r, i
	}
	end(len(word))
	return parts
}

// segments calls f for each segment of a text that has a letter, a digit or a symbol that people search
// for, with its start and its position.
func segments(text string, j *words.Joiners[string], f func(word string, start, position int)) {
	it := words.FromString(text)
	if j != nil {
		it.Joiners(j)
	}
	for position := 0; it.Next(); {
		if word := it.Value(); strings.ContainsFunc(word, searched) {
			f(word, it.Start(), position)
			position++
		}
	}
}

// searched reports whether a character makes a segment a word: letters, digits, and pictures (emoji).
func searched(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r)
}

// fold returns a word without differences of case. A lower case of the upper case also maps letters
// with several small forms to one of them.
func fold(word string) string {
	word = strings.ReplaceAll(word, "’", "'")
	ascii := true
	for i := 0; i < len(word) && ascii; i++ {
		ascii = word[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(word)
	}
	return strings.ToLower(strings.ToUpper(word))
}
