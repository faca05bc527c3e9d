package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/reeflective/readline"

	"github.com/anndb/anndb/cmd/anndb/internal/script"
	"github.com/anndb/anndb/internal/table"
)

// interactive reads commands from the terminal until the user leaves.
func (s *session) interactive(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A Ctrl-C that comes too late for a command must not end the shell.
	late := make(chan os.Signal, 1)
	signal.Notify(late, os.Interrupt)
	defer signal.Stop(late)
	parser, err := newParser(&line{})
	if err != nil {
		return s.fail(s.globals, err, "")
	}
	rl := s.editor(ctx, parser.Model)
	fmt.Fprintf(s.out, "anndb on %s. %s lists what the shell does, help the commands. Ctrl-D leaves.\n",
		s.file, `\help`)
	screen := s.out.(*os.File)
	for !s.ended && ctx.Err() == nil {
		text, err := rl.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return exitOK
		case err != nil:
			return s.fail(s.globals, err, "")
		}
		p := newPager(screen)
		s.out = p
		s.script(ctx, text)
		if err := p.Close(); err != nil {
			return s.fail(s.globals, err, "")
		}
	}
	return exitOK
}

// editor is a line editor with history and completion.
func (s *session) editor(ctx context.Context, model *kong.Application) *readline.Shell {
	rl := readline.NewShell()
	rl.Prompt.Primary(func() string { return "anndb> " })
	rl.Prompt.Secondary(func() string { return "  ...> " })
	rl.AcceptMultiline = func(line []rune) bool {
		_, err := script.Split(string(line))
		return err == nil
	}
	options := map[string]bool{
		"menu-complete-display-prefix": true,  // a first tab completes what is common to all candidates
		"cursor-position-probe":        false, // the terminal's answers would be read as keys
		"history-autosuggest":          os.Getenv("NO_COLOR") == "",
	}
	for name, on := range options {
		rl.Config.Set(name, on)
	}
	path, err := historyPath()
	if err != nil {
		path = ""
	}
	past, err := openHistory(path)
	if err != nil {
		fmt.Fprintf(s.errs, "anndb: the history is not kept: %v\n", err)
		past.path = ""
	}
	rl.History.Add("history", past)
	rl.Completer = func(line []rune, cursor int) readline.Completions {
		return s.completions(ctx, model, string(line[:cursor]))
	}
	dim, plain := "\x1b[2m", "\x1b[0m"
	if os.Getenv("NO_COLOR") != "" {
		dim, plain = "", ""
	}
	rl.Hint.SetProvider(func(line []rune, cursor int) []rune {
		hint := completion{ctx, model, s.file}.hint(lastCommand(string(line[:cursor])))
		if hint == "" {
			return nil
		}
		return []rune(dim + table.Cut(hint, max(1, widthOf(os.Stdout)-1)) + plain)
	})
	return rl
}

// lastCommand returns the words of the last command of a text; the last one is empty behind a blank.
func lastCommand(text string) []string {
	text = text[strings.LastIndexAny(text, ";\n")+1:]
	words := strings.Fields(text)
	if text == "" || strings.TrimRight(text, " \t") != text {
		words = append(words, "")
	}
	return words
}

// completions are the candidates behind a text.
func (s *session) completions(
	ctx context.Context, model *kong.Application, text string,
) readline.Completions {
	words := lastCommand(text)
	last := words[len(words)-1]
	var all []candidate
	switch {
	case strings.HasPrefix(words[0], `\`):
		all = completeSetting(words)
	case words[0] == "help" && len(words) > 1:
		all = completion{ctx, model, s.file}.complete(words[1:])
	default:
		all = completion{ctx, model, s.file}.complete(words)
	}
	var raw []readline.Completion
	for _, c := range all {
		word := script.Escape(c.word)
		if !strings.HasSuffix(word, "/") && !strings.HasSuffix(word, "=") {
			word += " "
		}
		raw = append(raw, readline.Completion{Value: word, Display: c.word, Description: c.about})
	}
	out := readline.CompleteRaw(raw)
	out.PREFIX = last
	return out
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
	return slices.DeleteFunc(all, func(x candidate) bool { return !strings.HasPrefix(x.word, last) })
}
