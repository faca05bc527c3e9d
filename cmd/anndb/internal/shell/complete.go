package shell

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// candidate is a word to complete another one to, and a description of it.
type candidate struct{ word, about string }

const (
	// completionTime is how long completion waits for a file that another process writes to.
	completionTime = 100 * time.Millisecond
	// completionKeys is how many keys are shown at most.
	completionKeys = 50
)

// completion completes words of a command.
type completion struct {
	ctx   context.Context
	model *kong.Application
	file  string // the database of a shell; empty on the command line
	// program has the ways to a database that a server has open.
	program *command.Program
	words   []string // of the command, up to the one to complete
}

// typed is what has been typed of a command in front of the cursor.
type typed struct {
	node *kong.Node
	args []string // positional arguments
	flag *kong.Flag
}

// arg is a positional argument: 0 is the file, 1 the collection; empty if there is none.
func (t typed) arg(i int) string {
	if i < len(t.args) {
		return t.args[i]
	}
	return ""
}

// complete returns the words that can replace the last one.
func (c completion) complete(words []string) []candidate {
	last := words[len(words)-1]
	c.words = words
	t := c.parse(words[:len(words)-1])
	var all []candidate
	switch name, _, valued := strings.Cut(last, "="); {
	case t.flag != nil:
		all = c.values(t, t.flag, last)
	case strings.HasPrefix(last, "--") && valued:
		for _, f := range flagsOf(t.node) {
			if "--"+f.Name == name {
				value := last[len(name)+1:]
				c.words = append(slices.Clone(words[:len(words)-1]), name, value)
				for _, v := range c.values(t, f, value) {
					all = append(all, candidate{name + "=" + v.word, v.about})
				}
			}
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range flagsOf(t.node) {
			all = append(all, candidate{"--" + f.Name, f.Help})
		}
	default:
		all = c.argument(t, last)
	}
	return slices.DeleteFunc(all, func(x candidate) bool {
		typable := utf8.ValidString(x.word) && !strings.ContainsFunc(x.word, unicode.IsControl)
		return !typable || !strings.HasPrefix(x.word, last)
	})
}

// parse reads the words in front of the cursor.
func (c completion) parse(words []string) (t typed) {
	t.node = c.model.Node
	for _, w := range words {
		switch {
		case t.flag != nil:
			t.flag = nil
		case strings.HasPrefix(w, "-") && !strings.Contains(w, "="):
			for _, f := range flagsOf(t.node) {
				short := f.Short != 0 && w == "-"+string(f.Short)
				if (w == "--"+f.Name || short) && !f.IsBool() {
					t.flag = f
				}
			}
		case strings.HasPrefix(w, "-"):
		case t.node != c.model.Node:
			t.args = append(t.args, w)
		case Child(t.node, w) != nil:
			t.node = Child(t.node, w)
			if c.file != "" { // which is filled in
				t.args = []string{c.file}
			}
		}
	}
	return t
}

// flagsOf are the flags of a command that users see.
func flagsOf(n *kong.Node) (flags []*kong.Flag) {
	for _, group := range n.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// argument completes a positional argument.
func (c completion) argument(t typed, last string) (all []candidate) {
	if t.node == c.model.Node {
		for _, n := range t.node.Children {
			if !n.Hidden {
				all = append(all, candidate{n.Name, n.Help})
			}
		}
		if c.file == "" {
			all = append(all, paths(last)...)
		}
		return all
	}
	positional := t.node.Positional
	if len(positional) == 0 {
		return all
	}
	arg := positional[min(len(t.args), len(positional)-1)]
	if len(t.args) >= len(positional) && !arg.IsCumulative() {
		return all
	}
	switch {
	case arg.Name == "query" && t.args[len(t.args)-1] == "like":
		return c.keys(t, last)
	case arg.Name == "query":
		return append(paths(last), candidate{"like", "like KEY: the row of a key"})
	case arg.Tag.Type == "path" || arg.Name == "file":
		return paths(last)
	}
	return c.known(t, arg, last)
}

// values completes the value of a flag.
func (c completion) values(t typed, f *kong.Flag, last string) []candidate {
	switch {
	case f.Name == "index" || f.Name == "neighbors":
		all := c.known(t, f.Value, last)
		flat := candidate{db.Flat, "an exact scan"} // which a server has added already
		return append(slices.DeleteFunc(all, func(x candidate) bool { return x == flat }), flat)
	case f.Tag.Type == "path":
		return paths(last)
	}
	return c.known(t, f.Value, last)
}

// known returns the values that an argument or flag can have by its name or by its list of them.
func (c completion) known(t typed, v *kong.Value, last string) (all []candidate) {
	if all, served := c.remote(t); served {
		return all
	}
	switch v.Name {
	case "collection":
		for _, info := range c.stats(t).Collections {
			all = append(all, candidate{info.Name, command.KindOf(info)})
		}
	case "index", "neighbors":
		for _, i := range c.stats(t).Indexes {
			if i.Collection == t.arg(1) {
				all = append(all, candidate{i.Name, i.Kind})
			}
		}
	case "key", "keys", "from", "prefix":
		return c.keys(t, last)
	}
	for _, word := range strings.FieldsFunc(v.Enum, func(r rune) bool { return r == ',' }) {
		all = append(all, candidate{word, ""})
	}
	return all
}

// read calls f with the database, if it can be read now: completion reports no errors.
func (c completion) read(t typed, f func(d *db.DB)) {
	path := c.program.Host.Resolve(t.arg(0))
	if d := c.program.Host.Database(path); d != nil {
		f(d)
		return
	}
	ctx, stop := context.WithTimeout(c.ctx, 10*completionTime)
	defer stop()
	d, err := db.Open(ctx, path, &db.Options{
		ReadOnly: true, MustExist: true, Timeout: completionTime,
		Maintenance: &maintenance.Policy{Manual: true},
	})
	if err == nil {
		defer d.Close()
		f(d)
	}
}

// remote returns the candidates that the server of the database finds. It reports false if there is none.
func (c completion) remote(t typed) (all []candidate, served bool) {
	file := t.arg(0)
	if file == "" || c.program.Remote == nil {
		return nil, false
	}
	var out strings.Builder
	p := *c.program
	p.Out, p.Errs = &out, io.Discard
	words := append([]string{"complete", "--"}, c.words...)
	if c.file != "" {
		words = slices.Insert(words, 2, c.file)
	}
	_, served = p.Remote(c.ctx, &p, file, words, command.Globals{})
	for line := range strings.Lines(out.String()) {
		word, about, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, candidate{word, about})
	}
	return all, served
}

// stats describes the database; nothing if it cannot be read.
func (c completion) stats(t typed) (st db.Stats) {
	c.read(t, func(d *db.DB) { st, _ = d.Stats() })
	return st
}

// keys are those of the collection that begin with a text.
func (c completion) keys(t typed, begin string) (all []candidate) {
	if all, served := c.remote(t); served {
		return all
	}
	c.read(t, func(d *db.DB) {
		for key, err := range d.Collection(t.arg(1)).Keys([]byte(begin), nil) {
			if err != nil || len(all) == completionKeys {
				break
			}
			all = append(all, candidate{string(key), ""})
		}
	})
	return all
}

// paths are the files and folders whose names begin with a path.
func paths(begin string) (all []candidate) {
	dir, base := filepath.Split(begin)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // completion reports no errors
	for _, e := range entries {
		name := dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		if strings.HasPrefix(e.Name(), ".") == strings.HasPrefix(base, ".") {
			all = append(all, candidate{name, ""})
		}
	}
	return all
}

// Child is the command of a name below a node of the grammar; nil if there is none.
func Child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}
