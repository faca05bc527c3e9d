// Package progress shows how far long work is: by a line that changes on terminals, and one every ten seconds
// in other files, such as logs.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// logged is the time between two lines where there is no terminal, redrawn that between two
// states of a line about work that does not report.
const (
	logged  = 10 * time.Second
	redrawn = time.Second
)

// Line is one line about long work. Its methods may be called from several
// goroutines.
type Line struct {
	w      io.Writer // nil: show nothing
	log    bool      // write one line below the other
	mu     sync.Mutex
	timer  *time.Timer // shows the stage again if it does not report; nil between two works
	spoken time.Time   // last line of a log

	stage       string // without what is known of its result
	text        string
	done, total int
	started     time.Time
	shown       time.Time
	width       int
}

// New returns a line on w. It shows nothing if quiet is set or w is neither a file nor that of a client.
func New(w io.Writer, quiet bool) *Line {
	terminal := false
	switch f := w.(type) {
	case *os.File:
		terminal = term.IsTerminal(int(f.Fd()))
	case interface{ Terminal() (width int, ok bool) }:
		_, terminal = f.Terminal()
	default:
		quiet = true
	}
	if quiet {
		return &Line{}
	}
	return newLine(w, !terminal)
}

func newLine(w io.Writer, log bool) *Line { return &Line{w: w, log: log, spoken: time.Now()} }

// Update reports that done of total steps of a stage are done; total is 0
// where the end is not known. What follows a comma in the name of a stage is known of its result
// so far. The line on a terminal changes at most ten times a second, and does not show what ends at once.
func (p *Line) Update(stage string, done, total int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if name, _, _ := strings.Cut(stage, ","); name != p.stage {
		p.stage, p.started, p.shown = name, now, time.Time{}
	}
	p.text, p.done, p.total = stage, done, total
	if p.timer == nil {
		p.timer = time.AfterFunc(p.pause(now), p.remind)
	}
	ended := total > 0 && done == total
	if p.log || ended && p.shown.IsZero() || !ended && now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	p.draw(now)
}

// pause is the time until the stage is shown without a report.
func (p *Line) pause(now time.Time) time.Duration {
	if p.log {
		return max(0, logged-now.Sub(p.spoken))
	}
	return redrawn
}

// remind shows the stage of running work.
func (p *Line) remind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil { // the work has ended
		return
	}
	now := time.Now()
	if p.log {
		p.spoken = now
		fmt.Fprintln(p.w, state(p.text, p.done, p.total, now.Sub(p.started)))
	} else if ended := p.total > 0 && p.done == p.total; !ended {
		p.draw(now)
	}
	p.timer.Reset(p.pause(now))
}

// draw replaces the line on a terminal.
func (p *Line) draw(now time.Time) {
	line := state(p.text, p.done, p.total, now.Sub(p.started))
	// Blanks wipe what is left of a longer line before.
	pad := max(0, p.width-len([]rune(line)))
	p.width = len([]rune(line))
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", pad))
}

// state is the line about a state.
func state(stage string, done, total int, took time.Duration) string {
	name, result, _ := strings.Cut(stage, ",")
	line := name + ":"
	switch {
	case total > 0:
		line += fmt.Sprintf(" %d of %d,", done, total)
	case done > 0:
		line += fmt.Sprintf(" %d,", done)
	}
	if result != "" {
		line += result + ","
	}
	line += " " + took.Round(time.Second).String()
	if done > 0 && done < total {
		left := time.Duration(float64(took) * float64(total-done) / float64(done))
		if left > time.Second {
			line += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
	}
	return line
}

// End wipes the line, and ends the lines about the stage.
func (p *Line) End() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
	p.stage = ""
}
