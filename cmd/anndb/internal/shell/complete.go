package shell

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
)

// candidate is a word to complete another one to, and a description of it.
type candidate struct{ word, about string }

const (
	// completionTime is how long completion waits for a file that another process writes to.
	completionTime = 100 * time.Millisecond
	// completionKeys is how many keys and labels are shown at most.
	completionKeys = 50
)

// completion completes words of a command.
type completion struct {
	ctx   context.Context
	model *kong.Application
	file  string // the database of a shell; empty on the command line
}

// typed is what has been typed of a command in front of the cursor.
type typed struct {
	node *kong.Node
	args []string // positional arguments
	flag *kong.Flag
}

// collection is the collection that has been named.
func (t typed) collection() string {
	if len(t.args) > 1 {
		return t.args[1]
	}
	return ""
}

// complete returns the words that can replace the last one.
func (c completion) complete(words []string) []candidate {
	last := words[len(words)-1]
	t := c.parse(words[:len(words)-1])
	var all []candidate
	switch name, _, valued := strings.Cut(last, "="); {
	case t.flag != nil:
		all = c.values(t, t.flag, last)
	case strings.HasPrefix(last, "--") && valued:
		for _, f := range flagsOf(t.node) {
			if "--"+f.Name == name {
				for _, v := range c.values(t, f, last[len(name)+1:]) {
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
	return slices.DeleteFunc(all, func(x candidate) bool { return !strings.HasPrefix(x.word, last) })
}

// parse reads the words in front of the cursor.
func (c completion) parse(words []string) (t typed) {
	t.node = c.model.Node
	shell := c.file != ""
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
		case len(t.args) == 0 && Child(t.node, w) != nil:
			t.node = Child(t.node, w)
		case t.node == c.model.Node && len(t.args) == 0 && c.file == "": // anndb FILE COMMAND
			c.file = w
			t.args = append(t.args, w)
		case t.node == c.model.Node && Child(t.node, w) != nil:
			t.node = Child(t.node, w)
		default:
			t.args = append(t.args, w)
		}
	}
	if shell && t.node != c.model.Node { // which fills in the file
		t.args = append([]string{c.file}, t.args...)
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
	for _, n := range t.node.Children {
		if len(t.args) == 0 && !n.Hidden || t.node == c.model.Node && !n.Hidden {
			all = append(all, candidate{n.Name, n.Help})
		}
	}
	if t.node == c.model.Node {
		if c.file == "" && len(t.args) == 0 {
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
	coll := t.collection()
	switch arg.Name {
	case "collection":
		return c.collections(t)
	case "index":
		return c.indexes(t, coll)
	case "key", "keys":
		return c.keys(t, coll, last)
	case "query":
		if t.args[len(t.args)-1] == "like" {
			return c.keys(t, coll, last)
		}
		return append(paths(last), candidate{"like", "like KEY: the row of a key"})
	}
	for _, v := range strings.Split(arg.Enum, ",") {
		if v != "" {
			all = append(all, candidate{v, ""})
		}
	}
	if slices.Contains([]string{"file", "input", "output", "backup", "csv"}, arg.Name) {
		all = paths(last)
	}
	return all
}

// values completes the value of a flag.
func (c completion) values(t typed, f *kong.Flag, last string) (all []candidate) {
	coll := t.collection()
	switch f.Name {
	case "index", "neighbors":
		return append(c.indexes(t, coll), candidate{db.Flat, "an exact scan"})
	case "key", "from", "prefix":
		return c.keys(t, coll, last)
	case "label", "add-label", "remove-label":
		return c.labels(t, coll)
	case "where":
		return c.filter(t, coll, last)
	case "remove-attribute":
		return c.attributes(t, coll)
	}
	for _, v := range strings.Split(f.Enum, ",") {
		if v != "" {
			all = append(all, candidate{v, ""})
		}
	}
	if slices.Contains([]string{"FILE", "PATH", "DIR", "NEW"}, f.PlaceHolder) || f.Name == "out" {
		all = paths(last)
	}
	return all
}

// filter completes the last word of a filter.
func (c completion) filter(t typed, coll, last string) (all []candidate) {
	at := filterWord(last)
	for _, x := range c.attributes(t, coll) {
		if !plainWord.MatchString(x.word) {
			x.word = "`" + strings.ReplaceAll(x.word, "`", "``") + "`"
		}
		all = append(all, x)
	}
	for _, x := range c.labels(t, coll) {
		if !plainWord.MatchString(x.word) || strings.HasPrefix(last[at:], `"`) {
			x.word = strconv.Quote(x.word)
		}
		all = append(all, x)
	}
	for _, word := range []string{"and", "or", "not", "in", "label", "key", "prefix"} {
		all = append(all, candidate{word, "of filters"})
	}
	for i := range all {
		all[i].word = last[:at] + all[i].word
	}
	return all
}

// filterWord returns where the last word of a filter begins.
func filterWord(filter string) int {
	for _, quote := range []string{`"`, "`"} {
		if strings.Count(filter, quote)%2 == 1 {
			return strings.LastIndex(filter, quote)
		}
	}
	return strings.LastIndexAny(filter, " (,=<>") + 1
}

// plainWord matches what needs no quotes in a filter.
var plainWord = regexp.MustCompile(`^[\pL_][\pL\p{Nd}_.-]*$`)

// peek describes the database; nothing if it cannot be read.
func (c completion) peek(t typed) (st db.Stats) {
	if file := c.database(t); file != "" {
		ctx, stop := context.WithTimeout(c.ctx, completionTime)
		defer stop()
		st, _ = db.Peek(ctx, file) // completion reports no errors
	}
	return st
}

// database is the file of the command.
func (c completion) database(t typed) string {
	if c.file == "" && len(t.args) > 0 {
		return t.args[0]
	}
	return c.file
}

func (c completion) collections(t typed) (all []candidate) {
	for _, info := range c.peek(t).Collections {
		all = append(all, candidate{info.Name, command.KindOf(info)})
	}
	return all
}

func (c completion) indexes(t typed, coll string) (all []candidate) {
	for _, i := range c.peek(t).Indexes {
		if i.Collection == coll {
			all = append(all, candidate{i.Name, i.Kind})
		}
	}
	return all
}

func (c completion) attributes(t typed, coll string) (all []candidate) {
	for _, info := range c.peek(t).Collections {
		if info.Name == coll {
			for _, name := range info.Attributes {
				all = append(all, candidate{name, "an attribute"})
			}
		}
	}
	return all
}

// read calls f on the collection if the file can be read now.
func (c completion) read(t typed, coll string, f func(db.Collection)) {
	ctx, stop := context.WithTimeout(c.ctx, 10*completionTime)
	defer stop()
	d, err := db.Open(ctx, c.database(t), &db.Options{
		ReadOnly: true, MustExist: true, Timeout: completionTime, Maintenance: &db.Maintenance{Manual: true},
	})
	if err != nil {
		return // completion reports no errors
	}
	defer d.Close()
	f(d.Collection(coll))
}

func (c completion) keys(t typed, coll, last string) (all []candidate) {
	c.read(t, coll, func(rows db.Collection) {
		for key, err := range rows.Keys([]byte(last), nil) {
			if err != nil || len(all) == completionKeys {
				return
			}
			all = append(all, candidate{string(key), ""})
		}
	})
	return all
}

func (c completion) labels(t typed, coll string) (all []candidate) {
	c.read(t, coll, func(rows db.Collection) {
		counts, err := rows.Labels()
		if err != nil {
			return
		}
		for _, l := range counts[:min(len(counts), completionKeys)] {
			all = append(all, candidate{l.Label, "a label"})
		}
	})
	return all
}

// paths are the files and folders whose names begin with a path.
func paths(begin string) (all []candidate) {
	dir, base := filepath.Split(begin)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(base, ".")
		if !strings.HasPrefix(e.Name(), base) || hidden {
			continue
		}
		name := dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		all = append(all, candidate{name, ""})
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
