package input

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/text"
)

// EmbedBatch is the number of texts that an embedder gets at a time.
const EmbedBatch = 64

// shownLines is how many lines of an embedder's messages an error shows.
const shownLines = 5

// Embedder makes vectors of texts by a command of the user. The command gets the texts as JSON strings on its
// standard input, one a line, and writes their vectors as JSON arrays of numbers, one a line, in their order.
type Embedder struct {
	Ctx     context.Context
	Host    *command.Host // in whose process this runs
	Command string        // for the shell of the system
	Dim     int           // of the vectors, 0 if it is not known
}

// Embed returns the vectors of texts, which have the same length.
func (e *Embedder) Embed(texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var in, out, complaint bytes.Buffer
	for _, s := range texts {
		line, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		in.Write(append(line, '\n'))
	}
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C"}
	}
	c := e.Host.Process(exec.CommandContext(e.Ctx, shell[0], shell[1], e.Command))
	c.Stdin, c.Stdout, c.Stderr = &in, &out, &complaint
	c.WaitDelay = time.Second // for what the shell has started
	err := c.Run()
	var vectors [][]float32
	if err == nil {
		vectors, err = embedded(out.Bytes(), len(texts))
	}
	if err == nil && e.Dim > 0 && len(vectors[0]) != e.Dim {
		err = fmt.Errorf("it wrote vectors of %d numbers, those of the collection have %d", len(vectors[0]), e.Dim)
	}
	switch {
	case e.Ctx.Err() != nil:
		return nil, context.Cause(e.Ctx)
	case err == nil:
		return vectors, nil
	}
	lines := strings.FieldsFunc(complaint.String(), func(r rune) bool { return r == '\n' || r == '\r' })
	return nil, &EmbedError{e.Command, lines[max(0, len(lines)-shownLines):], err}
}

// EmbedError is the failure of an embedder.
type EmbedError struct {
	Command string
	Stderr  []string // the last lines of its messages
	Err     error
}

func (e *EmbedError) Error() string {
	s := fmt.Sprintf("the command %q of --embed: %v", e.Command, e.Err)
	if len(e.Stderr) > 0 {
		s += ": " + strings.Join(e.Stderr, "; ")
	}
	return s
}

func (e *EmbedError) Unwrap() error { return e.Err }

// embedded reads the vectors of n texts.
func embedded(out []byte, n int) (vectors [][]float32, err error) {
	line := 0
	for row := range bytes.Lines(out) {
		line++
		if row = bytes.TrimSpace(row); len(row) == 0 {
			continue
		}
		var v []float32
		switch err := json.Unmarshal(row, &v); {
		case err != nil || v == nil:
			return nil, fmt.Errorf("line %d of its output is no JSON array of numbers: %.40q", line, row)
		case len(v) == 0:
			return nil, fmt.Errorf("line %d of its output is an empty array", line)
		case len(vectors) > 0 && len(v) != len(vectors[0]):
			return nil, fmt.Errorf("line %d of its output has %d numbers, the lines before have %d", line, len(v),
				len(vectors[0]))
		}
		vectors = append(vectors, v)
	}
	if len(vectors) != n {
		return nil, fmt.Errorf("it wrote %d vectors for %d texts", len(vectors), n)
	}
	return vectors, nil
}

// Queries adds a vector to each query that has a text and no vector.
func (e *Embedder) Queries(each iter.Seq2[Query, error]) iter.Seq2[Query, error] {
	return func(yield func(Query, error) bool) {
		var batch []Query
		give := func() bool {
			err := e.add(batch)
			for _, q := range batch {
				if !yield(q, err) || err != nil {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for q, err := range each {
			if err != nil {
				if give() {
					yield(q, err)
				}
				return
			}
			if batch = append(batch, q); len(batch) == EmbedBatch && !give() {
				return
			}
		}
		give()
	}
}

// Fill makes the vectors of n texts that have none; at returns a text and where its vector is stored. It
// returns their dimension, 0 if none was missing.
func (e *Embedder) Fill(n int, at func(i int) (text string, vector *[]float32)) (dim int, err error) {
	var texts []string
	var to []*[]float32
	for i := range n {
		if s, x := at(i); *x == nil && s != "" {
			texts, to = append(texts, s), append(to, x)
		}
	}
	vectors, err := e.Embed(texts)
	for i, v := range vectors {
		*to[i], dim = v, len(v)
	}
	return dim, err
}

// add adds vectors to queries.
func (e *Embedder) add(batch []Query) error {
	_, err := e.Fill(len(batch), func(i int) (string, *[]float32) {
		q := &batch[i].Query
		return text.Plain(q.Text), &q.Vector
	})
	return err
}
