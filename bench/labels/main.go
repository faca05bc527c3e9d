// Command labels compares all kinds of label models, liblinear and the papers' figures on public sets. All are
// tuned on training rows only, for the same measure.
//
//	bench/peers/liblinear/build
//	go run ./bench/labels -data ../shared/data -sets medical,enron
//	go run ./bench/labels -data ../shared/data -print
//
// Each model is learned by a process of its own. Results are kept in the folder -out, one JSON line each, and
// what is there is not measured again.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/query/lcif"
)

// config is the command line.
type config struct {
	data, out, peers          string
	sets, systems, objectives string
	format                    string
	timeout                   time.Duration
	printOnly                 bool
	child                     string // the job of a child process, in JSON
}

// job is one measurement. The system load writes the training rows of a set into a file.
type job struct{ Set, System, Objective string }

func main() {
	var c config
	flag.StringVar(&c.data, "data", os.Getenv("ANNDB_DATA"), "folder of the data sets")
	flag.StringVar(&c.out, "out", "bench/out/labels", "folder of results and of files")
	flag.StringVar(&c.peers, "peers", "bench/peers/bin", "folder of the built peers")
	flag.StringVar(&c.sets, "sets", strings.Join(setNames(), ","), "sets to measure on")
	flag.StringVar(&c.systems, "systems", strings.Join(systemNames(), ","), "systems to measure")
	flag.StringVar(&c.objectives, "objectives", lcif.MicroF1.String(), "measures to tune for, each on its own")
	flag.StringVar(&c.format, "format", "markdown", "of the table: table, markdown, csv, json")
	flag.DurationVar(&c.timeout, "timeout", time.Hour, "the longest time of one measurement")
	flag.BoolVar(&c.printOnly, "print", false, "print what has been measured")
	flag.StringVar(&c.child, "child", "", "measure one job and print the result; for the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "labels:", err)
		os.Exit(1)
	}
}

func (c *config) run(ctx context.Context) error {
	if c.child != "" {
		var j job
		if err := json.Unmarshal([]byte(c.child), &j); err != nil {
			return err
		}
		r, err := c.measure(ctx, j)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	if err := os.MkdirAll(c.out, 0o777); err != nil {
		return err
	}
	known, err := readResults(c.results())
	if err != nil {
		return err
	}
	for _, j := range c.jobs() {
		if c.printOnly || slices.ContainsFunc(known, func(r result) bool { return r.job == j }) {
			continue
		}
		r, err := c.start(ctx, j)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "*** SKIPPED %s on %s: %v\n", j.System, j.Set, err)
			continue
		}
		known = append(known, *r)
		if err := r.append(c.results()); err != nil {
			return err
		}
	}
	return c.print(os.Stdout, known)
}

// jobs lists what is measured, set by set.
func (c *config) jobs() (out []job) {
	for _, set := range strings.Split(c.sets, ",") {
		for _, objective := range strings.Split(c.objectives, ",") {
			for _, system := range strings.Split(c.systems, ",") {
				out = append(out, job{set, system, objective})
			}
		}
	}
	return out
}

func (c *config) results() string { return filepath.Join(c.out, "results.jsonl") }

// rowsFile is the file with the training rows of a set.
func (c *config) rowsFile(set string) string { return filepath.Join(c.out, set+".anndb") }

// start runs a job in a process of its own, after that which writes the training rows.
func (c *config) start(ctx context.Context, j job) (*result, error) {
	if _, err := os.Stat(c.rowsFile(j.Set)); errors.Is(err, os.ErrNotExist) && j.System != loadRows {
		if _, err := c.start(ctx, job{Set: j.Set, System: loadRows}); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-data", c.data, "-out", c.out, "-peers", c.peers, "-child", string(text))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format(time.TimeOnly), j.Set, j.System)
	if err := cmd.Run(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	r := new(result)
	return r, json.Unmarshal(out.Bytes(), r)
}

// measure runs a job in this process.
func (c *config) measure(ctx context.Context, j job) (*result, error) {
	s, err := readSet(ctx, c.data, j.Set)
	if err != nil {
		return nil, err
	}
	if j.System == loadRows {
		return &result{job: j}, s.load(ctx, c.rowsFile(j.Set))
	}
	var objective lcif.Objective
	if err := objective.UnmarshalText([]byte(j.Objective)); err != nil {
		return nil, err
	}
	r := &result{job: j}
	if j.System == peerName {
		driver, err := liblinear.Start(ctx, c.peers)
		if err != nil {
			return nil, err
		}
		return r, errors.Join(s.measurePeer(driver, objective, r), driver.Close())
	}
	return r, s.measureModel(ctx, c.rowsFile(j.Set), objective, r)
}
