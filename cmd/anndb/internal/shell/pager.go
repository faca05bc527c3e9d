package shell

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// pager passes what a command of the interactive shell writes to the terminal, by way of the user's
// pager if it is more than a screen.
type pager struct {
	out *os.File

	mu    sync.Mutex
	held  bytes.Buffer // less than a screen so far
	lines int          // of the screen that are full
	last  int          // characters of the line that is not ended
	late  *time.Timer  // opens; nil before the first write
	open  bool         // what comes goes to the terminal at once
	pipe  io.WriteCloser
	less  *exec.Cmd
}

// pagerPatience is after which time output goes to the terminal at once: a command that takes longer
// shows what it does.
const pagerPatience = time.Second

// newPager returns a pager for a terminal. With PAGER=cat it passes everything on.
func newPager(out *os.File) *pager {
	return &pager{out: out, open: os.Getenv("PAGER") == "cat" || os.Getenv("TERM") == "dumb"}
}

// Terminal returns the terminal.
func (p *pager) Terminal() *os.File { return p.out }

// Write holds p back until it is clear whether a pager is needed.
func (p *pager) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pipe != nil:
		if _, err := p.pipe.Write(b); err != nil {
			return len(b), nil // the user has left the pager
		}
		return len(b), nil
	case p.open:
		return p.out.Write(b)
	}
	if p.late == nil {
		p.late = time.AfterFunc(pagerPatience, p.flush)
	}
	p.held.Write(b)
	var err error
	width, height, sizeErr := term.GetSize(int(p.out.Fd()))
	if sizeErr == nil && 0 < height && 0 < width && height <= p.count(b, width) {
		err = p.start()
	}
	return len(b), err
}

// count returns how many lines of a screen are full after b. Wide characters count once.
func (p *pager) count(b []byte, width int) int {
	for line := range bytes.Lines(b) {
		p.last += utf8.RuneCount(line)
		if line[len(line)-1] == '\n' {
			p.lines += 1 + max(0, p.last-2)/width
			p.last = 0
		}
	}
	return p.lines + p.last/width
}

// flush shows what is held back, unless the pager has it.
func (p *pager) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipe == nil {
		p.open = true
		_, _ = p.held.WriteTo(p.out) // the next write has the error as well
	}
}

// start starts the pager with what was held back; without one the terminal gets it.
func (p *pager) start() error {
	words := strings.Fields(cmp.Or(os.Getenv("PAGER"), "less"))
	p.less = exec.Command(words[0], words[1:]...)
	p.less.Stdout, p.less.Stderr = p.out, os.Stderr
	if os.Getenv("LESS") == "" {
		p.less.Env = append(os.Environ(), "LESS=FRSX") // quit if one screen, raw, no wrapping
	}
	pipe, err := p.less.StdinPipe()
	if err == nil {
		err = p.less.Start()
	}
	if err != nil { // there is no pager
		p.open = true
		_, err = p.held.WriteTo(p.out)
		return err
	}
	p.pipe = pipe
	_, _ = p.held.WriteTo(pipe) // fails if the user has left the pager
	return nil
}

// Close shows what is held back, and waits for the user to leave the pager.
func (p *pager) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late != nil {
		p.late.Stop()
	}
	if p.pipe != nil {
		_ = p.pipe.Close()
		_ = p.less.Wait() // its exit code says nothing about the command
		return nil
	}
	_, err := p.held.WriteTo(p.out)
	return err
}
