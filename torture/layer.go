package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/anndb/anndb/torture/internal/damage"
	"github.com/anndb/anndb/torture/internal/hostile"
)

// layers are all layers, in the order in which they run. A layer lives in the
// file of its name.
var layers = []layer{
	{"damage", "every page damaged: right answers or errors that name the place", damagePages,
		map[string]int{"pages": 500, "error at opening": 1, "error at use": 1}},
	{"hostile", "files with right checksums that nothing of ours wrote: no death, no hang, no memory, no array left, " +
		"hits that are rows", hostileFiles,
		map[string]int{"mutants": 150, "hits compared": 10_000, "errors": 100, "searches answered": 500}},
	{"kill", "processes killed at counts of what they acknowledged: no acknowledged batch lost, no half batch seen", kill,
		map[string]int{"kills": 30, "batches acknowledged": 30, "steps ended": 10, "control caught": 1}},
	{"replace", "the file replaced, removed, linked or mounted over while it is open: refused by name, nothing lost",
		replaced, map[string]int{"takeovers": 10}},
	{"metamorphic", "the same operations under other options: the same answers, to the bit", metamorphic,
		map[string]int{"pairs": 8, "answers compared": 400}},
	{"history", "everything at once: snapshots equal the model, registers are linearizable, nothing leaks", histories,
		map[string]int{"rounds": 1, "batches": 2, "snapshots": 5}},
	{"resources", "no disk space, file size, descriptors, right to write, address space: errors of their kind, nothing lost",
		resources, nil},
	{"serve", "a server ended and killed under commands, programs and a browser: nothing lost, the library's answers", serveFile,
		map[string]int{"ended": 2, "killed": 2, "idle": 2, "answers compared": 200, "control caught": 1}},
	{"soak", "a day's operations in half an hour: memory, descriptors and file size level off", soakOneDay,
		map[string]int{"samples": 100}},
	{"serveload", "an hour's load of a server: memory, descriptors, goroutines and file size level off, and are given back",
		serveLoad, map[string]int{"samples": 600, "steps": 10_000}},
	{"powercut", "power cuts of ext4 and xfs: no acknowledged batch lost, no half batch seen", powerCuts,
		map[string]int{"cuts": 8, "batches": 8, "builds": 2, "maintained": 1, "compacted": 1, "control_lost_batches": 1}},
	{"crashstates", "every disk state that a crash in a small workload may leave is whole", crashStates,
		map[string]int{"states": 400, "fsyncs": 20, "control_broken": 8}},
	{"faults", "calls of the file system that fail: an error with a name, and nothing lost", failingCalls,
		map[string]int{"faults": 100, "errors": 100}},
	{"mutants", "bugs put in on purpose: the layers above catch them", seededBugs,
		map[string]int{"mutants": 1, "caught": 1}},
}

// children are what a process of this program may do instead of running layers,
// by name: parts of layers that are to be killed, limited or leaked.
var children = map[string]child{
	"damage":      damage.Child,
	"hostile":     hostile.Child,
	"kill":        killChild,
	"metamorphic": tell,
	"resources":   scarceChild,
	"soak":        soakChild,
	"write":       writer,
	"session":     runSession,
}

// layer is one way of torturing the database.
type layer struct {
	// name is what -layers calls it, doc one line about what it proves.
	name, doc string
	// run does it. What it counted is printed whatever the error.
	run func(ctx context.Context, e *env) (totals, error)
	// least are the counts below which it proves nothing, also in a sample, by name: it fails there. They
	// are far below the usual ones.
	least map[string]int
}

// child is the work of a child process: it gets the arguments after its name,
// writes to standard output what its parent is to know, and returns an error
// for exit code 1, which is printed as a line "error …".
type child func(args []string) error

// env is what a layer works with. Nothing in it is shared with other layers.
type env struct {
	layer string
	seed  uint64
	full  bool   // -scale full
	dir   string // an empty directory of the layer's own, removed afterwards
	self  string // this executable
	log   *log.Logger
}

// rng is the layer's source of random numbers. Every call with the same names
// gives the same one, so that parts of a layer can be run alone.
func (e *env) rng(names ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, e.layer)
	for _, n := range names {
		fmt.Fprintf(h, "/%v", n)
	}
	return rand.New(rand.NewPCG(e.seed, h.Sum64()))
}

// pick is sample or full, as the scale says.
func (e *env) pick(sample, full int) int {
	if e.full {
		return full
	}
	return sample
}

// sub makes an empty directory under the layer's.
func (e *env) sub(name string) (string, error) {
	dir := filepath.Join(e.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// child is a command that runs a child of this program, with its standard error
// in the log. The caller must wait for it.
func (e *env) child(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, e.self, append([]string{"child", name}, args...)...)
	c.Stderr = e.log.Writer()
	return c
}

// lines starts a command and passes every whole line of its standard output to
// f, until the command ends or f returns an error, which kills it. A line cut
// short by the command's death is dropped. An error line of a child is an
// error; that the command was killed is none.
func lines(c *exec.Cmd, f func(line string) error) error {
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var failed error
	var text []byte
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		text = append(text, buf[:n]...)
		for failed == nil {
			line, rest, ok := bytes.Cut(text, []byte("\n"))
			if !ok {
				break
			}
			text = rest
			if s, ok := strings.CutPrefix(string(line), "error "); ok {
				failed = fmt.Errorf("child %s: %s", strings.Join(c.Args[1:], " "), s)
			} else {
				failed = f(string(line))
			}
		}
		if failed != nil {
			_ = c.Process.Kill() // it may be gone already
		}
		if err != nil {
			break
		}
	}
	err = c.Wait()
	var exit *exec.ExitError
	if failed == nil && err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		failed = fmt.Errorf("child %s: %w", strings.Join(c.Args[1:], " "), err)
	}
	return failed
}

// totals are the counts of a layer, in the order of their first mention, and
// the parts of it that were left out.
type totals struct {
	names   []string
	counts  map[string]int
	skipped []string
}

// add adds to a count; adding nothing makes it appear.
func (t *totals) add(name string, n int) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if _, ok := t.counts[name]; !ok {
		t.names = append(t.names, name)
	}
	t.counts[name] += n
}

// skip says that a part of the layer was left out, and why.
func (t *totals) skip(format string, args ...any) {
	t.skipped = append(t.skipped, fmt.Sprintf(format, args...))
}

func (t totals) String() string {
	var b strings.Builder
	for _, n := range t.names {
		fmt.Fprintf(&b, "%s=%d ", n, t.counts[n])
	}
	return b.String()
}

// skipError is why a layer did not run.
type skipError string

func (s skipError) Error() string { return string(s) }

// skipped is the error of a layer that cannot run here.
func skipped(format string, args ...any) error { return skipError(fmt.Sprintf(format, args...)) }

// tail keeps the last lines written to it, for the report of a failure, and
// passes all of them on when the run is verbose.
type tail struct {
	mu   sync.Mutex
	text []byte
	to   io.Writer
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if drop := len(t.text) - tailBytes; drop > 0 {
		t.text = append(t.text[:0], t.text[drop:]...)
	}
	if t.to != nil {
		return t.to.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
