// Command anndb works with anndb files: import vectors, dense and sparse, learn
// indexes and label models, search, predict, measure recall, quality and
// latency, check and copy files.
//
//	anndb COMMAND FILE [COLLECTION ...] [flags]
//
// anndb --help lists the commands. The exit code is 0 after success, 1 after
// an error, 2 for arguments that make no sense, 130 when interrupted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default action is back, so that a second one
	// ends a program that does not stop by itself.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
