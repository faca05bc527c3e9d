package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Solvers of liblinear: its -s.
const (
	dualL2   = 1 // L2-regularised squared hinge, dual coordinate descent
	primalL2 = 2 // the same, by a trust region Newton method
	primalL1 = 5 // L1-regularised squared hinge
)

// linear is a running driver of bench/peers/liblinear. Its calls are framed
// numbers in host byte order; driver.cpp says which.
type linear struct {
	in      *bufio.Writer
	out     *bufio.Reader
	pipe    io.Closer
	cmd     *exec.Cmd
	version string
	rows    int
}

// linearParams are those of one training run. Eps of zero is liblinear's own
// for the solver; Bias below zero means no offset, else the offset is the
// weight of a feature of that value, regularised like all.
type linearParams struct {
	solver       int
	c, eps, bias float64
	balanced     bool // cost factors n/(2·n_class)
}

// eps is what liblinear's own command takes for a solver.
func (p linearParams) epsilon() float64 {
	switch {
	case p.eps != 0:
		return p.eps
	case p.solver == dualL2:
		return 0.1
	}
	return 0.01
}

// startLinear starts the driver that stands in dir.
//
// Errors: errSkipped, with what to install, if it has not been built.
func startLinear(ctx context.Context, dir string) (*linear, error) {
	path := filepath.Join(dir, "liblinear")
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w liblinear: no %s (apt-get install g++ liblinear-dev; bench/peers/liblinear/build)", errSkipped, path)
	}
	l := &linear{cmd: exec.CommandContext(ctx, path)}
	in, out, err := child.Start(l.cmd)
	if err != nil {
		return nil, err
	}
	l.in, l.out, l.pipe = bufio.NewWriterSize(in, 1<<20), bufio.NewReaderSize(out, 1<<20), in
	l.version, err = l.text('V')
	return l, err
}

// Close ends the driver.
func (l *linear) Close() error {
	if err := l.pipe.Close(); err != nil {
		return err
	}
	return l.cmd.Wait()
}

// send writes a command's letter and its numbers; errors show when the answer
// is read.
func (l *linear) send(command byte, values ...any) error {
	if err := l.in.WriteByte(command); err != nil {
		return err
	}
	for _, v := range values {
		if err := binary.Write(l.in, binary.NativeEndian, v); err != nil {
			return err
		}
	}
	return l.in.Flush()
}

func (l *linear) get(values ...any) error {
	for _, v := range values {
		if err := binary.Read(l.out, binary.NativeEndian, v); err != nil {
			return fmt.Errorf("liblinear: %w", err)
		}
	}
	return nil
}

func (l *linear) text(command byte) (string, error) {
	if err := l.send(command); err != nil {
		return "", err
	}
	return l.string()
}

func (l *linear) string() (string, error) {
	var n uint64
	if err := l.get(&n); err != nil {
		return "", err
	}
	text := make([]byte, min(n, 1<<16))
	err := l.get(text)
	return string(text), err
}

// ok reads whether a training run succeeded.
func (l *linear) ok() error {
	var fine uint64
	if err := l.get(&fine); err != nil {
		return err
	}
	if fine == 1 {
		return nil
	}
	why, err := l.string()
	if err != nil {
		return err
	}
	return fmt.Errorf("liblinear: %s", why)
}

// load gives the driver the matrix that the next runs are about.
func (l *linear) load(x *vector.CSR) error {
	value := x.Value
	if value == nil {
		value = make([]float32, len(x.Index))
		for e := range value {
			value[e] = 1
		}
	}
	l.rows = x.Rows()
	if err := l.send('L', uint64(x.Rows()), uint64(x.Cols), x.Ptr, x.Index, value); err != nil {
		return err
	}
	var entries uint64
	return l.get(&entries)
}

func numbers(rows []int) []uint32 {
	out := make([]uint32, len(rows))
	for i, r := range rows {
		out[i] = uint32(r)
	}
	return out
}

// linearResult is one model's figures.
type linearResult struct {
	train, test float64 // seconds
	weights     uint64  // that are not zero
	values      []float64
}

