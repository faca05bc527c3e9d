package child

import (
	"io"
	"os"
	"os/exec"
)

// Start starts a command that shows its errors, and returns pipes to its input and from its output.
func Start(cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, err error) {
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return in, out, cmd.Start()
}
