package shell

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
	"github.com/anndb/anndb/internal/table"
)

// menu is what the tab key does in a shell: it inserts more, or shows a text if there is no more.
type menu struct{ more, text string }

// menu returns how a text can be continued.
func (c completion) menu(text string) menu {
	typed := script.Parse(text)
	last := typed.Words[len(typed.Words)-1]
	all := slices.DeleteFunc(c.candidates(typed.Words), func(x candidate) bool {
		typable := utf8.ValidString(x.word) && !strings.ContainsFunc(x.word, unicode.IsControl)
		return !typable || !strings.HasPrefix(x.word, last)
	})
	if len(all) == 0 {
		return menu{text: lines(c.hint(typed.Words))}
	}
	more := all[0].word[len(last):]
	for _, x := range all {
		for !strings.HasPrefix(x.word[len(last):], more) {
			_, size := utf8.DecodeLastRuneInString(more)
			more = more[:len(more)-size]
		}
	}
	one := len(all) == 1
	complete := one && !strings.HasSuffix(all[0].word, "/") && !strings.HasSuffix(all[0].word, "=")
	if one || more != "" {
		return menu{more: typed.Continue(more, complete)}
	}
	if typed.InFilter() {
		for i := range all {
			all[i].word = all[i].word[filterWord(last):]
		}
	}
	return menu{text: lines(c.hint(typed.Words)) + list(all)}
}

// candidates returns the words that may replace the last one.
func (c completion) candidates(words []string) []candidate {
	switch {
	case strings.HasPrefix(words[0], `\`):
		return completeSetting(words)
	case words[0] == "help" && len(words) > 1:
		return c.complete(words[1:])
	}
	return c.complete(words)
}

// lines returns a text as a line, or nothing.
func lines(text string) string {
	if text == "" {
		return ""
	}
	return table.Cut(text, max(1, command.WidthOf(os.Stdout)-1)) + "\n"
}

// list returns candidates with their descriptions, or side by side if they have none or there are more
// than fit the screen.
func list(all []candidate) string {
	width, height, _ := term.GetSize(int(os.Stdout.Fd()))
	longest, described := 0, len(all) < height-2
	for _, x := range all {
		longest = max(longest, utf8.RuneCountInString(x.word))
		described = described && x.about != ""
	}
	var out bytes.Buffer
	columns := max(1, width/(longest+2))
	for i, x := range all {
		switch {
		case described:
			out.WriteString(lines(fmt.Sprintf("%-*s  %s", longest, x.word, x.about)))
		case (i+1)%columns == 0 || i == len(all)-1:
			fmt.Fprintln(&out, x.word)
		default:
			fmt.Fprintf(&out, "%-*s", longest+2, x.word)
		}
	}
	return out.String()
}

// completeSetting completes a backslash command.
func completeSetting(words []string) (all []candidate) {
	last := words[len(words)-1]
	switch {
	case len(words) == 1:
		for _, x := range settings() {
			all = append(all, candidate{x.name, x.help})
		}
	case words[0] == `\mode`:
		for _, m := range modes() {
			all = append(all, candidate{m, ""})
		}
	case words[0] == `\timing`:
		all = []candidate{{"on", ""}, {"off", ""}}
	case words[0] == `\read` || words[0] == `\output`:
		all = paths(last)
	}
	return all
}
