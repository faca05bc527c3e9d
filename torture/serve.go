package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/torture/internal/work"
)

// served is a file that processes of `anndb serve` serve, one after the other, and the programs that use it.
type served struct {
	program, file string // the command line, the database
	actors        []*actor
	acked         atomic.Int64 // steps of all actors
	t             *totals
	want          []string // the library's answers on the closed file, of which the server must give the same
}

// The file has one collection: rows that stay, and those of the actors.
const (
	servedName = "served"
	servedPath = "/v1/files/" + servedName
	servedColl = "notes"
	servedRows = 1000
)

// serveFile serves a file to programs of several kinds at once, which write, and ends the server at counts
// of what it has acknowledged: by SIGTERM, by SIGKILL, or by SIGTERM after the programs. At full scale that
// takes ten minutes.
func serveFile(ctx context.Context, e *env) (t totals, err error) {
	b := &served{t: &t, actors: users(e, &t)}
	if err := b.prepare(ctx, e); err != nil {
		return t, err
	}
	end := time.Now().Add(10 * time.Minute)
	for i := 0; i < 6 || e.full && time.Now().Before(end); i++ {
		rng := e.rng(i)
		if err := b.round(ctx, i, 20+rng.IntN(e.pick(60, 1500))); err != nil {
			return t, fmt.Errorf("round %d: %w", i, err)
		}
		e.log.Printf("round %d: %s", i, t)
	}
	for _, a := range b.actors {
		t.add("steps of "+a.name, a.last)
	}
	return t, b.control(ctx)
}

// prepare builds the command line and makes the file.
func (b *served) prepare(ctx context.Context, e *env) error {
	source, err := module(ctx)
	if err != nil {
		return skipped("no source to build the command line from: %v", err)
	}
	b.program = filepath.Join(e.dir, "anndb")
	if err := goCommand(ctx, filepath.Dir(source), "build", "-o", b.program, "./cmd/anndb"); err != nil {
		return err
	}
	dir, err := e.sub("file")
	if err != nil {
		return err
	}
	b.file = filepath.Join(dir, servedName+".anndb")
	d, err := db.Open(ctx, b.file, work.Options())
	if err != nil {
		return err
	}
	c, err := d.Create(ctx, servedColl, db.Schema{Text: &text.Schema{}, Dim: 4})
	if err == nil {
		rng := e.rng("rows")
		rows := make([]db.Row, servedRows)
		for i := range rows {
			topic := rng.IntN(3)
			rows[i] = db.Row{
				Key: fmt.Appendf(nil, "row-%d", i), Labels: []string{fmt.Sprint("topic", topic)},
				Text:   fmt.Sprintf("word%d word%d word%d", topic*10+rng.IntN(10), topic*10+rng.IntN(10), rng.IntN(30)),
				Vector: []float32{rng.Float32(), rng.Float32(), rng.Float32(), rng.Float32()},
			}
		}
		_, err = c.Load(ctx, sent(rows...), nil)
	}
	for _, x := range []struct {
		name    string
		options index.Options
	}{{"words", &index.Postings{}}, {"near", &index.Forest{}}, {"labels", &index.LCIF{}}} {
		if err == nil {
			_, err = c.Build(ctx, x.name, x.options, nil)
		}
	}
	if err == nil {
		b.want, err = answersOf(ctx, c)
	}
	return errors.Join(err, d.Close())
}

// round starts a server, lets the actors work until a number of steps is acknowledged, ends it and verifies.
func (b *served) round(ctx context.Context, i, steps int) error {
	s, err := b.start()
	if err != nil {
		return err
	}
	err = s.compare(ctx)
	before, err2 := s.sample(0)
	err = errors.Join(err, err2)
	acting, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := s.act(acting)
	if err == nil {
		err = s.until(ctx, b.acked.Load()+int64(steps))
	}
	signal := syscall.SIGTERM
	switch i % 3 {
	case 0:
		b.t.add("ended", 1)
	case 1:
		signal = syscall.SIGKILL
		b.t.add("killed", 1)
	case 2: // the actors first
		cancel()
		err = errors.Join(err, wait())
		wait = func() error { return nil }
		if err == nil {
			_, err = processed("", s.program, "check", s.file)
		}
		if err == nil {
			err = s.released(before)
		}
		b.t.add("idle", 1)
	}
	err = errors.Join(err, s.stop(signal))
	cancel()
	if err = errors.Join(err, wait()); err == nil {
		err = b.verify(ctx, signal == syscall.SIGKILL)
	}
	b.t.add("pages", int(s.pages.Load()))
	return err
}

