package child

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"
)

// Document is a row or a query of a benchmark of texts.
type Document struct {
	Text string
	// Terms are what anndb's analyzer makes of the text. Peers index these, so that all index the same.
	Terms  []string
	Vector []float32
}

// Found is a row that a search has found, by its number.
type Found struct {
	Row   uint32
	Score float64
}

// A TextEngine is what a child does with a library of texts.
type TextEngine interface {
	// Build indexes rows in a folder of its own, and opens what it has made.
	Build(ctx context.Context, rows []Document, folder string) error
	// Search finds the k best rows by what the query has: terms, a vector, or both.
	Search(ctx context.Context, q Document, k int) ([]Found, error)
	Close() error
}

// textAsk asks a child to build, if there are rows, or to search.
type textAsk struct {
	Rows, Queries []Document
	Folder        string
	K             int
}

// TextAnswer is what a child has measured: the time of a build, or of each search.
type TextAnswer struct {
	Error   string
	Seconds float64
	Found   [][]Found
	Micros  []float64
}

// ServeTexts answers what a Texts asks, until the end of in.
func ServeTexts(ctx context.Context, e TextEngine, in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	from, to := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var a textAsk
		if err := from.Decode(&a); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, e.Close())
		}
		answer, err := answerTexts(ctx, e, &a)
		if err != nil {
			answer.Error = err.Error()
		}
		if err := to.Encode(answer); err != nil {
			return errors.Join(err, e.Close())
		}
	}
}

func answerTexts(ctx context.Context, e TextEngine, a *textAsk) (out TextAnswer, err error) {
	start := time.Now()
	if len(a.Rows) > 0 {
		err = e.Build(ctx, a.Rows, a.Folder)
		out.Seconds = time.Since(start).Seconds()
		a.Rows = nil
		debug.FreeOSMemory()
		return out, err
	}
	for _, q := range a.Queries {
		start = time.Now()
		found, err := e.Search(ctx, q, a.K)
		if err != nil {
			return out, err
		}
		out.Micros = append(out.Micros, time.Since(start).Seconds()*1e6)
		out.Found = append(out.Found, found)
	}
	return out, nil
}

// Texts is a running child that holds a TextEngine.
type Texts struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	to   *gob.Encoder
	from *gob.Decoder
}

// StartTexts runs a program that calls ServeTexts.
func StartTexts(ctx context.Context, program string, args ...string) (*Texts, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	in, out, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	return &Texts{cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)}, nil
}

// Build builds in a folder.
func (t *Texts) Build(rows []Document, folder string) (*TextAnswer, error) {
	return t.ask(textAsk{Rows: rows, Folder: folder})
}

// Search asks each query once for its k best rows.
func (t *Texts) Search(queries []Document, k int) (*TextAnswer, error) {
	return t.ask(textAsk{Queries: queries, K: k})
}

func (t *Texts) ask(a textAsk) (*TextAnswer, error) {
	if err := t.to.Encode(a); err != nil {
		return nil, err
	}
	out := &TextAnswer{}
	if err := t.from.Decode(out); err != nil {
		return nil, err
	}
	if out.Error != "" {
		return nil, fmt.Errorf("%s: %s", t.cmd.Path, out.Error)
	}
	return out, nil
}

// Close ends the child.
func (t *Texts) Close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }
