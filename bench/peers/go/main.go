// Command gopeers runs the Go libraries that people use instead, as a child of
// the benchmarks (package child says how). It is a module of its own, so that
// anndb does not depend on them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/bench/child"
)

// library is one of the peers.
type library interface {
	build(ctx context.Context, base *child.Rows, o child.Words, threads int) error
	save(path string) error
	open(path string) error
	set(o child.Words) error
	// search appends the numbers of the k nearest rows to dst.
	search(q []float32, k int, dst []uint32) ([]uint32, error)
}

// engine is the library that the word library names.
type engine struct {
	library
	found []uint32
}

func (e *engine) take(o child.Words) error {
	switch o["library"] {
	case "coder":
		e.library = &coder{}
	case "chromem":
		e.library = &chromem{}
	default:
		return fmt.Errorf("unknown library %q", o["library"])
	}
	return nil
}

// About is the versions of the libraries.
func (e *engine) About() string {
	var out []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.Contains(d.Path, "coder/hnsw") || strings.Contains(d.Path, "chromem-go") {
				out = append(out, d.Path+" "+d.Version)
			}
		}
	}
	return strings.Join(out, " ")
}

// Build builds with the library that the words name.
func (e *engine) Build(ctx context.Context, base *child.Rows, o child.Words, threads int) error {
	if base.F32 == nil {
		return errors.New("rows must be float32")
	}
	if err := e.take(o); err != nil {
		return err
	}
	return e.build(ctx, base, o, threads)
}

// Save writes the library's own file.
func (e *engine) Save(path string) error { return e.save(path) }

// Open reads it.
func (e *engine) Open(path string, _ int, o child.Words) error {
	if err := e.take(o); err != nil {
		return err
	}
	return e.open(path)
}

// Set passes the setting on.
func (e *engine) Set(o child.Words) error { return e.set(o) }

// Search asks the library.
func (e *engine) Search(q *child.Rows, i, k int) (err error) {
	e.found, err = e.search(q.Float32(i), k, e.found[:0])
	return err
}

// Take gives the answers.
func (e *engine) Take(ids []uint32) {
	for i := range ids {
		ids[i] = child.Missing
		if i < len(e.found) {
			ids[i] = e.found[i]
		}
	}
}

// Batch answers all queries on that many goroutines.
func (e *engine) Batch(q *child.Rows, k, threads int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, threads)
	for t := range threads {
		wg.Go(func() {
			var found []uint32
			for i := int(next.Add(1)) - 1; i < q.N && errs[t] == nil; i = int(next.Add(1)) - 1 {
				found, errs[t] = e.search(q.Float32(i), k, found[:0])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close has nothing to do.
func (e *engine) Close() error { return nil }

func main() {
	if len(os.Args) == 3 && os.Args[1] == "texts" {
		serveTexts(os.Args[2])
		return
	}
	core := 0
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, "gopeers:", err)
			os.Exit(2)
		}
		core = n
	}
	if err := child.Serve(&engine{}, core, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gopeers:", err)
		os.Exit(1)
	}
}

func serveTexts(library string) {
	e := textEngine(library)
	if e == nil {
		fmt.Fprintf(os.Stderr, "gopeers: unknown library %q of texts\n", library)
		os.Exit(2)
	}
	if err := child.ServeTexts(context.Background(), e, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gopeers:", err)
		os.Exit(1)
	}
}
