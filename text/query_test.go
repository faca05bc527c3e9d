package text

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseQuery: signs and quotes mean what people expect of them.
func TestParseQuery(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"flush a writer", "flush a writer||"},
		{"+flush -writer file", "flush file|flush|writer"},
		{`"net http" server`, "net http server|http_net|"},
		{`-"net http" server`, "server||http_net"},
		{`say "open`, "say open|open|"},
		{"a-b c+d - + --x", "a b c d x||"},
		{"x x", "x x||"},
		{"", "||"},
	} {
		q, err := ParseQuery(c.query, ByName(Words))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(q.Terms, " ") + "|" + phrases(q.Required) + "|" + phrases(q.Excluded); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
	for query, want := range map[string]string{
		"-a": "only excluded", "a\x00": "NUL", "\xff": "UTF-8",
	} {
		if _, err := ParseQuery(query, ByName(Words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", query, err, want)
		}
	}
	if q, err := ParseQuery("the flush", ByName(English)); err != nil || fmt.Sprint(q.Left, q.Terms) != "[the] [flush]" {
		t.Errorf("stop words: %+v, %v", q, err)
	}
}

// TestPlain: what a model of sentences gets has no signs and no excluded words.
func TestPlain(t *testing.T) {
	for query, want := range map[string]string{
		"how do I flush": "how do I flush", `+flush -"net http" "a b" c-d -e`: "flush a b c-d", " - ": "-", "": "",
	} {
		if got := Plain(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func phrases(ps []Phrase) string {
	var out []string
	for _, p := range ps {
		out = append(out, strings.Join(p.Terms(), "_"))
	}
	return strings.Join(out, " ")
}

// TestPhrases: a phrase is in a text if its words follow one another there.
func TestPhrases(t *testing.T) {
	for _, c := range []struct {
		analyzer, phrase, text string
		want                   bool
	}{
		{Words, "net http", "the net http server", true},
		{Words, "net http", "http net", false},
		{Words, "a b a b", "a b c a b a c", false},
		{Words, "a b a b", "a b c a b a b", true},
		{English, "flush the writer", "flushing a writer", true},
		{English, "flush the writer", "flush writer", false},
		{Code, "net/http", "package net/http is", true},
		{Code, "net http", "package net/http is", true},
		{Code, "net/http", "net http", false},
	} {
		if got := PhraseOf(c.phrase, ByName(c.analyzer)).In(c.text, ByName(c.analyzer)); got != c.want {
			t.Errorf("%s: %q in %q: %v", c.analyzer, c.phrase, c.text, got)
		}
	}
}

// TestSnippet: a snippet shows the densest part of a text and marks the hits.
func TestSnippet(t *testing.T) {
	long := strings.Repeat("some words before ", 20) + "the flush of\n a writer ends " + strings.Repeat("and more after ", 20)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"no hit here", "no hit here"},
		{"Flush the writer!", "<Flush> the <writer>!"},
		{"Close the file after you flush the writer.", "Close the file after you <flush> the <writer>."},
		{long, "… the <flush> of a <writer> ends and more after and more after and more …"},
	} {
		got := Snippet(c.text, map[string]bool{"flush": true, "writer": true}, ByName(Words),
			SnippetOptions{Runes: 70, Start: "<", End: ">"})
		if got != c.want {
			t.Errorf("%.20q: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestRegister: a program's analyzer is found by its name, which nothing else can take.
func TestRegister(t *testing.T) {
	letters := func(s string, emit func(Token)) {
		for i, r := range s {
			emit(Token{string(r), i, i + 1, i})
		}
	}
	for _, name := range []string{"", Words, "a\nb", strings.Repeat("x", 300)} {
		if err := Register(name, letters); err == nil {
			t.Errorf("the name %.20q is taken", name)
		}
	}
	if err := Register("letters", letters); err != nil {
		t.Fatal(err)
	}
	if Register("letters", letters) == nil || Register("none", nil) == nil {
		t.Error("an analyzer is registered twice, or is nil")
	}
	if got := terms("letters", "ab"); got != "a@0 b@1" {
		t.Errorf("the registered analyzer gives %s", got)
	}
}
