// Command anndb-mcp offers the database in a file to language models, as a server of the Model Context
// Protocol on standard input and output.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/anndb/anndb/mcp/internal/tools"
)

const usage = `anndb-mcp [--write] FILE
anndb-mcp [--write] [--file NAME] [--token-file PATH] ADDRESS

Offers the anndb database FILE, or one of the server at ADDRESS (anndb serve), to agents on standard input
and output: tools that list, search, get, predict and explain. --write adds put and delete, --file names one
of several files of the server. An agent's program starts it; see the README of the module.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "anndb-mcp:", err)
		os.Exit(1)
	}
}

// open opens a file, or the file of a server.
func open(ctx context.Context, path, file, tokenFile string) (tools.Database, error) {
	if !strings.Contains(path, "://") {
		return tools.Open(ctx, path)
	}
	var token []byte
	if tokenFile != "" {
		var err error
		if token, err = os.ReadFile(tokenFile); err != nil {
			return nil, err
		}
	}
	return tools.Dial(ctx, path, strings.TrimSpace(string(token)), file)
}

// run serves the database until standard input ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("anndb-mcp", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	write := flags.Bool("write", false, "")
	file, tokenFile := flags.String("file", "", ""), flags.String("token-file", "", "")
	var paths []string
	for len(args) > 0 { // flags may follow the file
		if err := flags.Parse(args); err != nil {
			return err
		}
		if args = flags.Args(); len(args) > 0 {
			paths, args = append(paths, args[0]), args[1:]
		}
	}
	if len(paths) != 1 {
		return fmt.Errorf("want one file, got %d\n\n%s", len(paths), usage)
	}
	d, err := open(ctx, paths[0], *file, *tokenFile)
	if err != nil {
		return err
	}
	defer d.Close()
	version := "devel"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		version = b.Main.Version
	}
	return tools.New(d, version, *write).Run(ctx, &mcp.StdioTransport{})
}