// train learns the classes y (±1, of all rows of the matrix) from some rows and
// answers for others.
func (l *linear) train(p linearParams, y []int8, rows, test []int) (linearResult, error) {
	class := make([]int8, len(rows))
	var count [2]float64
	for i, r := range rows {
		class[i] = y[r]
		count[(y[r]+1)/2]++
	}
	factors := [2]float64{1, 1} // of class +1 and −1
	if p.balanced {
		n := count[0] + count[1]
		factors = [2]float64{n / (2 * count[1]), n / (2 * count[0])}
	}
	res := linearResult{values: make([]float64, len(test))}
	err := l.send('T', uint64(p.solver), p.c, p.epsilon(), p.bias, factors[0], factors[1],
		uint64(len(rows)), numbers(rows), class, uint64(len(test)), numbers(test))
	if err == nil {
		err = l.ok()
	}
	if err == nil {
		err = l.get(&res.train, &res.test, &res.weights, res.values)
	}
	return res, err
}

// wrong counts the rows to whose class a decision value does not point.
func (r linearResult) wrong(y []int8, test []int) int {
	n := 0
	for i, v := range r.values {
		if (v > 0) != (y[test[i]] > 0) {
			n++
		}
	}
	return n
}

// choose is the cost with the fewest errors in cross-validation; ties go to
// the smaller.
func (l *linear) choose(p linearParams, y []int8, rows []int, costs []float64, folds int) (linearParams, error) {
	parts, err := labels.KFold(len(rows), folds, 0)
	if err != nil {
		return p, err
	}
	best, least := p, len(rows)+1
	for _, c := range costs {
		p.c = c
		wrong := 0
		for _, f := range parts {
			test := pick(rows, f.Test)
			got, err := l.train(p, y, pick(rows, f.Train), test)
			if err != nil {
				return p, err
			}
			wrong += got.wrong(y, test)
		}
		if wrong < least {
			best, least = p, wrong
		}
	}
	return best, nil
}

func pick(rows, at []int) []int {
	chosen := make([]int, len(at))
	for i, k := range at {
		chosen[i] = rows[k]
	}
	return chosen
}

// setsResult is one-against-rest's answers.
type setsResult struct {
	train, test float64 // seconds
	weights     uint64
	sets        *labels.Matrix // labels above zero
	scores      *vector.CSR    // the k best labels, by falling scores k, k − 1, …, 1
}

// relevance trains one model a label against the rest (binary relevance) and
// answers for the test rows, with the k best labels of each. Only labels below
// limit are trained, if that is not zero.
func (l *linear) relevance(p linearParams, y *labels.Matrix, rows, test []int, k, limit int) (setsResult, error) {
	var res setsResult
	place := make([]int32, l.rows)
	for i := range place {
		place[i] = -1
	}
	for i, r := range rows {
		place[r] = int32(i)
	}
	n := y.Labels()
	ptr := make([]uint64, 1, n+1)
	var positive []uint32
	for label := range n {
		if limit == 0 || label < limit {
			for _, r := range y.Column(label) {
				if i := place[r]; i >= 0 {
					positive = append(positive, uint32(i))
				}
			}
		}
		ptr = append(ptr, uint64(len(positive)))
	}
	err := l.send('M', uint64(p.solver), p.c, p.epsilon(), p.bias, 1.0, 1.0,
		uint64(n), uint64(len(rows)), numbers(rows), ptr, positive, uint64(len(test)), numbers(test), uint64(k))
	if err == nil {
		err = l.ok()
	}
	if err == nil {
		err = l.get(&res.train, &res.test, &res.weights)
	}
	if err != nil {
		return res, err
	}
	sets := make([][]uint32, len(test))
	res.scores = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: n}
	for i := range sets {
		var count uint64
		if err := l.get(&count); err != nil {
			return res, err
		}
		sets[i] = make([]uint32, count)
		best := make([]uint32, k)
		if err := l.get(sets[i], best); err != nil {
			return res, err
		}
		res.scores.Append(ranking(best))
	}
	res.sets, err = labels.FromSets(sets, n)
	return res, err
}
