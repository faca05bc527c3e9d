package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
)

// TestExamples: the help of each command ends with two examples, which parse.
func TestExamples(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"anndb": true}
	for _, n := range parser.Model.Leaves(true) {
		named[strings.TrimPrefix(strings.Split(n.Path(), " <")[0], "anndb ")] = true
	}
	for name := range named {
		if examples[name][1] == "" {
			t.Errorf("%s has no two examples", name)
		}
	}
	for name, both := range examples {
		if !named[name] {
			t.Errorf("examples of %q, which is no command", name)
		}
		for _, e := range both {
			line, _, _ := strings.Cut(e, " > ~")
			line, _, _ = strings.Cut(line, " | ")
			commands, err := script.Split(line)
			if err != nil || len(commands) != 1 {
				t.Errorf("%s: %v", e, err)
				continue
			}
			ended := false
			parser, err := newParser(&cli{}, kong.Exit(func(int) { ended = true }))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(plainArgs(commands[0].Words[1:])); err != nil || ended {
				t.Errorf("%s: %v", e, err)
			}
		}
	}
}
