package shell

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// Completion writes a script that makes a shell complete command lines of anndb.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

// completionScripts ask the command complete.
var completionScripts = map[string]string{
	"bash": `_anndb() {
  local IFS=$'\n'
  COMPREPLY=($(anndb complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
  [[ ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -F _anndb anndb
`,
	"zsh": `#compdef anndb
_anndb() {
  local line
  local -a items
  for line in "${(@f)$(anndb complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    items+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe anndb items
}
compdef _anndb anndb
`,
	"fish": `complete -c anndb -f -a '(
  set -l words (commandline -opc) (commandline -ct)
  anndb complete -- $words[2..-1] 2>/dev/null
)'
`,
}

func (c *Completion) Run(a *command.App) error {
	if a.InJSON() {
		return command.Usagef("a completion script is a text: leave out --json")
	}
	_, err := fmt.Fprint(a.W, completionScripts[c.Shell])
	return err
}

// Complete writes the words that can replace the last one of a command line, each on a line with a
// description.
type Complete struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (w *Complete) Run(a *command.App, k *kong.Context) error {
	words := w.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	c := completion{ctx: a.Ctx, model: k.Model, program: a.Program}
	if len(words) > 1 && Child(k.Model.Node, words[0]) == nil && !strings.HasPrefix(words[0], "-") {
		c.file, words = words[0], words[1:] // FILE COMMAND
	}
	for _, x := range c.complete(words) {
		about, _, _ := strings.Cut(x.about, "\n")
		fmt.Fprintf(a.W, "%s\t%s\n", x.word, about)
	}
	return nil
}
