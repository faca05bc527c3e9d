// Package damage breaks every page of a database, one at a time and each in a
// process of its own, and asks everything. The answer must be the right one or
// an error that names the damage.
package damage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// What a process may take: ten seconds of its own (processor time), and, since
// one that waits for ever uses none, a minute by the clock; on a busy machine
// ten seconds by the clock would be nothing.
const (
	ownLimit  = 10 // seconds
	wallLimit = time.Minute
)

// Bench is a sound file with its sheet, in a directory.
type Bench struct {
	dir     string
	data    []byte
	command func(ctx context.Context, args ...string) *exec.Cmd
}

// NewBench builds a database, its sheet and the list of cases. command starts a
// process that runs Child with the arguments.
func NewBench(dir string, seed uint64, command func(ctx context.Context, args ...string) *exec.Cmd) (*Bench, []Case, int, error) {
	b := &Bench{dir: dir, command: command}
	path := filepath.Join(dir, "sound.anndb")
	if err := Build(path, seed); err != nil {
		return nil, nil, 0, err
	}
	sheet, err := NewSheet(path, seed)
	if err == nil {
		err = sheet.Write(b.sheet())
	}
	if err != nil {
		return nil, nil, 0, err
	}
	if b.data, err = os.ReadFile(path); err != nil {
		return nil, nil, 0, err
	}
	cases, pages, err := Cases(path, b.data, seed)
	return b, cases, pages, err
}

func (b *Bench) sheet() string { return filepath.Join(b.dir, "sheet.json") }

// Try tries all cases on the given number of processes at a time, and hands
// every verdict to done, which is not called at the same time. An error is one
// of the bench.
func (b *Bench) Try(ctx context.Context, cases []Case, workers int, done func(Case, Verdict)) error {
	var next atomic.Int64
	var mu sync.Mutex
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			path := filepath.Join(b.dir, fmt.Sprintf("damaged-%d.anndb", w))
			if errs[w] = os.WriteFile(path, b.data, 0o600); errs[w] != nil {
				return
			}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(cases) {
					return
				}
				v, err := b.try(ctx, path, cases[i])
				if err != nil {
					errs[w] = fmt.Errorf("%v: %w", cases[i], err)
					return
				}
				mu.Lock()
				done(cases[i], v)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// try damages the file, asks, and mends it.
func (b *Bench) try(ctx context.Context, path string, c Case) (v Verdict, err error) {
	args := []string{b.sheet(), path}
	switch c.How {
	case "flip":
		err = b.write(path, c.At, []byte{b.data[c.At] ^ 1<<c.Bit})
		defer func() { err = errors.Join(err, b.write(path, c.At, b.data[c.At:c.At+1])) }()
	case "short":
		err = os.Truncate(path, c.At)
		defer func() { err = errors.Join(err, b.write(path, c.At, b.data[c.At:])) }()
	case "cut":
		args = append(args, fmt.Sprint(c.At))
		defer func() { err = errors.Join(err, b.write(path, c.At, b.data[c.At:])) }()
	}
	if err != nil {
		return v, err
	}
	short, stop := context.WithTimeout(ctx, wallLimit)
	defer stop()
	cmd := b.command(short, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	failure := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case short.Err() != nil || bytes.Contains(stderr.Bytes(), []byte("SIGXCPU")):
		v = Verdict{Outcome: Hung}
	case json.Unmarshal(stdout.Bytes(), &v) != nil || failure != nil:
		v = Verdict{Outcome: Died, Detail: fmt.Sprintf("%v: %.1500s%.500s", failure, stderr.Bytes(), stdout.Bytes())}
	case c.Used && !v.Checked && (v.Outcome == Right || v.Outcome == UseError):
		v.Outcome = Missed
	}
	return v, nil
}

func (b *Bench) write(path string, at int64, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, at)
	return errors.Join(err, f.Close())
}
