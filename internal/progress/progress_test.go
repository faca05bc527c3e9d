package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestState(t *testing.T) {
	for _, c := range []struct {
		done, total int
		took        time.Duration
		want        string
	}{
		{5, 0, 3 * time.Second, "stage: 5, 3s"},
		{25, 100, 10 * time.Second, "stage: 25 of 100, 10s, 30s left"},
		{100, 100, time.Minute, "stage: 100 of 100, 1m0s"},
		{101, 100, time.Minute, "stage: 101 of 100, 1m0s"}, // files that grow while they are read
	} {
		if got := state("stage", c.done, c.total, c.took); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, c.want)
		}
	}
}

// lockedBuffer is a buffer that a timer may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was written since the last call.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.b.String()
	l.b.Reset()
	return text
}

// TestLogEveryTenSeconds checks what is written where there is no terminal, by a clock of its own.
func TestLogEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lockedBuffer
		p := newLine(&b, true)
		step := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := b.take(); got != want {
				t.Errorf("after %v: %q, want %q", d, got, want)
			}
		}
		p.Update("read", 3, 12)
		step(9*time.Second, "")
		p.Update("settings, best 0.46", 40, 121)
		step(1500*time.Millisecond, "settings: 40 of 121, best 0.46, 1s, 2s left\n")
		p.Update("settings, best 0.47", 41, 121) // the same stage
		step(9*time.Second, "")
		step(time.Second, "settings: 41 of 121, best 0.47, 11s, 21s left\n")
		step(20*time.Second, "settings: 41 of 121, best 0.47, 21s, 41s left\n"+
			"settings: 41 of 121, best 0.47, 31s, 1m0s left\n") // without a report
		p.End()
		step(time.Minute, "")
		p.Update("write", 0, 0) // long after the last line
		step(0, "write: 0s\n")
		p.End()
	})
}

// TestLineOfSilentWork checks that the time on a terminal advances while a stage does not report.
func TestLineOfSilentWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := newLine(&b, false)
		p.Update("copy", 0, 0)
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		lines := strings.Split(b.String(), "\r")
		if len(lines) != 5 || strings.TrimSpace(lines[4]) != "copy: 3s" {
			t.Errorf("%q", lines)
		}
		p.End()
	})
}

func TestQuiet(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "errs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p := New(f, true); p.w != nil {
		t.Error("quiet, and it writes")
	}
	if p := New(f, false); p.w == nil || !p.log {
		t.Error("no log in a file")
	}
	if p := New(&bytes.Buffer{}, false); p.w != nil {
		t.Error("a buffer of a test is written to")
	}
}

func TestProgressWipesItsLine(t *testing.T) {
	var b bytes.Buffer
	p := &Line{w: &b}
	p.Update("a long name of a stage", 1, 2)
	p.Update("none", 2, 2)
	p.Update("b", 1, 2)
	p.Update("b", 2, 2)
	if strings.Contains(b.String(), "none") {
		t.Error("a stage that ended at once is shown")
	}
	if lines := strings.Split(b.String(), "\r"); len(lines[2]) < len(lines[1]) {
		t.Errorf("a shorter line leaves the end of a longer one: %q", b.String())
	}
	p.End()
	if s := b.String(); !strings.HasSuffix(s, "\r") || p.width != 0 {
		t.Errorf("the line stays: %q", s)
	}
	n := b.Len()
	p.End()
	if b.Len() != n {
		t.Error("a second end writes")
	}
}
