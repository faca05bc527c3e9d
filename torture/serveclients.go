package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/browser"
)

// actor is a program that uses a served file, and writes rows of its own: step after step, each of which
// follows from its number, so that what is acknowledged is one number.
type actor struct {
	name  string
	begin func(ctx context.Context, s *server, a *actor) (user, error)
	reads bool          // it writes nothing
	last  int           // the last step that was acknowledged
	pause time.Duration // after each step
}

// user is an actor at work: it makes a step, and afterwards asks for what the step has stored.
type user struct {
	write, read func(step) error
	end         func()
}

// servedKeys is the number of keys of an actor, a multiple of 10.
const servedKeys = 50

// step is one write: rows with the keys get the text, or are deleted.
type step struct {
	n    int
	kind string
	keys []string
	text string // ends with the number
}

// step returns the step with a number. Those that change several rows change all of them or none.
func (a *actor) step(n int) step {
	out := step{n: n, kind: "put", text: fmt.Sprintf("%s writes number%d", a.name, n)}
	offsets := []int{0}
	switch n % 10 {
	case 3:
		out.kind, offsets = "transaction", []int{0, 1, 4}
	case 5:
		out.kind, offsets = "import", []int{0, 1, 2}
	case 7: // of a row that two steps before have written
		out.kind, out.text = "delete", ""
	case 9:
		if n > servedKeys {
			out.kind = "update"
		}
	}
	for _, o := range offsets {
		out.keys = append(out.keys, fmt.Sprintf("%s-%d", a.name, (n+o)%servedKeys))
	}
	return out
}

// state returns the texts of all rows of the actor after step n, by key.
func (a *actor) state(n int) map[string]string {
	out := map[string]string{}
	for i := max(1, n-2*servedKeys); i <= n && !a.reads; i++ {
		s := a.step(i)
		for _, key := range s.keys {
			if out[key] = s.text; s.text == "" {
				delete(out, key)
			}
		}
	}
	return out
}

