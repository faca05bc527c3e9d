package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SnippetOptions selects how a snippet is made.
type SnippetOptions struct {
	Runes      int    // the length of the snippet at most, 160 when zero
	Start, End string // written around each hit
}

// Snippet returns the part of a text that has most of the different terms, with the hits marked, and an
// ellipsis where the text continues. Space is folded. Without a hit it is the start of the text.
func Snippet(s string, terms map[string]bool, a Analyzer, o SnippetOptions) string {
	if o.Runes <= 0 {
		o.Runes = 160
	}
	var hits []Token
	a(s, func(t Token) {
		if terms[t.Term] && (len(hits) == 0 || t.Start >= hits[len(hits)-1].End) {
			hits = append(hits, t)
		}
	})
	from := 0
	if len(hits) > 0 {
		first := hits[densest(s, hits, len(terms), o.Runes)].Start
		from = back(s, first, o.Runes/8)
		from = min(from, back(s, len(s), o.Runes)) // a window in front of the end is full
		from = wordStart(s, from, first)
	}
	to := wordEnd(s, ahead(s, from, o.Runes))
	var b strings.Builder
	if strings.TrimSpace(s[:from]) != "" {
		b.WriteString("… ")
	}
	at := from
	for _, h := range hits {
		if h.Start < from || h.End > to {
			continue
		}
		b.WriteString(s[at:h.Start])
		b.WriteString(o.Start)
		b.WriteString(s[h.Start:h.End])
		b.WriteString(o.End)
		at = h.End
	}
	b.WriteString(s[at:to])
	if strings.TrimSpace(s[to:]) != "" {
		b.WriteString(" …")
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// densest returns the first hit of the window with most different terms, of a number of terms.
func densest(s string, hits []Token, terms, runes int) (best int) {
	most := 0
	for i := range hits {
		end := ahead(s, hits[i].Start, runes-runes/8)
		seen := map[string]bool{}
		for _, h := range hits[i:] {
			if h.End > end {
				break
			}
			seen[h.Term] = true
		}
		if len(seen) > most {
			if best, most = i, len(seen); most == terms {
				break
			}
		}
	}
	return best
}

// back and ahead return the place n characters before or after another one.
func back(s string, at, n int) int {
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return at
}

func ahead(s string, at, n int) int {
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// wordStart moves a place in a word to the next space, but not past a hit, and wordEnd to the space before
// it; a word that has no space near is cut.
func wordStart(s string, at, hit int) int {
	if at == 0 {
		return 0
	}
	if i := strings.IndexFunc(s[at:hit], unicode.IsSpace); i >= 0 {
		return at + i
	}
	return at
}

func wordEnd(s string, at int) int {
	if at == len(s) {
		return at
	}
	if i := strings.LastIndexFunc(s[:at], unicode.IsSpace); i >= 0 && at-i < 24 {
		return i
	}
	return at
}
