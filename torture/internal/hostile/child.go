package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/ask"
)

// Task is what a child process is told.
type Task struct {
	Sound, Dir string // directories of the sound files, and of its own
	Seed       uint64
	From, To   int    // numbers of mutants; From -1 is the sound files themselves
	Limit      uint64 // bytes of memory that it may hold, 0 for any number
}

// Limits of a call: of processor time, and by the clock, for a call that waits.
const (
	cpuLimit   = 10 * time.Second
	clockLimit = 5 * time.Minute
)

// exit codes of a child that watched itself.
const watched = 3

// Child makes mutants and calls. It writes a line for each mutant, for whatever
// went wrong, and at the end what memory it held at most.
func Child(args []string) error {
	var t Task
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return err
	}
	debug.SetTraceback("single")
	w := &watch{limit: t.Limit}
	go w.run()
	known := map[string][]ask.Collection{}
	for _, name := range Names {
		colls, err := describe(filepath.Join(t.Sound, name))
		if err != nil {
			return err
		}
		known[name] = colls
	}
	for i := t.From; i < t.To; i++ {
		if err := one(&t, w, known, i); err != nil {
			return fmt.Errorf("mutant %d: %w", i, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Printf("held %d\n", w.most)
	return nil
}

// describe lists what there is to ask of a sound file.
func describe(path string) (colls []ask.Collection, err error) {
	d, err := db.Open(context.Background(), path, &db.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	err = d.View(func(s *db.Snapshot) error {
		colls, err = ask.Describe(s, 1, 3, 2, 2)
		return err
	})
	return colls, err
}

// one makes mutant i, or asks all sound files if i is negative.
func one(t *Task, w *watch, known map[string][]ask.Collection, i int) error {
	names := Names
	if i >= 0 {
		names = Names[i%len(Names):][:1]
	}
	for _, name := range names {
		rng := rand.New(rand.NewPCG(t.Seed, uint64(i+1)))
		path := filepath.Join(t.Dir, "mutant")
		data, err := os.ReadFile(filepath.Join(t.Sound, name))
		if err = errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
			return err
		}
		w.say("making", "%d of %s", i, name)
		mutant := Mutant{What: "unchanged"}
		if i >= 0 {
			if mutant, err = Mutate(path, rng); err != nil {
				return err
			}
		}
		w.say("mutant", "%d of %s: %.400s", i, name, mutant.What)
		c := &caller{w: w, ctx: context.Background(), dir: t.Dir, path: path, name: name, rng: rng, mutant: mutant, colls: known[name],
			asked: ask.Questions(known[name])}
		rounds := 1
		if i < 0 {
			rounds = 8 // so that every call is made
		}
		for range rounds {
			c.all()
		}
		w.say("did", "%d %d %d", c.did.Answered, c.did.Compared, c.did.Errors)
		debug.FreeOSMemory()
	}
	return nil
}

// watch looks after the call under way.
type watch struct {
	mu    sync.Mutex
	call  string
	since time.Time
	cpu   time.Duration
	limit uint64
	most  uint64
}

func (w *watch) begin(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call, w.since, w.cpu = name, time.Now(), processorTime()
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = ""
}

// say writes a line, in which control characters are dots.
func (w *watch) say(what, format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '.'
		}
		return r
	}, fmt.Sprintf(format, args...))
	fmt.Printf("%s %s\n", what, text)
}

// run ends the process where a call takes too long or the process holds too much.
func (w *watch) run() {
	for {
		time.Sleep(20 * time.Millisecond)
		held := resident()
		w.mu.Lock()
		w.most = max(w.most, held)
		call, limit := w.call, w.limit
		var took, clock time.Duration
		if call != "" {
			took, clock = processorTime()-w.cpu, time.Since(w.since)
		}
		w.mu.Unlock()
		switch {
		case limit > 0 && held > limit:
			w.die("memory", fmt.Sprintf("%s: %d MiB", call, held>>20))
		case took > cpuLimit || clock > clockLimit:
			w.die("hang", fmt.Sprintf("%s: %v of processor time, %v by the clock", call, took, clock))
		}
	}
}

// die says why and where.
func (w *watch) die(what, why string) {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	w.say(what, "%s", why)
	fmt.Fprintf(os.Stderr, "%s %s\n%s\n", what, why, b.String())
	os.Exit(watched)
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is how much memory of its own the process holds: maps of files are
// not.
func resident() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, rss, shared uint64
	if _, err := fmt.Sscan(string(data), &size, &rss, &shared); err != nil || shared > rss {
		return 0
	}
	return (rss - shared) * uint64(os.Getpagesize())
}
