package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
	"github.com/anndb/anndb/text"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet returns options of a server whose records nobody reads.
func quiet() *server.Options { return &server.Options{Logger: slog.New(slog.DiscardHandler)} }

// shown returns a database with pictures and notes.
func shown(t *testing.T) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "shop.anndb"), nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	_, err = d.Create(t.Context(), "pictures", db.Schema{Dim: 64})
	must(t, err)
	_, err = d.Create(t.Context(), "notes", db.Schema{Dim: 2, Text: &text.Schema{}})
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 600 {
			x := make([]float32, 64)
			for j := range x {
				x[j] = float32(math.Round(127 + 100*math.Sin(float64(j*(1+i%3))/4+float64(i)/90)))
			}
			err := tx.Collection("pictures").Put(db.Row{
				Key: fmt.Appendf(nil, "p%03d", i), Vector: x, Labels: []string{[]string{"calm", "wavy", "wild"}[i%3]},
				Attributes: map[string]any{"price": i},
			})
			if err != nil {
				return err
			}
		}
		for i := range 120 {
			topic := []string{"boats", "trains"}[i%2]
			words := []string{"sail harbour wind <b>mast</b>", "rail station engine"}[i%2]
			err := tx.Collection("notes").Put(db.Row{
				Key: fmt.Appendf(nil, "n%03d", i), Vector: []float32{float32(i % 2), float32(i) / 120},
				Text: fmt.Sprintf("%s number%d", words, i), Labels: []string{topic},
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	for coll, o := range map[string]index.Options{
		"pictures": &index.Forest{}, "notes": &index.LCIF{},
	} {
		_, err := d.Collection(coll).Build(t.Context(), "main", o, nil)
		must(t, err)
	}
	return d
}

// TestPage takes the steps of a person on the page.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	s := httptest.NewServer(server.New(map[string]*db.DB{"shop": shown(t)}, quiet()))
	defer s.Close()
	// 1: the page opens on the first collection, with its shape, rows, curve and map.
	b.send("Page.navigate", map[string]any{"url": s.URL}, nil)
	b.wait(`document.querySelector('#name')?.textContent === 'pictures' && document.querySelectorAll('#rows tr').length === 10`)
	b.wait(`document.querySelector('#facts').textContent.includes('600 rows · vectors of 64 coordinates')`)
	b.wait(`document.querySelector('#curve img').naturalWidth > 0 && document.querySelectorAll('#legend .dot').length === 3`)
	b.picture("1-open")
	// 2: like a row, with pictures.
	b.run(`[...document.querySelectorAll('#rows button')][4].click()`)
	b.wait(`document.querySelectorAll('#hits canvas').length === 10`)
	if plan := b.run(`document.querySelector('#plan').textContent`); !strings.Contains(plan, "10 rows by beam") &&
		!strings.Contains(plan, "10 rows by exact scan") {
		t.Errorf("plan %q", plan)
	}
	b.picture("2-like")
	// 3: with a filter, from the keyboard.
	b.run(`document.querySelector('[name=where]').focus()`)
	b.write("price < 100 and label = wild")
	b.key("Enter")
	b.wait(`[...document.querySelectorAll('#hits li')].length > 0 && ` +
		`[...document.querySelectorAll('#hits .head')].every((h) => h.textContent.includes('wild'))`)
	b.picture("3-filter")
	// 4: a filter that is none says so.
	b.run(`document.querySelector('[name=where]').value = 'price <<'`)
	b.run(`document.querySelector('#ask').requestSubmit()`)
	b.wait(`document.querySelector('#message').textContent.includes('filter')`)
	b.picture("4-error")
	// 5: a vector.
	b.run(`document.querySelector('#ask').reset()`)
	b.run(`document.querySelector('[name=vector]').value = Array(64).fill(120).join(' ')`)
	b.run(`document.querySelector('#ask').requestSubmit()`)
	b.wait(`document.querySelector('#message').textContent === '' && document.querySelectorAll('#hits canvas').length === 10`)
	// 6: a place of the map.
	b.run(`(() => { const c = document.querySelector('#map canvas'); const r = c.getBoundingClientRect();
		const p = state.places[50].at; c.dispatchEvent(new MouseEvent('click', {bubbles: true,
		clientX: r.left + p[0] * r.width, clientY: r.top + p[1] * r.height})); })()`)
	b.wait(`document.querySelector('[name=key]').value !== ''`)
	// The same from the keyboard: to the right of it, and like the row that is there.
	b.run(`document.querySelector('#map canvas').focus()`)
	b.run(`point(state.places.reduce((a, b) => a.at[0] < b.at[0] ? a : b))`)
	left := b.run(`state.pointed.at[0]`)
	b.key("ArrowRight")
	b.wait(`state.pointed.at[0] > ` + left + ` && document.querySelector('#under').textContent.startsWith(state.pointed.key)`)
	b.key("Enter")
	b.wait(`document.querySelector('[name=key]').value === state.pointed.key`)
	// 7: the other collection, words from the keyboard, with reasons.
	b.run(`[...document.querySelectorAll('#collections button')].find((b) => b.textContent === 'notes').click()`)
	b.wait(`document.querySelector('#name').textContent === 'notes' && !document.querySelector('#predict').hidden`)
	b.run(`document.activeElement.blur()`)
	b.key("/")
	b.write("harbour wind")
	b.run(`document.querySelector('[name=explain]').checked = true`)
	b.key("Enter")
	b.wait(`document.querySelectorAll('#hits > li').length === 10 && document.querySelector('#hits details ul li')`)
	b.run(`document.querySelector('#hits details').open = true`)
	if b.run(`document.querySelector('#hits b') === null && document.querySelector('#hits').textContent.includes('<b>mast</b>')`) != "true" {
		t.Error("a text of a row is not shown as it is")
	}
	b.picture("7-words")
	// 8: a prediction with its reasons.
	b.run(`document.querySelector('#predict').click()`)
	b.wait(`document.querySelector('#hits .key')?.textContent === 'boats' && document.querySelector('#hits details')`)
	b.run(`document.querySelector('#hits details').open = true`)
	b.picture("8-predict")
	// 9: on dark paper, and on a phone: nothing is wider than the window.
	b.dark(true)
	b.picture("9-dark")
	b.size(390, 844)
	if wide := b.run(`document.documentElement.scrollWidth`); wide != "390" {
		t.Errorf("the page is %s wide on a phone of 390", wide)
	}
	b.picture("9-phone")
	// 10: every field and button has a name for a screen reader, and the address leads back here.
	if b.run(`[...document.querySelectorAll('input, select, textarea, button')].every((e) =>
		e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label'))`) != "true" {
		t.Error("a field or button without a name")
	}
	b.send("Page.reload", map[string]any{}, nil)
	b.wait(`document.querySelector('#name')?.textContent === 'notes'`)
}

// TestPageOfGateway: a gateway of a cluster has no charts, and takes predictions without reasons.
func TestPageOfGateway(t *testing.T) {
	b := newBrowser(t)
	o := quiet()
	refuse := server.Reply(func(http.ResponseWriter, *http.Request) (any, error) {
		return nil, wire.ErrNotBuilt
	})
	const collection = "GET /v1/files/{file}/collections/{collection}"
	o.Handlers = map[string]http.Handler{collection + "/map": refuse, collection + "/recall.svg": refuse}
	s := httptest.NewServer(server.New(map[string]*db.DB{"shop": shown(t)}, o))
	defer s.Close()
	b.send("Page.navigate", map[string]any{"url": s.URL + "#shop/notes"}, nil)
	b.wait(`document.querySelectorAll('#rows tr').length === 10 && !document.querySelector('#predict').hidden`)
	b.run(`document.querySelector('[name=text]').value = 'harbour'`)
	b.run(`document.querySelector('#predict').click()`)
	b.wait(`document.querySelector('#hits .key')?.textContent === 'boats' &&
		!document.querySelector('#hits details')`)
	b.run(`openCollection('pictures').catch((err) => { find('message').textContent = err.message; })`)
	if b.run(`find('message').textContent === '' && find('curve').hidden && find('map').hidden`) != "true" {
		t.Error("a chart is missed: ", b.run(`find('message').textContent`))
	}
}

// TestPageAsksForTheToken: with a token the page loads, asks for it, and then shows the collections.
func TestPageAsksForTheToken(t *testing.T) {
	b := newBrowser(t)
	o := quiet()
	o.Token = "secret"
	s := httptest.NewServer(server.New(map[string]*db.DB{"shop": shown(t)}, o))
	defer s.Close()
	b.send("Page.navigate", map[string]any{"url": s.URL}, nil)
	b.wait(`document.activeElement?.id === 'token'`)
	b.write("wrong")
	b.key("Enter")
	b.wait(`document.querySelector('#message').textContent.includes('token')`)
	b.run(`document.querySelector('#token').value = 'secret'`)
	b.run(`document.querySelector('#token-form').requestSubmit()`)
	b.wait(`document.querySelector('#name').textContent === 'pictures'`)
}

// TestPageFiles: the files of the page are whole in themselves and allowed nothing else.
func TestPageFiles(t *testing.T) {
	h := server.New(map[string]*db.DB{}, quiet())
	for path, want := range map[string]int{
		"/": 200, "/page/app.js": 200, "/page/style.css": 200, "/page/icon.svg": 200, "/page/index.html": 200,
		"/page/none": 404, "/page/": 404, "/page/..%2Fpage.go": 404,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if w.Code != 200 {
			continue
		}
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/") && got != "image/svg+xml" {
			t.Errorf("%s: type %q", path, got)
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
			t.Errorf("%s: policy %q", path, got)
		}
		body := bytes.ReplaceAll(w.Body.Bytes(), []byte("http://www.w3.org/2000/svg"), nil)
		for _, outside := range []string{"http://", "https://", "style=", "innerHTML", "eval("} {
			if bytes.Contains(body, []byte(outside)) {
				t.Errorf("%s has %q", path, outside)
			}
		}
	}
}
