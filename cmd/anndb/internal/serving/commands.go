package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/server"
)

// Commands runs a command line that has been parsed before, with flags for all commands, and returns its exit
// code.
type Commands func(ctx context.Context, p *command.Program, args []string, g command.Globals) int

// commands runs commands of clients in this process. The mode of the Unix sockets decides who may run some.
type commands struct {
	run     Commands
	files   []command.HostedFile
	ctx     context.Context // its end interrupts the commands
	running sync.WaitGroup
}

// ServeHTTP upgrades a connection and runs one command.
func (c *commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !server.Local(r) {
		http.Error(w, "commands are taken from Unix sockets only", http.StatusForbidden)
		return
	}
	if r.Header.Get("Upgrade") != protocol {
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "commands of anndb are sent as "+protocol, http.StatusUpgradeRequired)
		return
	}
	c.running.Add(1) // before the connection is no longer one of the HTTP server
	defer c.running.Done()
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	f := newFrames(conn, buffers.Reader)
	kind, text, err := f.read(mostRequest)
	var q request
	if err != nil || kind != frameRequest || json.Unmarshal(text, &q) != nil {
		return // the client sees the end
	}
	_ = conn.SetDeadline(time.Time{})
	f.data = bytes.Buffer{} // a request may be large
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	// At the end of the server, a client that does not read must not keep its command waiting.
	defer context.AfterFunc(c.ctx, func() { _ = conn.SetWriteDeadline(time.Now().Add(hangUpTime)) })()
	s := &session{frames: f, ctx: ctx, cancel: cancel, input: make(chan input, 1)}
	go s.receive()
	host := &command.Host{
		Files: c.files, Folder: string(q.Folder), Env: strings.Split(string(q.Env), "\x00"), Pid: q.Pid,
	}
	code := c.run(ctx, &command.Program{
		In: s, Out: &stream{q.Out, s, frameOut, nil}, Errs: &stream{q.Err, s, frameErrs, host}, Typed: q.Typed,
		Interruptible: s.interruptible, Host: host,
	}, q.Args, q.Globals)
	_ = s.write(frameExit, []byte{byte(code)}) // to a client that may be gone
}

// session is a command of a client. It is the command's standard input.
type session struct {
	*frames
	ctx    context.Context // of the command; it ends with the connection
	cancel context.CancelFunc
	input  chan input
	left   []byte // of the input that was received last

	mu        sync.Mutex
	interrupt func() // nil until the command uses interrupts
}

// input is what the client has read from its standard input.
type input struct {
	data []byte
	err  error
}

// receive takes frames of the client until the connection ends.
func (s *session) receive() {
	defer s.cancel()
	for {
		kind, data, err := s.frames.read(mostFrame)
		if err != nil {
			return
		}
		in := input{data: bytes.Clone(data)}
		switch {
		case kind == frameInterrupt:
			s.interrupted()
			continue
		case kind == frameInputEnd && len(data) == 0:
			in.err = io.EOF
		case kind == frameInputEnd:
			in = input{err: errors.New(string(data))}
		case kind != frameInput:
			return
		}
		select {
		case s.input <- in:
		default: // more than the command has requested
			return
		}
	}
}

// Read reads standard input of the client.
func (s *session) Read(p []byte) (n int, err error) {
	if len(s.left) == 0 {
		if err := s.write(frameRead, nil); err != nil {
			return 0, err
		}
		select {
		case in := <-s.input:
			s.left, err = in.data, in.err
		case <-s.ctx.Done():
			err = s.ctx.Err()
		}
	}
	n = copy(p, s.left)
	s.left = s.left[n:]
	return n, err
}

// interruptible is that of a program whose interrupts are those of the client.
func (s *session) interruptible(ctx context.Context, used func() bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = func() {
		if ctx.Err() != nil { // the client need not wait for a command that does not stop
			_ = s.Close()
		} else if !used() {
			cancel()
		}
	}
	return ctx, cancel
}

func (s *session) interrupted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt == nil {
		s.cancel()
		return
	}
	s.interrupt()
}

// stream is the standard output or error of a client.
type stream struct {
	terminal
	to   *session
	kind byte
	// host restores the paths in messages, each of which is one write; nil for results.
	host *command.Host
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	text := p
	if s.host != nil {
		text = []byte(s.host.Message(string(p)))
	}
	if err := s.to.write(s.kind, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
