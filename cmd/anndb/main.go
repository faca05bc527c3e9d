// Command anndb works with anndb files: import vectors, dense and sparse, learn
// indexes and label models, search, predict, measure recall, quality and
// latency, check and copy files.
//
//	anndb COMMAND FILE [COLLECTION ...] [flags]
//	anndb FILE                  the shell, or commands from standard input
//	anndb FILE 'COMMAND ...'    commands on one file
//
// anndb --help lists the commands. The exit code is 0 after success, 1 after
// an error, 2 for arguments that make no sense, 130 when interrupted.
package main

import (
	"context"
	"os"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/serving"
)

func main() {
	p := &command.Program{
		In: os.Stdin, Out: os.Stdout, Errs: os.Stderr,
		Interruptible: command.UntilSignal, Remote: serving.Remote,
	}
	os.Exit(run(context.Background(), p, os.Args[1:]))
}
