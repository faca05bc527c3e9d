package shell

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// filter completes the last word of a filter.
func (c completion) filter(t typed, last string) (all []candidate) {
	at := filterWord(last)
	for _, x := range c.attributes(t) {
		if !plainWord.MatchString(x.word) {
			x.word = "`" + strings.ReplaceAll(x.word, "`", "``") + "`"
		}
		all = append(all, x)
	}
	for _, x := range c.labels(t) {
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

func (c completion) indexes(t typed) (all []candidate) {
	for _, i := range c.peek(t).Indexes {
		if i.Collection == t.collection() {
			all = append(all, candidate{i.Name, i.Kind})
		}
	}
	return all
}

func (c completion) attributes(t typed) (all []candidate) {
	for _, info := range c.peek(t).Collections {
		if info.Name == t.collection() {
			for _, name := range info.Attributes {
				all = append(all, candidate{name, "an attribute"})
			}
		}
	}
	return all
}

// read calls f on the collection of the command if the file can be read now.
func (c completion) read(t typed, f func(db.Collection)) {
	ctx, stop := context.WithTimeout(c.ctx, 10*completionTime)
	defer stop()
	d, err := db.Open(ctx, c.database(t), &db.Options{
		ReadOnly: true, MustExist: true, Timeout: completionTime, Maintenance: &maintenance.Policy{Manual: true},
	})
	if err != nil {
		return // completion reports no errors
	}
	defer d.Close()
	f(d.Collection(t.collection()))
}

func (c completion) keys(t typed, last string) (all []candidate) {
	c.read(t, func(rows db.Collection) {
		for key, err := range rows.Keys([]byte(last), nil) {
			if err != nil || len(all) == completionKeys {
				return
			}
			all = append(all, candidate{string(key), ""})
		}
	})
	return all
}

func (c completion) labels(t typed) (all []candidate) {
	c.read(t, func(rows db.Collection) {
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
