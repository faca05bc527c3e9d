package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/faultfs"
	"github.com/anndb/anndb/torture/internal/work"
)

// A session is a child process that holds a database open and does what it is
// told, step by step, so that its parent can do something between the steps. It
// is for databases on a mount that the parent serves: the parent itself must
// not touch that mount.

// order is what a session is to do.
type order struct {
	Do     string // "open", "look", "close", "fail" or a step; "batch" is the next one
	Path   string // of open
	Script work.Script
	NoSync bool
	Term   string // of fail: the gofail terms of the point Mark, empty for none
	Mark   string // looked up beside the database once the order has been carried out, or the point of fail
}

// answer is what became of an order.
type answer struct {
	Err string // empty if all went well
	// Typed says that the error wraps one of package db or of the system.
	Typed bool
	// Batches is how many batches the handle has seen acknowledged, or for look
	// how many there are.
	Batches int
	// Hits is how often a point has been passed since it was set, for fail.
	Hits int
}

// runSession is the child "session": a line of JSON for every order and answer.
func runSession([]string) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var s sessionState
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a := answer{}
		err := s.carryOut(o, &a)
		if o.Mark != "" && o.Do != "fail" {
			mark(s.path, o.Mark)
		}
		if err != nil {
			a.Err, a.Typed = err.Error(), typed(err)
		}
		if o.Do != "look" {
			a.Batches = s.batches
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// mark puts a mark into the record of the file system that the path is on.
func mark(path, name string) {
	_, _ = os.Lstat(filepath.Join(filepath.Dir(path), faultfs.MarkPrefix+name)) // it never exists
}

type sessionState struct {
	d       *db.DB
	script  work.Script
	path    string
	batches int
}

func (s *sessionState) carryOut(o order, a *answer) (err error) {
	ctx := context.Background()
	if s.d == nil && o.Do != "open" && o.Do != "fail" {
		return errors.New("no database is open")
	}
	switch o.Do {
	case "open":
		opts := work.Options()
		if o.NoSync {
			opts.NoSync = true
		}
		s.script, s.path, s.batches = o.Script, o.Path, 0
		if s.d, err = db.Open(ctx, o.Path, opts); err != nil {
			s.d = nil
			return err
		}
		s.batches, err = work.Batches(s.d)
	case "create":
		err = s.script.Create(ctx, s.d)
	case "batch":
		if err = s.script.Apply(ctx, s.d, s.batches); err == nil {
			s.batches++
		}
	case "look":
		a.Batches, err = s.script.VerifyDB(ctx, s.d)
	case "close":
		err = s.d.Close()
		s.d = nil
	case "fail":
		a.Hits, err = failpoint(o.Mark, o.Term)
	default:
		err = s.script.Step(ctx, s.d, o.Do)
	}
	return err
}

// sentinels are the errors that db promises to wrap.
var sentinels = []error{
	db.ErrClosed, db.ErrReadOnly, db.ErrCorrupt, db.ErrNotDatabase, db.ErrLocked, db.ErrUnknownState,
	db.ErrNoSpace, db.ErrExists, db.ErrNotFound, os.ErrNotExist,
}

func typed(err error) bool {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	var no syscall.Errno
	return errors.As(err, &no)
}

// session is the parent's end.
type session struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startSession starts a session, of another binary than this one if given.
func (e *env) startSession(ctx context.Context, binary string) (*session, error) {
	c := e.child(ctx, "session")
	if binary != "" {
		c.Path = binary
	}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &session{c, in, bufio.NewReader(out)}, c.Start()
}

// sessionLimit is how long an order may take: what takes longer hangs.
const sessionLimit = time.Minute

// errDied is the end of a session that was not asked for.
var errDied = errors.New("the process died or hung")

// order sends an order and waits for the answer.
func (s *session) order(o order) (a answer, err error) {
	limit := time.AfterFunc(sessionLimit, func() { _ = s.cmd.Process.Kill() }) // its death is the answer
	defer limit.Stop()
	if err := json.NewEncoder(s.in).Encode(o); err != nil {
		return a, fmt.Errorf("%w: %s: %w", errDied, o.Do, err)
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("%w: %s: %w", errDied, o.Do, err)
	}
	return a, json.Unmarshal(line, &a)
}

// must is order for what has no reason to fail.
func (s *session) must(o order) (answer, error) {
	a, err := s.order(o)
	if err == nil && a.Err != "" {
		err = fmt.Errorf("%s: %s", o.Do, a.Err)
	}
	return a, err
}

// end ends the session, whatever state it is in.
func (s *session) end() {
	_ = s.in.Close()
	limit := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer limit.Stop()
	_ = s.cmd.Wait() // what became of it is known from its answers
}
