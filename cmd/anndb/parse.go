package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell"
	"github.com/anndb/anndb/db"
)

// run parses args, runs one command or a shell and returns the exit code.
func run(ctx context.Context, p *command.Program, args []string) int {
	var c cli
	c.Serve.Commands = runHosted
	k, code := parse(p, &c, args, "")
	if k == nil {
		return code
	}
	if k.Selected().Name == "shell" { // whose commands are interrupted one by one
		lines, err := newParser(&line{})
		if err != nil {
			return p.Fail(c.Globals, err, "")
		}
		l := shell.Language{Parse: parseLine, Model: lines.Model}
		return c.Shell.Start(ctx, p, c.Globals, l)
	}
	return p.RunCommand(ctx, k, c.Globals)
}

// runHosted runs a command that a client has parsed, with the client's flags for all commands.
func runHosted(ctx context.Context, p *command.Program, args []string, g command.Globals) int {
	var c hosted
	k, code := parse(p, &c, args, "")
	if k == nil {
		return code
	}
	return p.RunCommand(ctx, k, g)
}

// parse parses args into a grammar, and fills in the database file if one is given. It returns
// nil and the exit code if that was all, because help was asked for or args are wrong.
func parse(p *command.Program, grammar any, args []string, file string) (*kong.Context, int) {
	ended, code := false, command.ExitOK
	parser, err := newParser(grammar, kong.Writers(p.Out, p.Errs),
		kong.Exit(func(c int) { ended, code = true, c }), kong.Bind(p), kong.NamedMapper("path", pathMapper(p)))
	if err != nil {
		return nil, p.Fail(command.Globals{}, err, "")
	}
	for _, arg := range args {
		if !utf8.ValidString(arg) { // the parser would replace the bytes
			return nil, p.Fail(command.Globals{}, command.Usagef("the argument %.40q is not UTF-8", arg), "")
		}
	}
	if at := firstWord(args); at >= 0 && args[at] == "help" {
		args = slices.Delete(slices.Clone(args), at, at+1)
		if at == len(args) || shell.Child(parser.Model.Node, args[at]) != nil {
			args = append(args, "--help")
		}
	}
	args = plainArgs(args)
	if slices.Contains(args, "--json") && slices.ContainsFunc(args, isHelp) {
		return nil, p.Fail(command.Globals{JSON: true}, command.Usagef("help is a text: leave out --json"), "")
	}
	if file == "" {
		args = fileFirst(parser.Model, args)
	} else {
		args = withFile(parser.Model, args, file)
	}
	k, err := parser.Parse(args)
	if err == nil && !ended {
		err = checkFlags(k)
	}
	switch {
	case ended: // --help has been printed
		return nil, code
	case err != nil:
		if errors.Is(err, db.ErrInvalid) { // of a filter, whose place is shown
			return nil, p.Fail(command.Globals{}, err, commandOf(parser.Model, args))
		}
		text := err.Error()
		for _, p := range parserTexts {
			text = p.from.ReplaceAllString(text, p.to)
		}
		name := commandOf(parser.Model, args)
		if name == "" {
			text = strings.Replace(text, "unexpected argument", "there is no command", 1)
		}
		return nil, p.Fail(command.Globals{JSON: asksJSON(args)}, command.Usagef("%s", text), name)
	}
	return k, command.ExitOK
}

// pathMapper reads arguments and flags that are paths of files.
func pathMapper(p *command.Program) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var path string
		err := ctx.Scan.PopValueInto("path", &path)
		target.SetString(p.Host.Resolve(path))
		return err
	}
}

// isHelp reports whether an argument asks for help.
func isHelp(arg string) bool { return arg == "--help" || arg == "-h" }

// asksJSON guesses whether arguments that did not parse ask for JSON.
func asksJSON(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return slices.Contains([]string{"--json", "--format=json", "--format=jsonl", "json", "jsonl"}, a)
	})
}

// parseLine parses a line of the shell on a file.
func parseLine(p *command.Program, words []string, file string) (*kong.Context, command.Globals, int) {
	var l line
	k, code := parse(p, &l, words, file)
	return k, l.Globals, code
}

