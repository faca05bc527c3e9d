// Package liblinear trains linear classifiers by liblinear, through the driver of bench/peers/liblinear.
package liblinear

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Solvers of liblinear: its -s.
const (
	DualL2   = 1 // L2-regularised squared hinge, dual coordinate descent
	PrimalL2 = 2 // the same, by a trust region Newton method
	PrimalL1 = 5 // L1-regularised squared hinge
)

// ErrMissing is returned for a driver that was not built.
var ErrMissing = errors.New("SKIPPED")

// Driver is a running driver of bench/peers/liblinear. Its calls are framed
// numbers in host byte order, which driver.cpp describes.
type Driver struct {
	in      *bufio.Writer
	out     *bufio.Reader
	pipe    io.Closer
	cmd     *exec.Cmd
	Version string
	rows    int
}

// Params are those of one training run. Eps of zero is liblinear's own
// for the solver; Bias below zero means no offset, else the offset is the
// weight of a feature of that value, regularised like all.
type Params struct {
	Solver       int
	C, Eps, Bias float64
	Balanced     bool // cost factors n/(2·n_class)
}

// eps is what liblinear's own command takes for a solver.
func (p Params) epsilon() float64 {
	switch {
	case p.Eps != 0:
		return p.Eps
	case p.Solver == DualL2:
		return 0.1
	}
	return 0.01
}

// Start starts the driver of a folder.
//
// Errors: ErrMissing, with what to install, if it has not been built.
func Start(ctx context.Context, dir string) (*Driver, error) {
	path := filepath.Join(dir, "liblinear")
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w liblinear: no %s (apt-get install g++ liblinear-dev; bench/peers/liblinear/build)", ErrMissing, path)
	}
	l := &Driver{cmd: exec.CommandContext(ctx, path)}
	in, out, err := child.Start(l.cmd)
	if err != nil {
		return nil, err
	}
	l.in, l.out, l.pipe = bufio.NewWriterSize(in, 1<<20), bufio.NewReaderSize(out, 1<<20), in
	l.Version, err = l.text('V')
	return l, err
}

// Peak returns the most memory that the driver has had, in bytes.
func (l *Driver) Peak() int64 { return process.PeakOf(l.cmd.Process.Pid) }

// Close ends the driver.
func (l *Driver) Close() error {
	if err := l.pipe.Close(); err != nil {
		return err
	}
	return l.cmd.Wait()
}

// send writes a command's letter and its numbers; errors show when the answer
// is read.
func (l *Driver) send(command byte, values ...any) error {
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

func (l *Driver) get(values ...any) error {
	for _, v := range values {
		if err := binary.Read(l.out, binary.NativeEndian, v); err != nil {
			return fmt.Errorf("liblinear: %w", err)
		}
	}
	return nil
}

func (l *Driver) text(command byte) (string, error) {
	if err := l.send(command); err != nil {
		return "", err
	}
	return l.string()
}

func (l *Driver) string() (string, error) {
	var n uint64
	if err := l.get(&n); err != nil {
		return "", err
	}
	text := make([]byte, min(n, 1<<16))
	err := l.get(text)
	return string(text), err
}

// ok reads whether a training run succeeded.
func (l *Driver) ok() error {
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

// Load gives the driver the matrix that the next runs are about.
func (l *Driver) Load(x *vector.CSR) error {
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

// Result is one model's figures.
type Result struct {
	Train, Test float64 // CPU seconds
	Weights     uint64  // that are not zero
	Values      []float64
}

// Train learns the classes y (±1, of all rows of the matrix) from some rows and
// answers for others.
func (l *Driver) Train(p Params, y []int8, rows, test []int) (Result, error) {
	class := make([]int8, len(rows))
	var count [2]float64
	for i, r := range rows {
		class[i] = y[r]
		count[(y[r]+1)/2]++
	}
	factors := [2]float64{1, 1} // of class +1 and −1
	if p.Balanced {
		n := count[0] + count[1]
		factors = [2]float64{n / (2 * count[1]), n / (2 * count[0])}
	}
	res := Result{Values: make([]float64, len(test))}
	err := l.send('T', uint64(p.Solver), p.C, p.epsilon(), p.Bias, factors[0], factors[1],
		uint64(len(rows)), numbers(rows), class, uint64(len(test)), numbers(test))
	if err == nil {
		err = l.ok()
	}
	if err == nil {
		err = l.get(&res.Train, &res.Test, &res.Weights, res.Values)
	}
	return res, err
}

// Wrong counts the rows to whose class a decision value does not point.
func (r Result) Wrong(y []int8, test []int) int {
	n := 0
	for i, v := range r.Values {
		if (v > 0) != (y[test[i]] > 0) {
			n++
		}
	}
	return n
}

// AnswerSeconds trains one model a label for the labels below limit, all if it is zero, and returns the CPU
// seconds that liblinear takes to answer for the test rows.
func (l *Driver) AnswerSeconds(p Params, y *labels.Matrix, rows, test []int, limit int) (seconds float64, err error) {
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
	err = l.send('M', uint64(p.Solver), p.C, p.epsilon(), p.Bias, 1.0, 1.0,
		uint64(n), uint64(len(rows)), numbers(rows), ptr, positive, uint64(len(test)), numbers(test), uint64(1))
	if err == nil {
		err = l.ok()
	}
	var train float64
	var weights uint64
	if err == nil {
		err = l.get(&train, &seconds, &weights)
	}
	for range test {
		var count uint64
		if err == nil {
			err = l.get(&count)
		}
		if err == nil {
			err = l.get(make([]uint32, count+1)) // its labels, and the best one
		}
	}
	return seconds, err
}
