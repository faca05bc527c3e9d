package table

import (
	"strings"
	"testing"
)

// TestMarked: marked parts are bold on terminals, take no width, and are plain elsewhere.
func TestMarked(t *testing.T) {
	cell := Marked("a " + Mark + "buffered" + Mark + " writer")
	for _, c := range []struct {
		o    Output
		want string
	}{
		{Output{Format: Text}, "key  snippet            n\nk    a buffered writer  1\n"},
		{Output{Format: Text, Bold: true, Width: 40}, "key  snippet            n\nk    a \x1b[1mbuffered\x1b[0m writer  1\n"},
		{Output{Format: Text, Bold: true, Width: 16}, "key  snippet   n\nk    a \x1b[1mbuffe…\x1b[0m  1\n"},
		{Output{Format: Vertical, Bold: true}, "key      k\nsnippet  a \x1b[1mbuffered\x1b[0m writer\nn        1\n"},
		{Output{Format: CSV, Bold: true}, "key,snippet,n\nk,a buffered writer,1\n"},
		{Output{Format: JSONL}, `{"key": "k", "snippet": "a buffered writer", "n": 1}` + "\n"},
	} {
		var b strings.Builder
		c.o.W = &b
		table := New("key", "snippet", "n")
		table.Add("k", cell, 1)
		if err := c.o.Print(table); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want {
			t.Errorf("%+v:\n%q, want\n%q", c.o, b.String(), c.want)
		}
	}
	// What has control characters is quoted, and then not marked.
	var b strings.Builder
	table := New("snippet")
	table.Add(Marked(Mark + "a" + Mark + "\x1b[31m"))
	if err := (Output{W: &b, Format: Text, Bold: true}).Print(table); err != nil || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
