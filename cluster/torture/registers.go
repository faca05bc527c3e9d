package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anndb/anndb/cluster/shardlog"
)

// registerCount is the number of registers of a round: rows that all actors read and write.
const registerCount = 4

// operation is one on a register; each write has another value.
type operation struct {
	key      string
	kind     string // "read", "write", "swap"
	old, new int    // a swap is of one value for another
}

// result is what came of an operation.
type result struct {
	outcome
	value int // that was read
}

// registers returns what an actor does with the registers of a round, with the token that all have.
func (a *actor) registers(round int) func(ctx context.Context) {
	return func(ctx context.Context) {
		op := operation{key: registerKey(a.s, round, a.rng.IntN(registerCount)), kind: "read"}
		read := a.operate(ctx, op, "")
		if read.outcome != done && read.code != "not_found" {
			_ = shardlog.Pause(ctx, 50*time.Millisecond)
			return
		}
		switch a.rng.IntN(3) {
		case 0:
			op.kind, op.new = "write", a.s.next()
		case 1:
			op.kind, op.old, op.new = "swap", read.value, a.s.next()
		default:
			return
		}
		out := a.operate(ctx, op, read.version)
		a.s.mu.Lock()
		a.s.counts[out.outcome]++
		a.s.mu.Unlock()
	}
}

func registerKey(s *story, round, i int) string {
	return fmt.Sprintf("%sreg-%d-%d", s.prefix, round, i)
}

// operate does an operation and notes it. version is that of the old value of a swap.
func (a *actor) operate(ctx context.Context, op operation, version string) answer {
	begun := time.Since(a.s.begun)
	var out answer
	next := newRow(op.key, op.new, "register")
	switch {
	case op.kind == "read":
		defer a.s.read(time.Now())
		out = a.do(ctx, http.MethodGet, rowPath(op.key), nil)
	case op.kind == "write":
		out = a.do(ctx, http.MethodPut, rowPath(op.key), next)
	case op.old == 0:
		out = a.do(ctx, http.MethodPut, rowPath(op.key), next, "If-None-Match", "*")
	default:
		out = a.do(ctx, http.MethodPut, rowPath(op.key), next, "If-Match", `"`+version+`"`)
	}
	res, ended := result{out.outcome, out.value}, int64(time.Since(a.s.begun))
	switch {
	case op.kind == "read" && out.code == "not_found":
		res.outcome = done
	case op.kind == "read" && out.outcome != done:
		return out
	case out.outcome == refused && out.code != "changed" && out.code != "exists":
		return out // it has changed nothing, and says nothing
	case out.outcome == unknown:
		ended = math.MaxInt64
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.ops = append(a.s.ops, porcupine.Operation{
		ClientId: a.id, Input: op, Call: int64(begun), Output: res, Return: ended,
	})
	if out.outcome == unknown { // it may be the last one
		if a.s.cells[op.key] == nil {
			a.s.cells[op.key] = &cell{}
		}
		a.s.cells[op.key].maybe = append(a.s.cells[op.key].maybe, op.new)
	}
	return out
}

// model is that of a register, whose value is 0 at first.
var model = porcupine.Model{
	Partition: func(list []porcupine.Operation) [][]porcupine.Operation {
		at := map[string]int{}
		var out [][]porcupine.Operation
		for _, o := range list {
			key := o.Input.(operation).key
			if _, ok := at[key]; !ok {
				at[key], out = len(out), append(out, nil)
			}
			out[at[key]] = append(out[at[key]], o)
		}
		return out
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		op, res, value := input.(operation), output.(result), state.(int)
		switch {
		case op.kind == "read":
			return res.value == value, value
		case op.kind == "write":
			return true, op.new
		case res.outcome == refused:
			return op.old != value, value
		case op.old == value:
			return true, op.new
		}
		return res.outcome == unknown, value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// linearizable checks the operations of a round, which it forgets, with the last reads.
func (s *story) linearizable() error {
	s.mu.Lock()
	ops := s.ops
	s.ops = nil
	s.mu.Unlock()
	verdict, info := porcupine.CheckOperationsVerbose(model, ops, time.Minute)
	if verdict == porcupine.Illegal {
		path := s.prefix + "registers.html"
		err := fmt.Errorf("%d operations on registers are no history of registers (%s)", len(ops), path)
		return errors.Join(err, porcupine.VisualizePath(model, info, path))
	}
	return nil // unknown: the search was given up
}
