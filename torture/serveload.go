package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/anndb/anndb/torture/internal/soak"
)

// serveLoad is an hour of the actors of the layer serve with pauses. What the server takes of the machine
// must level off, and be given back when all have ended. The samples are written to serve.csv next to the
// scratch directory, for it outlives the run.
func serveLoad(ctx context.Context, e *env) (t totals, err error) {
	if !e.full {
		return t, skipped("an hour's load is run with -scale full")
	}
	b := &served{t: &t, actors: users(e, &t)}
	if err := b.prepare(ctx, e); err != nil {
		return t, err
	}
	for _, a := range b.actors {
		if a.pause = 200 * time.Millisecond; a.reads {
			a.pause = 20 * time.Second // a browser is large
		}
	}
	s, err := b.start()
	if err != nil {
		return t, err
	}
	before, err := s.sample(0)
	if err != nil {
		return t, errors.Join(err, s.stop(syscall.SIGKILL))
	}
	begin := time.Now()
	acting, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	wait := s.act(acting)
	table := soak.Header + "\n"
	var samples []soak.Sample
	var times []time.Duration
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for acting.Err() == nil && err == nil && !s.broken.Load() {
		select {
		case <-acting.Done():
		case <-tick.C:
			var x soak.Sample
			times = append(times, s.searches()...)
			x, err = s.sample(time.Since(begin))
			samples, table = append(samples, x), table+x.CSV()+"\n"
			if len(samples)%60 == 0 {
				e.log.Print(x.CSV())
			}
		}
	}
	cancel()
	name := filepath.Join(filepath.Dir(filepath.Dir(e.dir)), "serve.csv")
	err = errors.Join(err, wait(), os.WriteFile(name, []byte(table), 0o600))
	if err == nil {
		err = errors.Join(s.released(before), soak.Levels(samples))
	}
	if slices.Sort(times); len(times) > 0 {
		t.add("searches", len(times))
		t.add("p50 µs", int(times[len(times)/2].Microseconds()))
		t.add("p99 µs", int(times[len(times)*99/100].Microseconds()))
	}
	t.add("steps", int(b.acked.Load()))
	t.add("samples", len(samples))
	if err = errors.Join(err, s.stop(syscall.SIGTERM)); err == nil {
		err = b.verify(ctx, false)
	}
	return t, err
}

// released waits until the process has no more descriptors and goroutines than before: connections of clients
// that have ended are closed.
func (s *server) released(before soak.Sample) error {
	var x soak.Sample
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if x, err = s.sample(0); err != nil {
			return err
		}
		if x.Descriptors <= before.Descriptors && x.Goroutines <= before.Goroutines {
			return nil
		}
	}
	return fmt.Errorf("after all clients the server has %d descriptors and %d goroutines, before them %d and %d",
		x.Descriptors, x.Goroutines, before.Descriptors, before.Goroutines)
}

// searches returns the times of searches since they were last looked at, in order.
func (s *server) searches() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.times)
	return s.times
}

// sample is what the process takes now.
func (s *server) sample(at time.Duration) (x soak.Sample, err error) {
	x.Seconds = at.Seconds()
	if times := s.searches(); len(times) > 0 {
		x.Median = float64(times[len(times)/2].Microseconds())
		x.Slow = float64(times[len(times)*99/100].Microseconds())
	}
	s.mu.Lock()
	s.times = nil
	s.mu.Unlock()
	proc := fmt.Sprintf("/proc/%d/", s.process.Process.Pid)
	var err1 error
	x.Anonymous, x.Mapped, err1 = soak.Resident(proc + "status")
	fds, err2 := os.ReadDir(proc + "fd")
	file, err3 := os.Stat(s.file)
	if err := errors.Join(err1, err2, err3); err != nil {
		return x, err
	}
	x.Descriptors, x.File = len(fds), file.Size()
	alone := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := alone.Get(s.url + "/metrics")
	if err != nil {
		return x, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	_, rest, _ := strings.Cut(string(text), "\ngo_goroutines ")
	if _, none := fmt.Sscan(rest, &x.Goroutines); none != nil {
		err = errors.Join(err, fmt.Errorf("no goroutines in the metrics: %w", none))
	}
	return x, err
}