// newParser makes a parser of a grammar.
func newParser(grammar any, options ...kong.Option) (*kong.Kong, error) {
	if g, ok := grammar.(interface{ prepare() }); ok {
		g.prepare()
	}
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name("anndb"),
		kong.Description("One file of vectors, dense and sparse, and of texts, learned indexes over them, " +
			"nearest neighbours and labels from the memory map."),
		variables, kong.Vars{"version": version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Help(printHelp),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	readTexts().describe(parser.Model.Node)
	return parser, nil
}

var (
	// negative matches a number that the parser would take for a flag.
	negative  = regexp.MustCompile(`^-[.\d]`)
	longFlag  = regexp.MustCompile(`^--[a-z][a-z\d-]*$`)
	shortFlag = regexp.MustCompile(`^-[a-z]$`)
)

// parserTexts are texts of the parser and what users read instead.
var parserTexts = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`^--(.): `), "-$1: "},
	{regexp.MustCompile(`one of "",`), "one of "}, // flags that need not be given have an empty value
	{regexp.MustCompile(`^unknown flag (-[.\d][^,]*).*`),
		"$1 looks like a flag: write -- in front of the arguments"},
	{regexp.MustCompile(`^expected "(<.*)"$`), "missing: $1"},
	{regexp.MustCompile(`^unexpected argument where$`), "a filter is written --where 'FILTER'"},
	{regexp.MustCompile(`expected .* but got "EOL" .*`), "its value is missing"},
	{regexp.MustCompile(`expected (?:a valid \d+ bit|an) uint but got ("-[^"]*").*`), "$1 is below 0"},
	{regexp.MustCompile(`expected (?:a valid \d+ bit|an) u?int but got ("[^"]*").*`), "$1 is no whole number"},
	{regexp.MustCompile(`expected a float but got ("[^"]*").*`), "$1 is no number"},
	{regexp.MustCompile(`expected duration but got ("[^"]*").*`), "$1 is no time as 500ms, 30s or 2m"},
}

// plainArgs makes of version, and of no arguments, the flags that do the same, and joins flags to a
// negative number behind them.
func plainArgs(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "version":
		return []string{"--version"}
	}
	out := make([]string, 0, len(args))
	for i, arg := range args {
		switch {
		case i > 0 && negative.MatchString(arg) && longFlag.MatchString(args[i-1]):
			out[len(out)-1] += "=" + arg
		case i > 0 && negative.MatchString(arg) && shortFlag.MatchString(args[i-1]):
			out[len(out)-1] += arg
		case len(arg) > 3 && shortFlag.MatchString(arg[:2]) && arg[2] == '=':
			out = append(out, arg[:2]+arg[3:]) // -k=3 is -k3
		default:
			out = append(out, arg)
		}
	}
	return out
}

// version describes the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "anndb"
	}
	return strings.TrimSpace(fmt.Sprintf("anndb %s %s", info.Main.Version, info.GoVersion))
}

// firstWord returns the index of the first word behind flags for all commands, -1 if there is none.
func firstWord(args []string) int {
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") && !(i > 0 && slices.Contains(valued, args[i-1])) {
			return i
		}
	}
	return -1
}

// fileFirst makes COMMAND FILE of FILE COMMAND at the beginning of args.
func fileFirst(model *kong.Application, args []string) []string {
	i := firstWord(args)
	if i < 0 || i+1 == len(args) || shell.Child(model.Node, args[i]) != nil ||
		shell.Child(model.Node, args[i+1]) == nil {
		return args
	}
	return slices.Concat(args[:i], withFile(model, args[i+1:], args[i]))
}

// valued are the flags of all commands that have a value.
var valued = []string{"--format", "--workers", "--wait"}

// withFile returns the words of a command with the database file where the command has it.
func withFile(model *kong.Application, words []string, file string) []string {
	for i, w := range words {
		n := shell.Child(model.Node, w)
		if n == nil {
			continue
		}
		for at, arg := range n.Positional {
			switch {
			case arg.Name != "file":
			case at == 0:
				return slices.Insert(slices.Clone(words), i+1, file)
			default:
				return append(slices.Clone(words), file)
			}
		}
		break
	}
	return words
}

// commandOf guesses the command of arguments that did not parse: the first
// one that names a command.
func commandOf(model *kong.Application, args []string) string {
	for _, a := range args {
		if n := shell.Child(model.Node, a); n != nil {
			return a
		}
	}
	return ""
}
