//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// TestClosedPipe: a command ends without a message when no one reads its results any more.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := &exec.Cmd{Path: self, Args: []string{"anndb", "export", f.file, "things", "-"}, Stderr: &errs} // see TestMain
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(out, 16).ReadByte(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || errs.Len() > 0 {
		t.Errorf("%v, messages: %s", err, errs.String())
	}
}
