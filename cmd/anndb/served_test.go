package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/internal/wire"
)

// servedKey marks the environment of scripts whose commands run in the process of a server.
type servedKey struct{}

// TestScriptServed: every command prints the same, and ends with the same exit code, when a server has its
// file open and another working folder.
func TestScriptServed(t *testing.T) {
	params := scriptParams(t)
	params.UpdateScripts = false
	setup := params.Setup
	params.Setup = func(e *testscript.Env) error {
		e.Values[servedKey{}] = true
		return setup(e)
	}
	testscript.Run(t, params)
}

// serveWords serves the first database among the words of a command line, and returns a function that ends
// the server.
func serveWords(ts *testscript.TestScript, words []string) (stop func()) {
	file := slices.IndexFunc(words, func(w string) bool {
		info, err := os.Stat(ts.MkAbs(w))
		return err == nil && info.Mode().IsRegular() && filepath.Ext(w) == ".anndb" &&
			w != "foreign.anndb" // whose analyzer this process has
	})
	// restore and repair --to refuse files that are in use.
	if file < 0 || slices.Contains(words, "restore") || slices.Contains(words, "--to") {
		return func() {}
	}
	s := startServe(ts.MkAbs(words[file]))
	return func() {
		code, errs := s.end()
		if code != command.ExitOK && s.begun {
			ts.Fatalf("serve: exit code %d: %s", code, errs)
		}
	}
}

// served is a server in this process.
type served struct {
	cancel context.CancelFunc
	code   chan int
	errs   *bytes.Buffer
	begun  bool
}

// startServe serves a file, unless that cannot be opened.
func startServe(args ...string) *served {
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{cancel: cancel, code: make(chan int, 1), errs: &bytes.Buffer{}}
	p := &command.Program{In: strings.NewReader(""), Out: s.errs, Errs: s.errs, Interruptible: cancelable}
	go func() { s.code <- run(ctx, p, append([]string{"serve", "--quiet"}, args...)) }()
	for {
		if c, err := net.Dial("unix", wire.Socket(args[0])); err == nil {
			_ = c.Close()
			s.begun = true
			return s
		}
		select {
		case code := <-s.code:
			s.code <- code
			return s
		case <-time.After(time.Millisecond):
		}
	}
}

// end ends the server and returns its exit code and messages.
func (s *served) end() (code int, errs string) {
	s.cancel()
	code = <-s.code
	return code, s.errs.String()
}
