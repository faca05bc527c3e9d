package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/child"
)

// process is a running child (package child) of one system.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// errChild wraps what a child answered instead of ok.
var errChild = errors.New("child failed")

// start runs a driver; argv[0] is its file.
func start(ctx context.Context, name string, argv []string) (*process, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Libraries that thread by OpenMP are told the number of threads by their
	// drivers; none may take more on its own account.
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
	in, out, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &process{name: name, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

// ask sends one command and returns what follows ok.
func (p *process) ask(words ...string) (string, error) {
	line := strings.Join(words, " ")
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return "", fmt.Errorf("%s: %s: %w", p.name, words[0], err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", p.name, words[0], err)
	}
	rest, ok := strings.CutPrefix(strings.TrimSuffix(answer, "\n"), "ok")
	if !ok {
		return "", fmt.Errorf("%w: %s: %s: %s", errChild, p.name, words[0], strings.TrimSpace(answer))
	}
	return strings.TrimSpace(rest), nil
}

// value asks and reads the number name=… of the answer.
func (p *process) value(name string, words ...string) (float64, string, error) {
	answer, err := p.ask(words...)
	if err != nil {
		return 0, "", err
	}
	for w := range strings.FieldsSeq(answer) {
		if text, ok := strings.CutPrefix(w, name+"="); ok {
			v, err := strconv.ParseFloat(text, 64)
			return v, answer, err
		}
	}
	return 0, "", fmt.Errorf("%w: %s: no %s in %q", errChild, p.name, name, answer)
}

// run is what a child measured: ids of the last pass, and times by pass.
type run struct {
	k   int
	ids []uint32
	ns  [][]uint32
	// allocs are allocations a query, negative where nobody counts; work is what
	// the system says of its work.
	allocs float64
	work   string
}

// run asks all queries of a slot.
func (p *process) run(slot string, k, passes, warm, limit int, setting string) (*run, error) {
	answer, err := p.ask("run", slot, strconv.Itoa(k), strconv.Itoa(passes), strconv.Itoa(warm), strconv.Itoa(limit), setting)
	if err != nil {
		return nil, err
	}
	f := strings.Fields(answer)
	if len(f) < 3 {
		return nil, fmt.Errorf("%w: %s: answer %q", errChild, p.name, answer)
	}
	asked, err := strconv.Atoi(f[0])
	if err != nil || f[1] != strconv.Itoa(k) || f[2] != strconv.Itoa(passes) {
		return nil, fmt.Errorf("%w: %s: answer %q", errChild, p.name, answer)
	}
	r := &run{k: k, ids: make([]uint32, asked*k), ns: make([][]uint32, passes), allocs: -1}
	for _, w := range f[3:] {
		if text, ok := strings.CutPrefix(w, "allocs="); ok {
			if r.allocs, err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("%w: %s: answer %q", errChild, p.name, answer)
			}
		}
		if text, ok := strings.CutPrefix(w, "work="); ok {
			r.work = text
		}
	}
	if err := binary.Read(p.out, binary.NativeEndian, r.ids); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	for i := range r.ns {
		r.ns[i] = make([]uint32, asked)
		if err := binary.Read(p.out, binary.NativeEndian, r.ns[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return r, nil
}

// stop ends the child.
func (p *process) stop() error {
	_, err := p.ask("quit")
	return errors.Join(err, p.in.Close(), p.cmd.Wait())
}
