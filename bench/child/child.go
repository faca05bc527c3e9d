// Package child is the measured side of the benchmarks: a process that holds
// one library and answers commands on standard input, one answer line each on
// standard output. bench/peers/driver.h is the same protocol in C++.
//
//	info                                     ok <version and compile-time facts>
//	settings                                 ok <settings worth trying, one word each>
//	base PATH N DIM TYPE                     ok
//	queries SLOT PATH N DIM TYPE             ok
//	filter PATH                              ok
//	build THREADS name=value…                ok seconds=… [detail=…]
//	save PATH                                ok
//	open PATH DIM name=value…                ok
//	first PATH SLOT K name=value… -- name=value…   ok seconds=…
//	run SLOT K PASSES WARM LIMIT name=value…       ok N K PASSES [allocs=…] [work=…]
//	batch SLOT K THREADS name=value…         ok seconds=…
//	rss                                      ok rss=… own=…
//	quit                                     ok
//
// filter restricts searches to the rows whose bit is set in a file, lowest bit of the first byte
// first; - lifts that.
//
// TYPE is f32 or u8, rows in host byte order. The words of build and open are
// what the index is made with, those of run, batch and the second half of
// first are the setting of the search. first opens a saved index and answers
// one query; the time is that of both. run asks all queries of the slot (the
// first LIMIT if that is not zero) one by one on one thread that is pinned to a
// core: WARM passes without a clock, then PASSES with one around every query.
// After its line come N×K row numbers and PASSES×N times in nanoseconds, all
// of them uint32 in host byte order; the row number 0xffffffff stands for an
// answer that is missing. An answer that starts with error is a failure.
package child

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/anndb/anndb/bench/internal/process"
)

// Missing stands for an answer that was not found.
const Missing = ^uint32(0)

// Rows are the rows of a raw file; one of the two slices is set.
type Rows struct {
	N, Dim int
	F32    []float32
	U8     []byte
}

// Float32 is row i; it is nil for rows of bytes.
func (r *Rows) Float32(i int) []float32 {
	if r.F32 == nil {
		return nil
	}
	return r.F32[i*r.Dim : (i+1)*r.Dim : (i+1)*r.Dim]
}

// Words are options of the form name=value.
type Words map[string]string

// Int is the whole number of that name, or otherwise.
func (w Words) Int(name string, otherwise int) (int, error) {
	s, ok := w[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("option %s: %w", name, err)
	}
	return n, nil
}

// Engine is what a child does with its library.
type Engine interface {
	// About is the version and what else a table should say, in one line.
	About() string
	// Build makes an index of the rows.
	Build(ctx context.Context, base *Rows, o Words, threads int) error
	// Save writes the index that Build made to a file.
	Save(path string) error
	// Open opens a saved index, made with the words o.
	Open(path string, dim int, o Words) error
	// Set takes a setting of the search.
	Set(o Words) error
	// Search finds the k rows nearest to query i of q and keeps them; it is
	// what is timed. Take then writes their numbers to ids.
	Search(q *Rows, i, k int) error
	Take(ids []uint32)
	// Batch answers all queries on that many threads.
	Batch(q *Rows, k, threads int) error
	// Close gives the index up.
	Close() error
}

// A Detailer also says where the time of a build went, in one word.
type Detailer interface{ Detail() string }

// A Worker counts what searches do: Work is the mean over those whose answers
// were taken since it was called last, in one word.
type Worker interface{ Work() string }

// A Filterer restricts searches to the rows whose bit is set in bytes of eight rows each, lowest
// bit first; nil lifts that.
type Filterer interface{ Filter(bits []byte) error }

// A Tuned engine knows settings that are worth trying once an index is open.
// Each is one word name=value.
type Tuned interface{ Settings() ([]string, error) }

var errCommand = errors.New("bad command")

// server is one child's state.
type server struct {
	engine  Engine
	core    int
	base    *Rows
	queries map[string]*Rows
	out     *bufio.Writer
}

