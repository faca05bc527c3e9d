package shell

import (
	"strings"

	"github.com/alecthomas/kong"
)

// hint describes the last word: what its option sets, which argument it is, or what the command does.
func (c completion) hint(words []string) string {
	before, last := words[:len(words)-1], words[len(words)-1]
	t := c.parse(before)
	option, _, _ := strings.Cut(last, "=")
	for _, f := range flagsOf(t.node) {
		if f == t.flag || option == "--"+f.Name {
			return f.Summary() + "  " + f.Help
		}
	}
	if n := Child(t.node, last); n != nil && !n.Hidden {
		return usageOf(n) + "  " + n.Help
	}
	positional := t.node.Positional
	if len(positional) == 0 {
		return ""
	}
	arg := positional[min(len(t.args), len(positional)-1)]
	if len(t.args) >= len(positional) && !arg.IsCumulative() {
		return ""
	}
	return arg.Summary() + "  " + arg.Help
}

// usageOf returns the name of a command and its arguments but for the database.
func usageOf(n *kong.Node) string {
	text := n.Name
	for _, arg := range n.Positional {
		if arg.Name != "file" {
			text += " " + arg.Summary()
		}
	}
	return text
}
