package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/anndb/anndb/internal/wire"
)

// minRate is the least number of bytes a second that a peer sends or receives, over longer times.
const minRate = 16 << 10

// pace bounds the time that is spent waiting for a peer.
type pace struct {
	stall  time.Duration
	waited time.Duration
	bytes  int64
}

// wait calls an operation on the connection with a deadline, and counts what it moved.
func (p *pace) wait(deadline func(time.Time) error, do func() (int, error)) (int, error) {
	begin := time.Now()
	most := p.stall + time.Duration(p.bytes)*time.Second/minRate - p.waited
	_ = deadline(begin.Add(min(max(most, 0), p.stall))) // not all writers of tests have deadlines
	n, err := do()
	p.bytes += int64(n)
	p.waited += time.Since(begin)
	return n, err
}

// response is the answer to a request.
type response struct {
	http.ResponseWriter

	control *http.ResponseController
	pace    pace
	status  int   // 0 until the answer has begun
	sent    int64 // bytes
	rows    int   // stored by an import
	read    bool  // the body of the request, to its end
	err     error // why the request failed
}

func newResponse(w http.ResponseWriter, stall time.Duration) *response {
	return &response{ResponseWriter: w, control: http.NewResponseController(w), pace: pace{stall: stall}}
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body. It fails if the client does not read.
func (w *response) Write(b []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for n < len(b) && err == nil { // each part has to arrive in time
		part := b[n:min(n+chunk, len(b))]
		var sent int
		sent, err = w.pace.wait(w.control.SetWriteDeadline, func() (int, error) {
			return w.ResponseWriter.Write(part)
		})
		n += sent
	}
	w.sent += int64(n)
	return n, err
}

// answer sends a value as JSON.
func (w *response) answer(status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // of a number that is none, which no answer has
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"no JSON"}}`)
		w.err = err
	}
	w.send(status, wire.JSON, append(body, '\n'))
}

// send sends a body. That the client has gone away is no error of the server.
func (w *response) send(status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil && w.err == nil {
		w.err = err
	}
}

// fail answers with an error, or ends the connection if an answer has begun.
func (w *response) fail(err error) {
	w.err = err
	e := wire.NewError(err)
	e.Rows = w.rows
	var known *wire.Error
	if errors.As(err, &known) {
		e.Rows = known.Rows
	}
	if w.status != 0 {
		if w.Header().Get("Content-Type") == wire.Lines { // the last one has the error
			line, _ := json.Marshal(wire.Failure{Error: e})
			_, _ = w.Write(append(line, '\n'))
			_ = w.control.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	switch e.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	w.answer(e.Status, wire.Failure{Error: e})
}

// bodyReader reads the body of a request, within bounds of size and time.
type bodyReader struct {
	c    *call
	pace pace
}

func (c *call) body() io.Reader { return &bodyReader{c, pace{stall: c.s.o.Stall}} }

// Read implements io.Reader. The deadline is removed at the end: net/http would take it for the end of the
// connection while the request is worked on.
func (b *bodyReader) Read(p []byte) (int, error) {
	c := b.c
	n, err := b.pace.wait(c.control.SetReadDeadline, func() (int, error) { return c.r.Body.Read(p) })
	c.s.metrics.received.Add(int64(n))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, fmt.Errorf("%w: the body did not arrive within %v, or at less than %d bytes a second",
			wire.ErrSlow, b.pace.stall, minRate)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("%w: %w", wire.ErrCut, err)
	}
	if err == io.EOF {
		c.read = true
		_ = c.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// bound bounds the time in which net/http reads what a handler has left of a body, before and after it
// answers: a client that sends nothing more must not hold the connection.
func (c *call) bound(most time.Duration) {
	if c.r.ContentLength != 0 && !c.read {
		_ = c.control.SetReadDeadline(time.Now().Add(most))
	}
}

// typed refuses bodies that are not of one of the types.
func (c *call) typed(types ...string) error {
	got, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(types, got) {
		return fmt.Errorf("%w: %.100q, want %s", wire.ErrType, c.r.Header.Get("Content-Type"), types[0])
	}
	if e := c.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fmt.Errorf("%w: an encoding, %.20q", wire.ErrType, e)
	}
	return nil
}

// bytes returns a body of JSON.
func (c *call) bytes() ([]byte, error) {
	if err := c.typed(wire.JSON); err != nil {
		return nil, err
	}
	most := c.s.o.MaxBody
	if c.r.ContentLength > most {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", wire.ErrTooLarge, c.r.ContentLength, most)
	}
	// The announced length is believed up to the size of a usual body.
	b := make([]byte, 0, min(max(c.r.ContentLength, 0), 1<<20)+512)
	in := c.body()
	for {
		n, err := in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		case int64(len(b)) > most:
			return nil, fmt.Errorf("%w: more than %d bytes", wire.ErrTooLarge, most)
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
	}
}

// decodeQuery decodes a body of JSON with a query, which is a part of the value.
func (c *call) decodeQuery(q *wire.Query, into any) error {
	b, err := c.bytes()
	if err != nil {
		return err
	}
	return wire.UnmarshalQuery(b, q, into)
}

// decode decodes a body of JSON.
func (c *call) decode(into any) error {
	b, err := c.bytes()
	if err != nil {
		return err
	}
	return wire.Unmarshal(b, into)
}