// verify opens the file with the library: each actor must find its last acknowledged state there, or the one
// after it, nothing may be damaged, and nothing left over.
func (b *served) verify(ctx context.Context, killed bool) (err error) {
	names, err := filepath.Glob(filepath.Join(filepath.Dir(b.file), "*"))
	if err != nil {
		return err
	}
	if i := slices.Index(names, b.file+".sock"); killed && i >= 0 {
		names = slices.Delete(names, i, i+1) // the next server replaces it
	}
	if !slices.Equal(names, []string{b.file}) {
		return fmt.Errorf("left over: %q", names)
	}
	d, err := db.Open(ctx, b.file, work.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	c := d.Collection(servedColl)
	found := map[string]map[string]string{} // texts by actor and key
	for row, err := range c.Rows(ctx, nil) {
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(string(row.Key), "-")
		if found[name] == nil {
			found[name] = map[string]string{}
		}
		found[name][string(row.Key)] = row.Text
	}
	if n := len(found["row"]); n != servedRows {
		return fmt.Errorf("%d rows that nothing changes, want %d", n, servedRows)
	}
	for _, a := range b.actors {
		last, next := a.state(a.last), a.state(a.last+1)
		switch got := found[a.name]; {
		case maps.Equal(got, last):
		case maps.Equal(got, next):
			a.last++
			b.t.add("found beyond acknowledged", 1)
		default:
			return fmt.Errorf("%d steps of %s are acknowledged and %w: its rows are %v, want %v",
				a.last, a.name, errLost, got, last)
		}
	}
	if b.want, err = answersOf(ctx, c); err != nil {
		return err
	}
	return work.Check(ctx, d)
}

// errLost is the error of acknowledged writes that are not there.
var errLost = errors.New("some are lost")

// control is the negative one: a client that counts rows as acknowledged when they are sent must be caught.
func (b *served) control(ctx context.Context) error {
	s, err := b.start()
	if err != nil {
		return err
	}
	c, err := client.New(b.file+".sock", nil)
	if err != nil {
		return errors.Join(err, s.stop(syscall.SIGKILL))
	}
	liar := &actor{name: "liar"}
	on, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.File(servedName).Collection(servedColl).Load(ctx, func(yield func(db.Row, error) bool) {
			first := liar.step(1)
			yield(db.Row{Key: []byte(first.keys[0]), Text: first.text}, nil)
			liar.last = 1
			close(on)
			<-s.gone // so that the server waits for the next row
		}, nil)
	}()
	<-on
	err = s.stop(syscall.SIGKILL)
	<-done
	c.Close()
	b.actors = append(b.actors, liar)
	if err == nil {
		if err = b.verify(ctx, true); errors.Is(err, errLost) {
			b.t.add("control caught", 1)
			return nil
		}
	}
	return fmt.Errorf("negative control: a row was counted before it was stored, and nothing missed: %w", err)
}

// asked is a collection of the library, or of a client.
type asked interface {
	Search(ctx context.Context, q db.Query, o *db.SearchOptions) (db.Result, error)
	Predict(ctx context.Context, q db.Query, o *db.PredictOptions) (db.Predictions, error)
	Count(ctx context.Context, f *filter.Filter) (int, error)
}

// answersOf asks for counts, rows and labels by all indexes, and returns the answers to the bit.
func answersOf(ctx context.Context, c asked) (out []string, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		label := filter.HasLabel(fmt.Sprint("topic", rng.IntN(3)))
		n, err1 := c.Count(ctx, label)
		q := db.Query{Text: fmt.Sprintf("writes word%d word%d", rng.IntN(30), rng.IntN(30))}
		ways := []string{"", db.Flat, "words"}
		p, err2 := c.Predict(ctx, q, &db.PredictOptions{Top: 3})
		vector := []float32{rng.Float32(), rng.Float32(), rng.Float32(), rng.Float32()}
		switch rng.IntN(3) {
		case 0:
			q, ways[2] = db.Query{Vector: vector}, "near"
		case 1:
			q.Vector, ways = vector, []string{"", db.Flat}
		}
		o := &db.SearchOptions{Index: ways[i%len(ways)], Include: db.Labels | db.Text}
		if i%2 == 0 {
			o.Where = label
		}
		found, err3 := c.Search(ctx, q, o)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%+v by %q: %w", q, o.Index, err)
		}
		line := fmt.Sprintf("%d rows", n)
		for _, h := range found.Hits {
			line += fmt.Sprintf(" %s %d %x %q %q", h.Key, h.Row, math.Float32bits(h.Distance), h.Labels, h.Text)
		}
		for _, l := range p.Labels {
			line += fmt.Sprintf(" %s %x %x", l.Label, math.Float32bits(l.Score), math.Float32bits(l.Probability))
		}
		out = append(out, line)
	}
	return out, nil
}

