//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/anndb/anndb/internal/golden"
)

// nobody is the number of a user without rights.
const nobody = 65534

// TestReadOnlyStates: every command on a file that must not be written, which testdata/readonly.txt lists.
// The superuser may write to any file, so the test runs itself as another user then.
func TestReadOnlyStates(t *testing.T) {
	unraced(t)
	const output = "ANNDB_TEST_OUTPUT" // where the test of the other user leaves its table
	if os.Geteuid() == 0 {
		golden.Compare(t, "readonly.txt", asNobody(t, output))
		return
	}
	got := stateTable(t, "read-only", func(t *testing.T, path string, good []byte) {
		write(t, path, string(good))
		if err := os.Chmod(path, 0o444); err != nil {
			t.Fatal(err)
		}
	}, stateFixture(t))
	if path := os.Getenv(output); path != "" {
		write(t, path, got)
		return
	}
	golden.Compare(t, "readonly.txt", got)
}

// asNobody runs the calling test as another user, with the name of a file in a variable of the
// environment, and returns what it has written to the file.
func asNobody(t *testing.T, variable string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "anndb-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The folders of t.TempDir and of the test's binary are those of the superuser only.
	program, result := filepath.Join(dir, "test"), filepath.Join(dir, "result")
	write(t, program, read(t, self))
	for _, path := range []string{dir, program} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run", "^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variable+"="+result, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	switch _, failed := err.(*exec.ExitError); {
	case failed:
		t.Fatalf("as another user: %v\n%s", err, out)
	case err != nil:
		t.Skipf("SKIPPED: no process of another user: %v", err)
	}
	return read(t, result)
}
