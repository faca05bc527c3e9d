package server_test

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/internal/browser"
)

// shownPage is a page in a browser.
type shownPage struct {
	*browser.Browser

	t *testing.T
}

// newBrowser starts a browser with one empty page; it skips the test where there is none.
func newBrowser(t *testing.T) *shownPage {
	t.Helper()
	b, err := browser.Start()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: no chromium: the page is not tested (apt-get install chromium)")
	}
	must(t, err)
	t.Cleanup(b.Close)
	p := &shownPage{b, t}
	p.size(1200, 900)
	return p
}

// send calls a method of the protocol and waits for its result.
func (b *shownPage) send(method string, params, result any) {
	b.t.Helper()
	must(b.t, b.Send(method, params, result))
}

// size sets the size of the window in pixels.
func (b *shownPage) size(width, height int) {
	b.t.Helper()
	b.send("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// dark makes the system of the reader light or dark.
func (b *shownPage) dark(on bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	b.send("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// run evaluates an expression in the page and returns its value as text.
func (b *shownPage) run(expression string) string {
	b.t.Helper()
	value, err := b.Evaluate(expression)
	must(b.t, err)
	return value
}

// wait waits until an expression is true.
func (b *shownPage) wait(expression string) {
	b.t.Helper()
	must(b.t, b.Wait(expression))
}

// key presses and releases a key.
func (b *shownPage) key(key string) {
	b.t.Helper()
	text := key
	if key == "Enter" {
		text = "\r"
	}
	if key == "Tab" || key == "ArrowRight" {
		text = ""
	}
	codes := map[string]int{"Enter": 13, "Tab": 9, "ArrowRight": 39}
	event := map[string]any{"key": key, "text": text, "windowsVirtualKeyCode": codes[key]}
	for _, kind := range []string{"keyDown", "keyUp"} {
		event["type"] = kind
		b.send("Input.dispatchKeyEvent", event, nil)
	}
}

// write types a text where the focus is.
func (b *shownPage) write(text string) {
	b.t.Helper()
	b.send("Input.insertText", map[string]any{"text": text}, nil)
}

// picture saves a picture of the whole page in the folder that ANNDB_PICTURES names, if it names one.
func (b *shownPage) picture(name string) {
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