// run makes steps until the context ends or the server does. An error before that is one of the layer.
func (a *actor) run(ctx context.Context, s *server) error {
	blame := func(what string, err error) error {
		if err == nil || ctx.Err() != nil || !s.alive.Load() {
			return nil
		}
		return fmt.Errorf("%s, step %d, %s: %w", a.name, a.last, what, err)
	}
	u, err := a.begin(ctx, s, a)
	if err != nil {
		return blame("begin", err)
	}
	defer u.end()
	for ctx.Err() == nil {
		now := a.step(a.last + 1)
		if err := u.write(now); err != nil {
			return blame(now.kind, err)
		}
		a.last++
		if !a.reads {
			s.acked.Add(1)
		}
		if err := u.read(now); err != nil {
			return blame("read", err)
		}
		select {
		case <-time.After(a.pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// request is a request of HTTP, by the path below that of the file, with a text that its answer must have.
type request struct{ method, path, kind, body, want string }

// servedRow is the path of the rows, and the types of bodies.
const (
	servedRow = "/collections/" + servedColl + "/rows"
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

// write returns the request that makes the step.
func (s step) write() request {
	row := fmt.Sprintf(`{"text":%q}`, s.text)
	one := servedRow + "/" + s.keys[0]
	switch s.kind {
	case "delete":
		return request{http.MethodDelete, one, typeJSON, "", ""}
	case "update":
		return request{http.MethodPatch, one, typeJSON, row, "version"}
	case "put":
		return request{http.MethodPut, one, typeJSON, row, "version"}
	case "import":
		return request{http.MethodPost, servedRow, typeLines, s.lines(), `{"rows":3}`}
	}
	var ops []string
	for _, key := range s.keys {
		ops = append(ops, fmt.Sprintf(`{"op":"put","collection":%q,"key":%q,"row":%s}`, servedColl, key, row))
	}
	all := `{"operations":[` + strings.Join(ops, ",") + `]}`
	return request{http.MethodPost, "/transactions", typeJSON, all, "versions"}
}

// lines returns the rows of the step as a file of jsonl.
func (s step) lines() (out string) {
	for _, key := range s.keys {
		out += fmt.Sprintf("{\"key\":%q,\"text\":%q}\n", key, s.text)
	}
	return out
}

// read returns the request that follows the step, if one does. The row of step 1, 11, … must be found.
func (s step) read() (request, bool) {
	coll := "/collections/" + servedColl
	switch s.n % 10 {
	case 1:
		q := fmt.Sprintf(`{"text":%q,"index":"words"}`, s.query())
		return request{http.MethodPost, coll + "/search", typeJSON, q, `"` + s.keys[0] + `"`}, true
	case 4:
		q := `{"text":"word1 word2","top":2,"explain":true}`
		return request{http.MethodPost, coll + "/predict", typeJSON, q, "topic"}, true
	case 6:
		return request{http.MethodPost, coll + "/count", typeJSON, `{"where":"label = topic1"}`, `"rows":`}, true
	case 8:
		return request{http.MethodGet, coll + "/rows", "", "", `"row-999"`}, s.n%50 == 8
	}
	return request{}, false
}

// query is a text for which the row of the step is the best one.
func (s step) query() string { return strings.Replace(s.text, " writes", "", 1) }

// byHTTP is a user that sends requests.
func byHTTP(send func(request) (string, error), end func()) user {
	checked := func(r request) error {
		answer, err := send(r)
		if err == nil && !strings.Contains(answer, r.want) {
			err = fmt.Errorf("%s %s %s: no %s in %.300q", r.method, r.path, r.body, r.want, answer)
		}
		return err
	}
	return user{func(s step) error { return checked(s.write()) }, func(s step) error {
		if r, ok := s.read(); ok {
			return checked(r)
		}
		return nil
	}, end}
}

// processed is what a process prints, given its input. It is not ended by the layer.
func processed(in, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Stdin = strings.NewReader(in)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %q: %w: %.300s %.300s", name, args, err, errs.String(), out.String())
	}
	return out.String(), nil
}

// curl is an actor with a process of curl for each request, by the socket.
func curl(_ context.Context, s *server, _ *actor) (user, error) {
	return byHTTP(func(r request) (string, error) {
		args := []string{"-s", "-S", "--fail-with-body", "--max-time", "60", "--unix-socket", s.file + ".sock",
			"-X", r.method, "http://localhost" + servedPath + r.path}
		if r.body != "" {
			args = append(args, "-H", "Content-Type: "+r.kind, "--data-binary", "@-")
		}
		return processed(r.body, "curl", args...)
	}, func() {}), nil
}

// pythonProgram sends requests, each a line of its input, by one connection to an address.
const pythonProgram = `
import http.client, json, sys
c = http.client.HTTPConnection(sys.argv[1], timeout=60)
for line in sys.stdin:
    method, path, kind, body = json.loads(line)
    c.request(method, path, body.encode(), {"Content-Type": kind} if body else {})
    r = c.getresponse()
    print(json.dumps([str(r.status), r.read().decode()]), flush=True)
`

// python is an actor that is one Python program, with nothing but its standard library.
func python(ctx context.Context, s *server, _ *actor) (user, error) {
	c := exec.CommandContext(ctx, "python3", "-c", pythonProgram, strings.TrimPrefix(s.url, "http://"))
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return user{}, err
	}
	if err := c.Start(); err != nil {
		return user{}, err
	}
	to, from := json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	return byHTTP(func(r request) (string, error) {
		var answer [2]string
		err := to.Encode([]string{r.method, servedPath + r.path, r.kind, r.body})
		if err := errors.Join(err, from.Decode(&answer)); err != nil {
			return "", err
		}
		if answer[0][0] != '2' {
			return "", fmt.Errorf("status %s: %s", answer[0], answer[1])
		}
		return answer[1], nil
	}, func() {
		_ = in.Close()
		_ = c.Wait() // its connection may be gone, or it was ended
	}), nil
}

// commands is an actor with a process of the command line for each step. Without a server it opens the file.
func commands(_ context.Context, s *server, _ *actor) (user, error) {
	call := func(want, in string, args ...string) error {
		out, err := processed(in, s.program, append([]string{args[0], s.file, servedColl}, args[1:]...)...)
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("%q: no %s in %.300q", args, want, out)
		}
		return err
	}
	return user{func(w step) error {
		switch w.kind {
		case "delete":
			return call("", "", "delete", w.keys[0])
		case "put", "update":
			return call(w.keys[0], "", w.kind, w.keys[0], "--text", w.text)
		}
		return call("", w.lines(), "import", "-", "--replace", "--as", "jsonl")
	}, func(w step) error {
		switch w.n % 10 {
		case 1:
			return call(`"`+w.keys[0]+`"`, "", "search", w.query(), "--index", "words", "--json")
		case 4:
			return call("topic", "", "predict", "word1 word2", "--top", "2")
		case 6:
			return call("", "", "count", "--where", "label = topic1")
		case 8:
			return call("row-999", "", "export", "-", "--as", "jsonl")
		}
		return nil
	}, func() {}}, nil
}

// calls is an actor that uses package client.
func calls(ctx context.Context, s *server, _ *actor) (user, error) {
	c, err := client.New(s.file+".sock", nil)
	if err != nil {
		return user{}, err
	}
	f := c.File(servedName)
	coll := f.Collection(servedColl)
	rows := func(w step) (out []db.Row) {
		for _, key := range w.keys {
			out = append(out, db.Row{Key: []byte(key), Text: w.text})
		}
		return out
	}
	return user{func(w step) error {
		switch w.kind {
		case "delete":
			return coll.Delete(ctx, []byte(w.keys[0]))
		case "update":
			return coll.Update(ctx, []byte(w.keys[0]), func(r *db.Row) { r.Text = w.text })
		case "import":
			_, err := coll.Load(ctx, sent(rows(w)...), nil)
			return err
		}
		return f.Update(ctx, func(tx *client.Tx) error {
			for _, r := range rows(w) { // it reads, so that it must see its own former steps
				if _, err := tx.Collection(servedColl).Get(r.Key); err != nil && !errors.Is(err, db.ErrNotFound) {
					return err
				}
				if err := tx.Collection(servedColl).Put(r); err != nil {
					return err
				}
			}
			return nil
		})
	}, func(w step) error {
		switch w.n % 10 {
		case 1:
			return s.timed(func() error {
				o := &db.SearchOptions{Index: "words", Include: db.Text}
				found, err := coll.Search(ctx, db.Query{Text: w.query()}, o)
				if err == nil && (len(found.Hits) == 0 || found.Hits[0].Text != w.text) {
					err = fmt.Errorf("a search for %q found %v", w.query(), found.Hits)
				}
				return err
			})
		case 4:
			_, err := coll.Predict(ctx, db.Query{Text: "word1 word2"}, nil)
			return err
		case 8:
			n := 0
			for _, err := range coll.Rows(ctx, nil) {
				if n++; err != nil {
					return err
				}
			}
			if n < servedRows {
				return fmt.Errorf("a stream has %d rows", n)
			}
		}
		return nil
	}, c.Close}, nil
}

// sent yields rows.
func sent(rows ...db.Row) func(yield func(db.Row, error) bool) {
	return func(yield func(db.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// page is an actor that uses the page of the server in a browser: it searches for words and predicts.
func page(_ context.Context, s *server, _ *actor) (user, error) {
	b, err := browser.Start()
	if err != nil {
		return user{}, err
	}
	return user{func(w step) error {
		err := b.Send("Page.navigate", map[string]any{"url": s.url}, nil)
		for _, x := range []struct{ do, until string }{
			{"1", "document.querySelectorAll('#rows tr').length === 10"},
			{
				fmt.Sprintf("document.querySelector('[name=text]').value = 'word%d'; "+
					"document.querySelector('#ask').requestSubmit()", w.n%30),
				"document.querySelectorAll('#hits > li').length === 10",
			},
			{
				"document.querySelector('#predict').click()",
				"/^topic/.test(document.querySelector('#hits .key')?.textContent)",
			},
		} {
			if err == nil {
				_, err = b.Evaluate(x.do)
			}
			if err == nil {
				err = b.Wait(x.until)
			}
		}
		if err == nil {
			s.pages.Add(1)
		}
		return err
	}, func(step) error { return nil }, b.Close}, nil
}

// users are all actors that the machine has programs for.
func users(e *env, t *totals) (out []*actor) {
	for _, a := range []*actor{
		{name: "cli1", begin: commands}, {name: "cli2", begin: commands},
		{name: "go", begin: calls, pause: 5 * time.Millisecond}, {name: "curl", begin: curl},
		{name: "python3", begin: python, pause: 5 * time.Millisecond}, {name: "chromium", begin: page, reads: true},
	} {
		if slices.Contains([]string{"curl", "python3", "chromium"}, a.name) {
			if _, err := exec.LookPath(a.name); err != nil {
				t.skip("no %s", a.name)
				continue
			}
		}
		if e.full || !a.reads {
			out = append(out, a)
		}
	}
	return out
}