// server is a process of `anndb serve`.
type server struct {
	*served
	process *exec.Cmd
	url     string        // of the server
	gone    chan struct{} // closed when the process has ended
	alive   atomic.Bool   // until it gets a signal
	broken  atomic.Bool   // an actor has met an error
	pages   atomic.Int64

	mu     sync.Mutex
	times  []time.Duration // of searches of the Go client, since they were last looked at
	faults []string        // its records of errors
	failed error           // of the process
}

// start starts a server and waits until it listens.
func (b *served) start() (*server, error) {
	s := &server{served: b, gone: make(chan struct{})}
	s.process = exec.Command(b.program, "serve", b.file, "--listen", "127.0.0.1:0")
	messages, err := s.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	listens := make(chan string, 1)
	go func() {
		var said []string
		for in := bufio.NewScanner(messages); in.Scan(); said = append(said, in.Text()) {
			if url, ok := strings.CutPrefix(in.Text(), "listening at "); ok {
				listens <- url
			}
			if strings.Contains(in.Text(), "level=ERROR") || strings.Contains(in.Text(), "level=WARN") {
				s.mu.Lock()
				s.faults = append(s.faults, in.Text())
				s.mu.Unlock()
			}
		}
		if s.failed = s.process.Wait(); s.failed != nil {
			s.failed = fmt.Errorf("the server ended: %w: %q", s.failed, said)
		}
		close(s.gone)
	}()
	select {
	case s.url = <-listens:
		s.alive.Store(true)
		return s, nil
	case <-s.gone:
		return nil, cmp.Or(s.failed, errors.New("the server ended before it listened"))
	}
}

// stop sends a signal and waits for the end.
func (s *server) stop(signal syscall.Signal) error {
	s.alive.Store(false)
	err := s.process.Process.Signal(signal)
	select {
	case <-s.gone:
	case <-time.After(time.Minute):
		_ = s.process.Process.Kill() // what it is ended by then does not count
		<-s.gone
		return fmt.Errorf("the server has not ended a minute after %v", signal)
	}
	if len(s.faults) > 0 {
		err = errors.Join(err, fmt.Errorf("records of the server: %q", s.faults))
	}
	if signal == syscall.SIGKILL {
		return err
	}
	return errors.Join(err, s.failed)
}

// act runs the actors until they end, and returns what waits for their errors.
func (s *server) act(ctx context.Context) (wait func() error) {
	errs := make(chan error, len(s.actors))
	for _, a := range s.actors {
		go func() {
			err := a.run(ctx, s)
			if err != nil {
				s.broken.Store(true)
			}
			errs <- err
		}()
	}
	return func() (err error) {
		for range s.actors {
			err = errors.Join(err, <-errs)
		}
		return err
	}
}

// until waits for a number of acknowledgements, or an error of an actor.
func (s *server) until(ctx context.Context, n int64) error {
	end := time.Now().Add(momentLimit)
	for ; s.acked.Load() < n && !s.broken.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d steps were acknowledged in %v, not %d", s.acked.Load(), momentLimit, n)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// timed runs a search and keeps its time.
func (s *server) timed(search func() error) error {
	begin := time.Now()
	err := search()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Since(begin))
	return err
}

// compare compares answers with those of the library, as long as maintenance has not changed the file.
func (s *server) compare(ctx context.Context) error {
	c, err := client.New(s.url, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := answersOf(ctx, c.File(servedName).Collection(servedColl))
	if err != nil {
		return err
	}
	if st, err := c.File(servedName).Stats(ctx); err != nil || st.Commits > 0 {
		return err
	}
	for i := range s.want {
		if got[i] != s.want[i] {
			return fmt.Errorf("answer %d: the server has %s, the library %s", i, got[i], s.want[i])
		}
	}
	s.t.add("answers compared", len(got))
	return nil
}
