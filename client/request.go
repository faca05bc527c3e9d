package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// maxWait is the longest pause before a retry. A server that asks for a longer one gets none.
const maxWait = 5 * time.Second

// request is one request, which may be sent several times.
type request struct {
	method string
	path   string  // escaped, with parameters
	in     any     // the body, as JSON
	lines  *upload // or a body that is a stream
	read   bool    // it changes nothing
	long   bool    // it has no timeout
}

// upload is a body that can be sent once. An attempt that ends before leaves it as it is.
type upload struct {
	io.Reader

	begun atomic.Bool
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.begun.Store(true)
	return u.Reader.Read(p)
}

// get returns a request for what is at a path, ask one for an answer to a body.
func get(path string) *request { return &request{method: http.MethodGet, path: path, read: true} }

func ask(path string, in any) *request {
	return &request{method: http.MethodPost, path: path, in: in, read: true}
}

// fetch sends a request and returns what an answer of a form stands for.
func fetch[Form, T any](
	ctx context.Context, c *Client, r *request, of func(*Form) (T, error),
) (out T, err error) {
	var form Form
	if err = c.call(ctx, r, &form); err != nil {
		return out, err
	}
	return of(&form)
}

// call sends a request and decodes the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	return c.do(ctx, r, func(answer *http.Response) error {
		body, err := io.ReadAll(answer.Body)
		if err == nil && out != nil {
			err = json.Unmarshal(body, out)
		}
		return err
	})
}

// stream requests what is at a path, and passes it to use. Once that has begun nothing is requested again.
func (c *Client) stream(ctx context.Context, path string, use func(io.Reader) error) (used error) {
	r := get(path)
	r.long = true
	err := c.do(ctx, r, func(answer *http.Response) error {
		used = use(answer.Body)
		return nil
	})
	return cmp.Or(used, err)
}

// do sends a request until there is an answer that read accepts, or no retry is safe or left.
func (c *Client) do(ctx context.Context, r *request, read func(*http.Response) error) (err error) {
	if !r.long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.Timeout)
		defer cancel()
	}
	var body []byte
	if r.in != nil {
		if body, err = json.Marshal(r.in); err != nil {
			return fmt.Errorf("%w: %w", db.ErrInvalid, err) // a number that JSON does not have
		}
	}
	for attempt := 0; ; attempt++ {
		wait, again, err := c.attempt(ctx, r, body, read)
		if ctxErr := ctx.Err(); err != nil && ctxErr != nil && !errors.Is(err, ctxErr) {
			return fmt.Errorf("%w: %w", ctxErr, err)
		}
		wait = max(wait, 25*time.Millisecond<<attempt)
		if err == nil || !again || attempt >= c.o.Retries || wait > maxWait || pause(ctx, wait) != nil {
			return err
		}
	}
}

// pause waits, a little longer than d, so that clients that were refused at once do not return at once.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d + rand.N(d/4+1)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends a request once. For an error it reports whether sending it again is safe, and the pause that
// the server asks for.
func (c *Client) attempt(
	ctx context.Context, r *request, body []byte, read func(*http.Response) error,
) (wait time.Duration, again bool, err error) {
	var in io.Reader = bytes.NewReader(body)
	if r.lines != nil {
		in = r.lines
	}
	q, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, in)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", db.ErrInvalid, err)
	}
	switch {
	case r.lines != nil:
		q.Header.Set("Content-Type", wire.Lines)
		q.Header.Set("Expect", "100-continue")
	case body != nil:
		q.Header.Set("Content-Type", wire.JSON)
	}
	if c.o.Token != "" {
		q.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	answer, err := c.http.Do(q)
	left := r.lines == nil || !r.lines.begun.Load()
	if err != nil {
		var op *net.OpError
		unsent := errors.As(err, &op) && op.Op == "dial"
		return 0, (r.read || unsent) && left, err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		return 0, r.read, read(answer)
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	again = answer.StatusCode == http.StatusTooManyRequests && left ||
		answer.StatusCode == http.StatusServiceUnavailable && r.read
	return time.Duration(seconds) * time.Second, again, failure(answer)
}

// failure returns the error of an answer.
func failure(answer *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	var f wire.Failure
	if err := json.Unmarshal(body, &f); err != nil || f.Error == nil {
		return fmt.Errorf("%s: %.200q, which is not from a server of databases", answer.Status, body)
	}
	f.Error.Status = answer.StatusCode
	return f.Error
}