// Serve answers commands from in on out until quit or the end of in. Searches
// run on the given core.
func Serve(e Engine, core int, in io.Reader, out io.Writer) error {
	s := &server{engine: e, core: core, queries: map[string]*Rows{}, out: bufio.NewWriterSize(out, 1<<20)}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		answer, err := s.do(words[0], words[1:])
		switch {
		case err != nil:
			fmt.Fprintf(s.out, "error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		case answer != "":
			fmt.Fprintf(s.out, "ok %s\n", answer)
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
		if words[0] == "quit" {
			return e.Close()
		}
	}
	return errors.Join(lines.Err(), e.Close())
}

// do runs one command. An empty answer was written already.
func (s *server) do(command string, args []string) (string, error) {
	ctx := context.Background()
	switch command {
	case "info":
		return s.engine.About(), nil
	case "settings":
		if t, ok := s.engine.(Tuned); ok {
			list, err := t.Settings()
			return " " + strings.Join(list, " "), err
		}
		return " ", nil
	case "base":
		r, err := load(args)
		s.base = r
		return " ", err
	case "queries":
		if len(args) < 1 {
			return "", errCommand
		}
		r, err := load(args[1:])
		s.queries[args[0]] = r
		return " ", err
	case "filter":
		f, ok := s.engine.(Filterer)
		if !ok || len(args) != 1 {
			return "", fmt.Errorf("%w: searches take no filter", errCommand)
		}
		var bits []byte
		if args[0] != "-" {
			var err error
			if bits, err = os.ReadFile(args[0]); err != nil {
				return "", err
			}
		}
		return " ", f.Filter(bits)
	case "build":
		threads, words, err := numbers(args, 1)
		if err != nil || s.base == nil {
			return "", errors.Join(errCommand, err)
		}
		start := time.Now()
		err = s.engine.Build(ctx, s.base, words, threads[0])
		answer := seconds(start)
		if d, ok := s.engine.(Detailer); ok && err == nil {
			answer += " detail=" + d.Detail()
		}
		return answer, err
	case "save":
		if len(args) != 1 {
			return "", errCommand
		}
		return " ", s.engine.Save(args[0])
	case "open":
		if len(args) < 2 {
			return "", errCommand
		}
		dim, words, err := numbers(args[1:], 1)
		if err != nil {
			return "", err
		}
		return " ", s.engine.Open(args[0], dim[0], words)
	case "first":
		return s.first(args)
	case "run":
		return "", s.run(args)
	case "batch":
		q, args, err := s.slot(args)
		if err != nil {
			return "", err
		}
		n, words, err := numbers(args, 2)
		if err != nil {
			return "", err
		}
		if err := s.engine.Set(words); err != nil {
			return "", err
		}
		start := time.Now()
		err = s.engine.Batch(q, n[0], n[1])
		return seconds(start), err
	case "rss":
		var queries int64 // which are not the library's, and are read into memory
		for _, q := range s.queries {
			queries += int64(len(q.F32)*4 + len(q.U8))
		}
		return fmt.Sprintf("rss=%d own=%d", process.Resident()-queries, process.Anonymous()-queries), nil
	case "quit":
		return " ", nil
	}
	return "", fmt.Errorf("%w: %s", errCommand, command)
}

func (s *server) first(args []string) (string, error) {
	if len(args) < 3 {
		return "", errCommand
	}
	q, rest, err := s.slot(args[1:])
	if err != nil {
		return "", err
	}
	made, setting := rest, []string(nil)
	for i, w := range rest {
		if w == "--" {
			made, setting = rest[:i], rest[i+1:]
		}
	}
	k, open, err := numbers(made, 1)
	if err != nil {
		return "", err
	}
	_, set, err := numbers(setting, 0)
	if err != nil {
		return "", err
	}
	start := time.Now()
	if err := s.engine.Open(args[0], q.Dim, open); err != nil {
		return "", err
	}
	if err := s.engine.Set(set); err != nil {
		return "", err
	}
	err = s.engine.Search(q, 0, k[0])
	return seconds(start), err
}

func (s *server) run(args []string) error {
	q, args, err := s.slot(args)
	if err != nil {
		return err
	}
	n, words, err := numbers(args, 4)
	if err != nil {
		return err
	}
	k, passes, warm, limit := n[0], n[1], n[2], n[3]
	if err := s.engine.Set(words); err != nil {
		return err
	}
	asked := q.N
	if limit > 0 {
		asked = min(asked, limit)
	}
	ids, ns := make([]uint32, asked*k), make([]uint32, passes*asked)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	release, err := pin(s.core)
	if err != nil {
		return err
	}
	defer release()
	for range warm {
		for i := range asked {
			if err := s.engine.Search(q, i, k); err != nil {
				return err
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for p := range passes {
		for i := range asked {
			start := time.Now()
			err := s.engine.Search(q, i, k)
			ns[p*asked+i] = uint32(min(time.Since(start).Nanoseconds(), 0xfffffffe))
			if err != nil {
				return err
			}
			s.engine.Take(ids[i*k : (i+1)*k])
		}
	}
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / float64(max(1, passes*asked))
	answer := fmt.Sprintf("ok %d %d %d allocs=%.4f", asked, k, passes, allocs)
	if w, ok := s.engine.(Worker); ok {
		answer += " work=" + w.Work()
	}
	fmt.Fprintln(s.out, answer)
	return errors.Join(binary.Write(s.out, binary.NativeEndian, ids), binary.Write(s.out, binary.NativeEndian, ns))
}

func (s *server) slot(args []string) (*Rows, []string, error) {
	if len(args) == 0 || s.queries[args[0]] == nil {
		return nil, nil, fmt.Errorf("%w: no such queries", errCommand)
	}
	return s.queries[args[0]], args[1:], nil
}

// numbers reads n whole numbers and then words.
func numbers(args []string, n int) ([]int, Words, error) {
	if len(args) < n {
		return nil, nil, errCommand
	}
	out := make([]int, n)
	for i := range out {
		v, err := strconv.Atoi(args[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errCommand, err)
		}
		out[i] = v
	}
	words := Words{}
	for _, w := range args[n:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return nil, nil, fmt.Errorf("option without a value: %s", w)
		}
		words[name] = value
	}
	return out, words, nil
}

func seconds(start time.Time) string {
	return fmt.Sprintf("seconds=%.6f", time.Since(start).Seconds())
}

// load reads a raw file: PATH N DIM TYPE.
func load(args []string) (*Rows, error) {
	if len(args) != 4 {
		return nil, errCommand
	}
	n, _, err := numbers(args[1:3], 2)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return nil, err
	}
	r := &Rows{N: n[0], Dim: n[1]}
	width := 4
	if args[3] == "u8" {
		width = 1
	}
	if len(data) != r.N*r.Dim*width || r.N < 1 || r.Dim < 1 {
		return nil, fmt.Errorf("%s has another length than announced", args[0])
	}
	if width == 1 {
		r.U8 = data
	} else {
		r.F32 = unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
	}
	return r, nil
}
