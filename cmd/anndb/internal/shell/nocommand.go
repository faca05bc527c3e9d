package shell

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// habits are commands of other shells and what does the same here.
var habits = map[string]string{
	".tables": "stats", ".schema": "stats", "ls": "stats", "list": "stats", "show": "stats", "describe": "stats",
	"select": "search or rows", "insert": "put", "upsert": "put", "find": "search", "query": "search",
	"remove": "delete", "rm": "delete", "load": "import", "dump": "export", "vacuum": "compact",
	".help": "help", "?": "help", `\?`: `\help`, `\h`: `\help`,
	".quit": "quit", ".exit": "quit", `\q`: `\quit`, `\d`: "stats",
}

// NoCommand is the error for a word that is no command.
func NoCommand(model *kong.Application, word string) error {
	return command.Usagef("there is no command %q%s", word, instead(word, CommandNames(model)))
}

// CommandNames are the words that commands begin with.
func CommandNames(model *kong.Application) []string {
	names := []string{"help", "quit", "exit"}
	for _, n := range model.Children {
		if !n.Hidden {
			names = append(names, n.Name)
		}
	}
	return names
}

// instead proposes one of names in the place of a word; nothing if none is like it.
func instead(word string, names []string) string {
	word = strings.ToLower(word)
	meant := habits[word]
	for most := 0; meant == "" && most <= min(2, len(word)/3); most++ {
		for _, name := range names {
			if meant == "" && edits(word, name) <= most {
				meant = name
			}
		}
	}
	if meant == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", meant)
}

// edits returns how many runes have to be put in, taken out, replaced or swapped with the next one to
// make b of a.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before, last []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before, last, row = last, row, make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			row[j+1] = min(last[j+1], row[j], last[j]) + 1
			switch {
			case x[i] == y[j]:
				row[j+1] = last[j]
			case i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j]:
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(y)]
}
