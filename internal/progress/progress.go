// Package progress shows how far long work is, on terminals only.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Line is one line about long work. Its methods may be called from several
// goroutines.
type Line struct {
	w       io.Writer // nil: show nothing
	mu      sync.Mutex
	stage   string
	started time.Time
	shown   time.Time
	width   int
}

// New returns a line on w; it shows nothing if quiet is set or w is no terminal.
func New(w io.Writer, quiet bool) *Line {
	f, ok := w.(*os.File)
	if quiet || !ok {
		return &Line{}
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return &Line{}
	}
	return &Line{w: w}
}

// Update reports that done of total steps of a stage are done; total is 0
// where the end is not known. The line changes at most ten times a second, and
// does not show what ends at once.
func (p *Line) Update(stage string, done, total int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if stage != p.stage {
		p.stage, p.started, p.shown = stage, now, time.Time{}
	}
	ended := total > 0 && done == total
	if ended && p.shown.IsZero() || !ended && now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	p.write(progressLine(stage, done, total, now.Sub(p.started)))
}

// write replaces the line.
func (p *Line) write(line string) {
	// Blanks wipe what is left of a longer line before.
	pad := max(0, p.width-len([]rune(line)))
	p.width = len([]rune(line))
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", pad))
}

// progressLine is the text of one state.
func progressLine(stage string, done, total int, took time.Duration) string {
	if total <= 0 {
		return fmt.Sprintf("%-12s %d  %s", stage, done, took.Round(time.Second))
	}
	const cells = 30
	full := min(cells, cells*done/total)
	bar := strings.Repeat("#", full) + strings.Repeat("-", cells-full)
	line := fmt.Sprintf("%-12s [%s] %3d %%", stage, bar, min(100, 100*done/total))
	if rate := float64(done) / took.Seconds(); took > time.Second && total >= leastRated {
		line += fmt.Sprintf("  %.0f/s", rate)
	}
	if left := remaining(done, total, took); left > time.Second {
		line += fmt.Sprintf("  %s left", left.Round(time.Second))
	}
	return line
}

// leastRated is the number of steps from which their rate is shown: fewer ones differ too much.
const leastRated = 1000

// remaining extrapolates the time so far.
func remaining(done, total int, took time.Duration) time.Duration {
	if done <= 0 || done >= total {
		return 0
	}
	return time.Duration(float64(took) * float64(total-done) / float64(done))
}

// Steps returns a function that reports steps of the named stage.
func (p *Line) Steps(stage string) func(done, total int) {
	return func(done, total int) { p.Update(stage, done, total) }
}

// End wipes the line.
func (p *Line) End() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
	p.stage = ""
}
