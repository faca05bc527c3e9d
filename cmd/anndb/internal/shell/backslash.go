package shell

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/internal/table"
)

// setting is a backslash command of the shell.
type setting struct {
	name, args, help string
	run              func(s *session, ctx context.Context, args []string) error
}

// settings are the backslash commands.
func settings() []setting {
	return []setting{
		{`\help`, "", "this list; help COMMAND describes a command", (*session).help},
		{`\mode`, "[FORMAT]", "results as table, vertical, markdown, csv, json or jsonl", (*session).mode},
		{`\timing`, "[on|off]", "the time of each command", (*session).setTiming},
		{`\output`, "[FILE]", "results go to a new file, or to the screen again", (*session).setOutput},
		{`\read`, "FILE", "run the commands of a file", (*session).read},
		{`\quit`, "", "leave; so do exit, quit and Ctrl-D", (*session).quit},
	}
}

// modes are the names of the formats of results.
func modes() []string {
	var out []string
	for _, f := range table.Formats() {
		out = append(out, string(f))
	}
	return out
}

// backslash runs a backslash command.
func (s *session) backslash(ctx context.Context, words []string) error {
	var names []string
	for _, x := range settings() {
		if x.name == words[0] {
			return x.run(s, ctx, words[1:])
		}
		names = append(names, x.name)
	}
	return command.Usagef(`there is no %s: \help lists what there is%s`, words[0], instead(words[0], names))
}

func (s *session) help(_ context.Context, _ []string) error {
	fmt.Fprintln(s.Out, "Commands are those of the command line, without the file:\n"+
		"  help            lists them; help COMMAND shows one and its options\n"+
		"  A quote or square bracket may be closed on a later line; ; separates commands.\n"+
		"Settings:")
	for _, x := range settings() {
		fmt.Fprintf(s.Out, "  %-8s %-9s %s\n", x.name, x.args, x.help)
	}
	return nil
}

func (s *session) mode(_ context.Context, args []string) error {
	switch {
	case len(args) == 0:
		fmt.Fprintln(s.Out, s.OutputFormat())
	case len(args) > 1 || !slices.Contains(modes(), args[0]):
		return command.Usagef(`\mode %s: want one of %s`, strings.Join(args, " "), strings.Join(modes(), ", "))
	default:
		s.JSON, s.Format = false, args[0]
	}
	return nil
}

func (s *session) setTiming(_ context.Context, args []string) error {
	switch on := strings.Join(args, " "); on {
	case "":
		s.timing = !s.timing
	case "on", "off":
		s.timing = on == "on"
	default:
		return command.Usagef(`\timing %s: want on or off`, on)
	}
	return nil
}

func (s *session) setOutput(_ context.Context, args []string) error {
	if len(args) > 1 {
		return command.Usagef(`\output: want one file, or none for the screen`)
	}
	if s.output != nil {
		err := s.output.Close()
		if s.output = nil; err != nil {
			return err
		}
	}
	if len(args) == 0 || args[0] == command.Standard {
		return nil
	}
	if err := (command.ForceFlag{}).Refuse(args); err != nil {
		return command.Usagef("%s exists: name a new file", args[0])
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	s.output = f
	return err
}

// maxReading is how deep files of \read may read other ones.
const maxReading = 10

// exitCode is the error of a script, whose message has been written.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func (s *session) read(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return command.Usagef(`\read: want one file`)
	}
	if s.reading == maxReading {
		return command.Usagef(`\read %s: scripts read one another`, args[0])
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	s.reading++
	defer func() { s.reading-- }()
	if code := s.script(ctx, string(text)); code != command.ExitOK {
		return exitCode(code)
	}
	return nil
}

func (s *session) quit(context.Context, []string) error {
	s.ended = true
	return nil
}

// timed runs a command and writes how long it took if \timing is on.
func (s *session) timed(run func() int) int {
	timing, start := s.timing, time.Now()
	code := run()
	if timing && s.timing {
		fmt.Fprintf(s.Errs, "time: %s\n", time.Since(start).Round(10*time.Microsecond))
	}
	return code
}
