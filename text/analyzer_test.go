package text

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// terms are the terms of a text with their positions.
func terms(name, s string) string {
	var out []string
	ByName(name)(s, func(t Token) { out = append(out, fmt.Sprint(t.Term, "@", t.Position)) })
	return strings.Join(out, " ")
}

// TestAnalyzers: a text has the terms that a reader expects, by each analyzer.
func TestAnalyzers(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{Words, "How do I flush it?", "how@0 do@1 i@2 flush@3 it@4"},
		{Words, "don’t DON'T 3.14 a-b", "don't@0 don't@1 3.14@2 a@3 b@4"},
		{Words, "ΣΊΣΥΦΟΣ σίσυφος naïve 世界 👍", "σίσυφοσ@0 σίσυφοσ@1 naïve@2 世@3 界@4 👍@5"},
		{Words, " \t\n-- ?!", ""},
		{English, "the flushing of writers, John's flush", "flush@1 writer@3 john@4 flush@5"},
		{Code, "bufioFlushWriter", "bufioflushwriter@0 bufio@0 flush@1 writer@2"},
		{Code, "see net/http, ERR_NGX_502.", "see@0 net/http@1 net@1 http@2 err_ngx_502@3 err@3 ngx@4 502@5"},
		{Code, "HTTPServer2 fmt.Println(x)", "httpserver2@0 http@0 server2@1 fmt.println@2 fmt@2 println@3 x@4"},
		{Code, strings.Repeat("x", MaxTerm+1) + "/y z", "y@1 z@2"},
	} {
		if got := terms(c.name, c.text); got != c.want {
			t.Errorf("%s of %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}

// FuzzAnalyzers: tokens are inside their text, in order, and not too long, whatever the text.
func FuzzAnalyzers(f *testing.F) {
	f.Add("How do I flush a bufioFlushWriter in net/http? don’t 世界 👍 ΣΊΣΥΦΟΣ")
	f.Add("\xff\x00 a\u0301b '''")
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range Names() {
			position := 0
			ByName(name)(s, func(x Token) {
				switch {
				case x.Start < 0 || x.Start >= x.End || x.End > len(s) || x.Position < position && name != Code:
					t.Fatalf("%s: token %+v at position %d", name, x, position)
				case Check(s) == nil && !utf8.ValidString(x.Term), x.Term == "":
					t.Fatalf("%s: term %q", name, x.Term)
				}
				position = x.Position
			})
		}
		if q, err := ParseQuery(s, ByName(Code)); err == nil {
			for _, p := range q.Required {
				p.In(s, ByName(Code))
			}
		}
		Snippet(s, map[string]bool{"a": true}, ByName(Words), SnippetOptions{})
	})
}

// TestStems: more words than stems are kept for have the stems of the algorithm, also when they are asked for
// again and by several goroutines.
func TestStems(t *testing.T) {
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range 2 * len(stems) {
				for _, ending := range []string{"", "s", "ing"} {
					word := "w" + strconv.FormatInt(int64(i*i), 36) + ending
					if got, want := stem(word), english.Stem(word, true); got != want {
						t.Errorf("%s: stem %s, want %s", word, got, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
