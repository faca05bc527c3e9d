package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// printHelp is the help of kong with the flags of all commands at the end, and examples.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	out, text := ctx.Stdout, new(strings.Builder)
	ctx.Stdout = text
	err := kong.DefaultHelpPrinter(o, ctx)
	ctx.Stdout = out
	if err != nil {
		return err
	}
	blocks := strings.Split(strings.TrimSpace(text.String()), "\n\n")
	slices.SortStableFunc(blocks, func(a, b string) int {
		return cmp.Compare(strings.Index(a, "All commands:"), strings.Index(b, "All commands:"))
	})
	fmt.Fprintln(out, strings.Join(blocks, "\n\n"))
	name := "anndb"
	if n := ctx.Selected(); n != nil {
		name, _, _ = strings.Cut(n.Path(), " <")
	}
	fmt.Fprintln(ctx.Stdout, "\nExamples:")
	examples := readTexts()[strings.TrimPrefix(name, "anndb ")]["example"]
	fmt.Fprintln(ctx.Stdout, "  "+strings.ReplaceAll(examples, "\n", "\n  "))
	return nil
}

// helpText has the texts of all commands, arguments and flags.
//
//go:embed help.txt
var helpText string

// texts are texts of help.txt by section and name. The text of a command itself has no name, and its
// examples are lines.
type texts map[string]map[string]string

// named matches what begins a text of help.txt.
var named = regexp.MustCompile(`^((?:--)?[a-z][a-z\d-]*): `)

// readTexts reads help.txt.
func readTexts() texts {
	all := texts{}
	section, name := "", ""
	for line := range strings.SplitSeq(strings.TrimSpace(helpText), "\n") {
		switch m := named.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section, name = strings.Trim(line, "[]"), ""
			all[section] = map[string]string{}
		case m == nil:
			all[section][name] = strings.TrimSpace(all[section][name] + " " + strings.TrimSpace(line))
		default:
			name = m[1]
			all[section][name] = strings.TrimSpace(all[section][name] + "\n" + line[len(m[0]):])
		}
	}
	return all
}

// of returns the text of an argument or flag of a command.
func (t texts) of(command, name string, v *kong.Value) string {
	text := cmp.Or(t[command][name], v.Help, t["all"][name])
	return strings.ReplaceAll(text, "${enum}", strings.TrimPrefix(v.Enum, ","))
}

// describe gives a command, what is below it, its arguments and its flags their texts.
func (t texts) describe(n *kong.Node) {
	command := strings.TrimPrefix(n.FullPath(), "anndb ")
	if n.Parent != nil {
		n.Help = t[command][""]
	}
	for _, v := range n.Positional {
		v.Help = t.of(command, v.Name, v)
	}
	for _, f := range n.Flags {
		f.Help = t.of(command, "--"+f.Name, f.Value)
	}
	for _, c := range n.Children {
		t.describe(c)
	}
}
