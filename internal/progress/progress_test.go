package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int
		took        time.Duration
		want        []string
	}{
		{5, 0, 3 * time.Second, []string{"stage", "5", "3s"}},
		{25, 100, 10 * time.Second, []string{"[#######---", "25 %", "30s left"}},
		{100, 100, time.Minute, []string{"100 %"}},
		{101, 100, time.Minute, []string{"100 %"}}, // files that grow while they are read
	} {
		line := progressLine("stage", c.done, c.total, c.took)
		for _, w := range c.want {
			if !strings.Contains(line, w) {
				t.Errorf("%d of %d: %q lacks %q", c.done, c.total, line, w)
			}
		}
		if c.done >= c.total && strings.Contains(line, "left") {
			t.Errorf("finished, yet %q", line)
		}
	}
}

func TestProgressOnTerminalsOnly(t *testing.T) {
	var b bytes.Buffer
	p := New(&b, false)
	p.Update("stage", 1, 2)
	p.End()
	if b.Len() > 0 {
		t.Errorf("wrote %q to something that is no terminal", b.String())
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
	long := len("a long name of a stage")
	if lines := strings.Split(b.String(), "\r"); len(lines[len(lines)-1]) < long {
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
