package serving

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/internal/wire"
)

const (
	// protocol is the name of the frames, with a number that changes with them and with the request.
	protocol = "anndb-command/1"
	// commandPath is where a connection to a socket is upgraded.
	commandPath = "/command"
	// dialTime bounds the time until a server has accepted a command.
	dialTime = 10 * time.Second
)

// request is the command of a client. Names of files need not be UTF-8.
type request struct {
	Args     []string
	Globals  command.Globals
	Typed    bool // in a shell
	Folder   []byte
	Env      []byte // with zeros between
	Pid      int
	Out, Err terminal
}

// terminal is what a stream of a client is.
type terminal struct {
	Width int
	Is    bool
}

// Terminal implements command.Terminal.
func (t terminal) Terminal() (width int, ok bool) { return t.Width, t.Is }

func terminalOf(x io.Writer) terminal { return terminal{command.WidthOf(x), command.IsTerminal(x)} }

// Remote runs a command in the process of the server that has a file open, with the input, output and
// interrupts of p. It reports false if there is none.
func Remote(
	ctx context.Context, p *command.Program, file string, args []string, g command.Globals,
) (code int, served bool) {
	f, err := dial(file)
	switch {
	case errors.Is(err, errRefused):
		return p.Fail(g, err, args[0]), true
	case err != nil: // opening the file has the error that counts
		return 0, false
	}
	defer f.Close()
	c := client{frames: f, Program: p, file: file}
	code, err = c.run(ctx, args, g)
	if err != nil {
		code = p.Fail(g, err, args[0])
	}
	return code, true
}

// errRefused is the error of a server that does not take commands as this program sends them.
var errRefused = errors.New("the server of the file does not take the command: it is of another version, " +
	"or has too much to do")

// dial connects to the server of a database.
func dial(database string) (*frames, error) {
	c, err := net.DialTimeout("unix", wire.Socket(database), dialTime)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(dialTime))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		commandPath, protocol)
	in := bufio.NewReaderSize(c, mostFrame)
	r, err := http.ReadResponse(in, nil)
	if err == nil && r.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%w (%s)", errRefused, r.Status)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return newFrames(c, in), c.SetDeadline(time.Time{})
}

// client is a command that runs in the process of a server.
type client struct {
	*frames
	*command.Program
	file string
}

// run sends the command and passes its input and output on.
func (c *client) run(ctx context.Context, args []string, g command.Globals) (code int, err error) {
	folder, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(request{
		Args: args, Globals: g, Typed: c.Typed, Folder: []byte(folder), Pid: os.Getpid(),
		Env: []byte(strings.Join(os.Environ(), "\x00")),
		Out: terminalOf(c.Out), Err: terminalOf(c.Errs),
	})
	if err != nil {
		return 0, err
	}
	var interrupts atomic.Int32
	ctx, stop := c.Interruptible(ctx, func() bool { // the server has two uses for them
		return interrupts.Add(1) <= 2 && c.write(frameInterrupt, nil) == nil
	})
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if err := c.write(frameRequest, text); err != nil {
		return 0, c.ended(ctx, interrupts.Load() > 0, err)
	}
	for {
		kind, data, err := c.read(mostFrame)
		if err != nil {
			return 0, c.ended(ctx, interrupts.Load() > 0, err)
		}
		switch {
		case kind == frameOut:
			_, err = c.Out.Write(data)
		case kind == frameErrs:
			_, err = c.Errs.Write(data)
		case kind == frameRead:
			go c.input()
		case kind == frameExit && len(data) == 1:
			return int(data[0]), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// input sends some bytes of standard input.
func (c *client) input() {
	data := make([]byte, mostFrame)
	n, err := c.In.Read(data)
	switch {
	case n > 0: // an error comes again
		err = c.write(frameInput, data[:n])
	case err == io.EOF:
		err = c.write(frameInputEnd, nil)
	case err != nil:
		err = c.write(frameInputEnd, []byte(err.Error()))
	default:
		err = c.write(frameInput, nil)
	}
	_ = err // of a connection that has ended, which the reader of frames sees
}

// ended is the error of a connection that ends before the command.
func (c *client) ended(ctx context.Context, interrupted bool, err error) error {
	if ctx.Err() != nil || interrupted {
		return context.Canceled
	}
	return fmt.Errorf("the server of %s ended before the command: what it has acknowledged is stored (%w)",
		c.file, err)
}
