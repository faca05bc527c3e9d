package damage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestCases damages a file in this process: that a judge who is told the wrong
// answers notices, and that the cases leave out no page.
func TestCases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sound.anndb")
	if err := Build(path, 1); err != nil {
		t.Fatal(err)
	}
	s, err := NewSheet(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.judge(path, -1); v.Outcome != Right || v.Failed != 0 || v.Asked != len(s.Answers) || v.Checked {
		t.Errorf("a sound file: %+v", v)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases, pages, err := Cases(path, data, 1)
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 << 10
	flips, cuts := map[int64]int{}, map[int64]int{}
	for _, c := range cases {
		if c.How == "flip" {
			flips[c.At/size]++
		} else {
			cuts[c.At/size]++
		}
	}
	for p := range int64(pages) {
		if flips[p] < 3 || flips[p] > 4 || cuts[p] != 4 {
			t.Errorf("page %d is damaged by %d flips and %d cuts", p, flips[p], cuts[p])
		}
	}
	if len(flips) != pages || pages < 1000 {
		t.Errorf("%d pages, %d of them damaged", pages, len(flips))
	}
	s.Answers[len(s.Answers)/2]++
	if v := s.judge(path, -1); v.Outcome != Wrong {
		t.Errorf("another answer than the right one: %+v", v)
	}
}

// TestOutcomes tells processes that die and that hang from others.
func TestOutcomes(t *testing.T) {
	b := &Bench{dir: t.TempDir(), data: make([]byte, 100)}
	for script, want := range map[string]string{
		"kill -9 $$":                            Died,
		"echo nonsense":                         Died,
		"echo SIGXCPU >&2; exit 2":              Hung,
		`echo '{"Outcome":"right answers"}'`:    Missed,
		`echo '{"Outcome":"error at opening"}'`: OpenError,
	} {
		b.command = shell(script)
		err := b.Try(context.Background(), []Case{{How: "flip", At: 7, Used: true}}, 1, func(_ Case, v Verdict) {
			if v.Outcome != want {
				t.Errorf("%q: %+v, want %s", script, v, want)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	if after, err := os.ReadFile(filepath.Join(b.dir, "damaged-0.anndb")); err != nil || string(after) != string(b.data) {
		t.Errorf("the file is not mended: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	b.command = shell("exec sleep 20")
	if err := b.Try(ctx, []Case{{How: "flip"}}, 1, func(Case, Verdict) { t.Error("a verdict after the end") }); err == nil {
		t.Error("the end of the context is no error")
	}
}

// shell makes commands that run a script, whatever their arguments.
func shell(script string) func(ctx context.Context, args ...string) *exec.Cmd {
	return func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", script) }
}
