package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
)

// TestHelpTexts: each argument and flag has a text, and each text is used.
func TestHelpTexts(t *testing.T) {
	all := readTexts()
	unused := map[string]bool{}
	for section, list := range all {
		for name := range list {
			unused[section+" "+name] = name != "" && name != "example"
		}
	}
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		command := strings.TrimPrefix(n.FullPath(), "anndb ")
		use := func(name, help string) {
			if help == "" && !n.Hidden {
				t.Errorf("%s: no text for %s", command, name)
			}
			if _, own := all[command][name]; own {
				delete(unused, command+" "+name)
			} else {
				delete(unused, "all "+name)
			}
		}
		for _, v := range n.Positional {
			use(v.Name, v.Help)
		}
		for _, f := range n.Flags {
			if slices.Contains([]string{"FILE", "PATH", "NEW"}, f.PlaceHolder) && f.Tag.Type != "path" {
				t.Errorf("%s: --%s is no path for a command in the process of a server", command, f.Name)
			}
			use("--"+f.Name, f.Help)
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(parser.Model.Node)
	for name, text := range unused {
		if text {
			t.Errorf("nothing uses the text %q", name)
		}
	}
}

// TestExamples: the help of each command ends with two examples, which parse.
func TestExamples(t *testing.T) {
	ended := false
	parser, err := newParser(&cli{}, kong.Exit(func(int) { ended = true }), kong.Bind(&command.Program{}))
	if err != nil {
		t.Fatal(err)
	}
	named := []string{"anndb"}
	for _, n := range parser.Model.Leaves(true) {
		named = append(named, strings.TrimPrefix(n.FullPath(), "anndb "))
	}
	for _, name := range named {
		both := strings.Split(readTexts()[name]["example"], "\n")
		if len(both) != 2 {
			t.Errorf("%s has no two examples", name)
		}
		for _, e := range both {
			line, _, _ := strings.Cut(e, " > ~")
			line, _, _ = strings.Cut(line, " | ")
			commands, err := script.Split(line)
			if err != nil || len(commands) != 1 {
				t.Errorf("%s: %v", e, err)
				continue
			}
			ended = false
			if _, err := parser.Parse(plainArgs(commands[0].Words[1:])); err != nil || ended {
				t.Errorf("%s: %v", e, err)
			}
		}
	}
}
