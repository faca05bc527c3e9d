// Package browser drives a headless Chromium, for tests of pages.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Browser is a process of Chromium with one page. It is driven by its protocol over two pipes.
type Browser struct {
	process *exec.Cmd
	profile string
	in      *os.File
	out     *os.File
	answers *bufio.Reader
	id      int
	session string
}

// Start starts a browser with an empty page. The error wraps exec.ErrNotFound where there is none.
func Start() (*Browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "anndb-browser")
	if err != nil {
		return nil, err
	}
	from, in, err1 := os.Pipe()
	out, to, err2 := os.Pipe()
	b := &Browser{profile: profile, in: in, out: out, answers: bufio.NewReader(out)}
	b.process = exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	b.process.ExtraFiles = []*os.File{from, to} // descriptors 3 and 4
	err = errors.Join(err1, err2)
	if err == nil {
		err = b.process.Start()
	}
	_, _ = from.Close(), to.Close() // what fails here, Send finds
	var page struct{ TargetID string }
	if err == nil {
		err = b.Send("Target.createTarget", map[string]any{"url": "about:blank"}, &page)
	}
	var attached struct{ SessionID string }
	if err == nil {
		err = b.Send("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	}
	b.session = attached.SessionID
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() {
	if b.process.Process != nil {
		_ = b.process.Process.Kill()
		_ = b.process.Wait() // it was killed
	}
	_, _ = b.in.Close(), b.out.Close()
	_ = os.RemoveAll(b.profile) // into which processes of the browser may still write
}

// Send calls a method of the protocol and decodes its result, unless result is nil.
func (b *Browser) Send(method string, params, result any) error {
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(line, 0)); err != nil {
		return err
	}
	for {
		line, err := b.answers.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("%s: the browser has ended: %w", method, err)
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &answer); {
		case err != nil:
			return err
		case answer.ID != b.id: // an event
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}

// Evaluate evaluates an expression in the page and returns its value as text.
func (b *Browser) Evaluate(expression string) (string, error) {
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
	if err := b.Send("Runtime.evaluate", params, &answer); err != nil {
		return "", err
	}
	if answer.ExceptionDetails != nil {
		return "", fmt.Errorf("%s: %v", expression, answer.ExceptionDetails)
	}
	return fmt.Sprint(answer.Result.Value), nil
}

// Wait waits up to half a minute until an expression is true. While a page is loaded there is nothing to
// evaluate it in.
func (b *Browser) Wait(expression string) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if value, _ := b.Evaluate("Boolean(" + expression + ")"); value == "true" {
			return nil
		}
	}
	text, err := b.Evaluate("document.body.innerText")
	return fmt.Errorf("never true: %s; the page says %q (%v)", expression, text, err)
}
