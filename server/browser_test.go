package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browser is a headless Chromium, driven by its protocol over two pipes.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
}

// newBrowser starts a browser with one empty page; it skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no chromium: the page is not tested (apt-get install chromium)")
	}
	from, in, err := os.Pipe()
	must(t, err)
	out, to, err := os.Pipe()
	must(t, err)
	profile, err := os.MkdirTemp("", "anndb-browser")
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{from, to} // descriptors 3 and 4
	must(t, cmd.Start())
	must(t, from.Close())
	must(t, to.Close())
	t.Cleanup(func() {
		end()
		_ = cmd.Wait() // it was killed
		_ = in.Close()
		_ = out.Close()
		_ = os.RemoveAll(profile) // into which processes of the browser may still write
	})
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	var page struct{ TargetID string }
	b.send("Target.createTarget", map[string]any{"url": "about:blank"}, &page)
	var attached struct{ SessionID string }
	b.send("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.size(1200, 900)
	return b
}

// send calls a method of the protocol and waits for its result.
func (b *browser) send(method string, params, result any) {
	b.t.Helper()
	if why := b.try(method, params, result); why != "" {
		b.t.Fatalf("%s: %s", method, why)
	}
}

// try is send, except that it returns what the browser refuses.
func (b *browser) try(method string, params, result any) (why string) {
	b.t.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	line, err := json.Marshal(message)
	must(b.t, err)
	_, err = b.in.Write(append(line, 0))
	must(b.t, err)
	for {
		line, err := b.out.ReadBytes(0)
		must(b.t, err)
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		must(b.t, json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &answer))
		if answer.ID != b.id {
			continue // an event
		}
		if answer.Error != nil {
			return answer.Error.Message
		}
		if result != nil {
			must(b.t, json.Unmarshal(answer.Result, result))
		}
		return ""
	}
}

// size sets the size of the window in pixels.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.send("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// dark makes the system of the reader light or dark.
func (b *browser) dark(on bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	b.send("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// run evaluates an expression in the page and returns its value as text.
func (b *browser) run(expression string) string {
	b.t.Helper()
	value, why := b.evaluate(expression)
	if why != "" {
		b.t.Fatalf("%s: %s", expression, why)
	}
	return value
}

// evaluate is run, except that it returns why there is no value.
func (b *browser) evaluate(expression string) (value, why string) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
	if why := b.try("Runtime.evaluate", params, &answer); why != "" {
		return "", why
	}
	if answer.ExceptionDetails != nil {
		return "", fmt.Sprint(answer.ExceptionDetails)
	}
	return fmt.Sprint(answer.Result.Value), ""
}

// wait waits until an expression is true. While a page is loaded there is nothing to evaluate it in.
func (b *browser) wait(expression string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if value, _ := b.evaluate("Boolean(" + expression + ")"); value == "true" {
			return
		}
	}
	b.t.Fatalf("never true: %s; the page says %q", expression, b.run("document.body.innerText"))
}

// key presses and releases a key.
func (b *browser) key(key string) {
	b.t.Helper()
	text := key
	if key == "Enter" {
		text = "\r"
	}
	if key == "Tab" {
		text = ""
	}
	event := map[string]any{"key": key, "text": text, "windowsVirtualKeyCode": map[string]int{"Enter": 13, "Tab": 9}[key]}
	for _, kind := range []string{"keyDown", "keyUp"} {
		event["type"] = kind
		b.send("Input.dispatchKeyEvent", event, nil)
	}
}

// write types a text where the focus is.
func (b *browser) write(text string) {
	b.t.Helper()
	b.send("Input.insertText", map[string]any{"text": text}, nil)
}

// picture saves a picture of the whole page in the folder that ANNDB_PICTURES names, if it names one.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("ANNDB_PICTURES")
	if folder == "" {
		return
	}
	var shot struct{ Data string }
	b.send("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}
