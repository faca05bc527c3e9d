package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
	"github.com/anndb/anndb/text"
)

// bed is a served database.
type bed struct {
	t    *testing.T
	db   *db.DB
	s    *server.Server
	url  string
	http *http.Client
	log  *record
}

// record is a log that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// newBed serves an empty database on a socket of its own.
func newBed(t *testing.T, o *server.Options) *bed {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "x.anndb"),
		&db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	must(t, err)
	b := &bed{t: t, db: d, http: &http.Client{Transport: &http.Transport{}}, log: &record{}}
	if o == nil {
		o = &server.Options{}
	}
	o.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	b.s = server.New(map[string]*db.DB{"x": d}, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b.url = "http://" + l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- b.s.Serve(l) }()
	t.Cleanup(func() {
		b.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := b.s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// request is what a test sends. The path begins with that of the file if it has no slash.
type request struct {
	method, path, body string
	header             map[string]string
}

// coll is the path of the collection of most tests.
const coll = "/v1/files/x/collections/c/"

// send sends a request, with the type of JSON if it has a body.
func (b *bed) send(q request) (*http.Response, string) {
	b.t.Helper()
	if !strings.HasPrefix(q.path, "/") {
		q.path = coll + q.path
	}
	r, err := http.NewRequestWithContext(b.t.Context(), q.method, b.url+q.path, strings.NewReader(q.body))
	if err != nil {
		b.t.Fatal(err)
	}
	if q.body != "" {
		r.Header.Set("Content-Type", wire.JSON)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	answer, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	if !b.s.Documented(r, answer.StatusCode) {
		b.t.Errorf("openapi.json has no status %d of %s %s", answer.StatusCode, q.method, q.path)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer, string(body)
}

// want sends a request and wants a status, and an answer that contains a text.
func (b *bed) want(status int, contains string, q request) *http.Response {
	b.t.Helper()
	answer, body := b.send(q)
	if answer.StatusCode != status || !strings.Contains(body, contains) {
		b.t.Errorf("%s %s %.100s: %d %s, want %d and %q", q.method, q.path, q.body, answer.StatusCode, body, status, contains)
	}
	return answer
}

// create makes the collection c with rows.
func (b *bed) create(schema db.Schema, rows ...db.Row) db.Collection {
	b.t.Helper()
	c, err := b.db.Create(b.t.Context(), "c", schema)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := c.Load(b.t.Context(), func(yield func(db.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}, nil); err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestRows(t *testing.T) {
	b := newBed(t, nil)
	c := b.create(db.Schema{Dim: 2})
	line := `{"key":"a","vector":[1,2.5],"labels":["x"],"payload":"p","attributes":{"n":1,"t":{"$time":"2026-01-02T03:04:05Z"}}}`
	put := b.want(200, `"version"`, request{method: "PUT", path: "rows/a", body: line})
	got, body := b.send(request{method: "GET", path: "rows/a"})
	if strings.TrimSpace(body) != line || got.Header.Get("ETag") != put.Header.Get("ETag") {
		t.Errorf("row %s with tag %s, want that of PUT, %s", body, got.Header.Get("ETag"), put.Header.Get("ETag"))
	}
	tag := got.Header.Get("ETag")
	b.want(304, "", request{method: "GET", path: "rows/a", header: map[string]string{"If-None-Match": tag}})
	// The key in the body is optional, vectors have two forms, and equal rows have equal versions.
	same := strings.Replace(strings.Replace(line, `"key":"a",`, "", 1), "[1,2.5]", `{"base64":"AACAPwAAIEA="}`, 1)
	if again := b.want(200, "", request{method: "PUT", path: "rows/a", body: same}); again.Header.Get("ETag") != tag {
		t.Errorf("an equal row has tag %s, not %s", again.Header.Get("ETag"), tag)
	}
	for _, q := range []request{
		{"PUT", "rows/a", `{"vector":[3,4]}`, map[string]string{"If-Match": `"0"`}},
		{"PUT", "rows/b", `{"vector":[3,4]}`, map[string]string{"If-Match": `*`}},
		{"DELETE", "rows/a", "", map[string]string{"If-Match": `"0"`}},
	} {
		b.want(412, `"changed"`, q)
	}
	b.want(409, `"exists"`, request{"PUT", "rows/a", `{"vector":[3,4]}`, map[string]string{"If-None-Match": "*"}})
	b.want(200, "", request{"PUT", "rows/b", `{"vector":[3,4]}`, map[string]string{"If-None-Match": "*"}})
	b.want(200, "", request{"PUT", "rows/a", `{"vector":[3,4]}`, map[string]string{"If-Match": `"1", ` + tag}})
	b.want(204, "", request{method: "DELETE", path: "rows/a"})
	b.want(404, `"not_found"`, request{method: "GET", path: "rows/a"})
	b.want(400, `"invalid_json"`, request{method: "PUT", path: "rows/a", body: `{"vector":[1,2],"bogus":1}`})
	b.want(400, `"invalid_json"`, request{method: "PUT", path: "rows/a", body: `{"key":"b","vector":[1,2]}`})
	b.want(400, `"invalid"`, request{method: "PUT", path: "rows/a", body: `{"vector":[1,2,3]}`})
	// Keys are bytes: any can be in a path.
	for _, key := range []string{"a/b", "..", ".", "\x00\xff", "ü?#%", "a b"} {
		path := "rows/" + wire.PathKey([]byte(key))
		b.want(200, "", request{method: "PUT", path: path, body: `{"vector":[5,6]}`})
		if has, err := c.Has([]byte(key)); !has || err != nil {
			t.Errorf("row %q is not stored: %v", key, err)
		}
		b.want(200, `[5,6]`, request{method: "GET", path: path})
	}
}

// TestVersions compares the version that a write returns with that of a read, in all kinds of collections.
func TestVersions(t *testing.T) {
	for name, k := range map[string]struct {
		schema db.Schema
		rows   []string
	}{
		"dense":    {db.Schema{Dim: 2}, []string{`{"vector":[1,2],"labels":["b","a"]}`, `{"vector":[1e-3,0],"expires":"2099-01-01T00:00:00.123456789Z"}`}},
		"named":    {db.Schema{Named: true}, []string{`{"features":{"b":1,"a":2}}`, `{"features":{}}`}},
		"sparse":   {db.Schema{Sparse: true}, []string{`{"features":{"indices":[5,1],"values":[0,1]}}`, `{"features":{"indices":[],"values":[]}}`}},
		"texts":    {db.Schema{Text: &text.Schema{}}, []string{`{"text":"some words"}`}},
		"both":     {db.Schema{Text: &text.Schema{}, Dim: 2}, []string{`{"text":"a","vector":[1,2]}`, `{"text":"a"}`, `{"vector":[1,2]}`}},
		"features": {db.Schema{Named: true, Dim: 2}, []string{`{"features":{"b":1},"vector":[1,2]}`, `{"features":{"b":1}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			b.create(k.schema)
			for _, row := range k.rows {
				put := b.want(200, "", request{method: "PUT", path: "rows/k", body: row})
				got, body := b.send(request{method: "GET", path: "rows/k"})
				if put.Header.Get("ETag") != got.Header.Get("ETag") {
					t.Errorf("%s: stored as %s, read as %s %s", row, put.Header.Get("ETag"), got.Header.Get("ETag"), body)
				}
				if again := b.want(200, "", request{method: "PUT", path: "rows/k", body: body}); again.Header.Get("ETag") != got.Header.Get("ETag") {
					t.Errorf("%s: what was read has another version once it is stored", row)
				}
			}
		})
	}
}

// testRows are rows of two clusters.
func testRows(n, dim int) (rows []db.Row) {
	for i := range n {
		r := db.Row{Key: fmt.Append(nil, "k", i), Labels: []string{fmt.Sprint("l", i%3)}, Attributes: map[string]any{"n": int64(i)}, Payload: []byte{byte(i)}}
		for j := range dim {
			r.Vector = append(r.Vector, float32((i*7919+j*104729)%1000)/7)
		}
		rows = append(rows, r)
	}
	return rows
}

func TestSearch(t *testing.T) {
	b := newBed(t, nil)
	data := testRows(2000, 8)
	c := b.create(db.Schema{Dim: 8}, data...)
	if _, err := c.Build(t.Context(), "main", &index.Forest{Seed: 1}, nil); err != nil {
		t.Fatal(err)
	}
	radius := 120.0
	for i, o := range []*db.SearchOptions{
		{}, {K: 3, Index: db.Flat}, {K: 5, Recall: 0.99}, {Radius: &radius}, {Recall: 1, Include: db.Labels | db.Payload | db.Attributes},
		{After: []db.Hit{{Key: []byte("k7")}}}, {Index: db.Flat, Explain: true}, {Explain: true},
	} {
		q := db.Query{Vector: data[i].Vector}
		if i == 1 {
			q = db.Query{Key: []byte("k3")}
		}
		want, err := c.Search(t.Context(), q, o)
		must(t, err)
		in := wire.NewSearch(o)
		in.Query = wire.NewQuery(q)
		body, err := json.Marshal(in)
		must(t, err)
		answer, text := b.send(request{method: "POST", path: "search", body: string(body)})
		var out wire.Result
		if err := wire.Unmarshal([]byte(text), &out); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%s: %d %s, %v", body, answer.StatusCode, text, err)
		}
		got, err := out.Get()
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("options %d: %+v\nwant %+v", i, got, want)
		}
		if out.Plan != want.Plan() {
			t.Errorf("plan %q", out.Plan)
		}
	}
	first, _ := json.Marshal(data[0].Vector)
	row0 := string(first)
	b.want(200, `{"hits":[{"key":"k0","row":0,"distance":0},`, request{method: "POST", path: "search", body: `{"vector":` + row0 + `,"k":2,"where":"n < 5","rank":{}}`})
	b.want(200, `{"results":[{"hits":[{"key":"k2","row":2,`, request{method: "POST", path: "search", body: `{"queries":[{"key":"k1"},{"key":"k2"}],"k":1,"where":"n < 3"}`})
}

// TestReplacedRoute takes the place of a route: the handler has the route's limits, and sees any file.
func TestReplacedRoute(t *testing.T) {
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, deadline := r.Context().Deadline()
		fmt.Fprintf(w, "%s %s %v %v", r.PathValue("file"), body, err, deadline)
	})
	b := newBed(t, &server.Options{MaxRequests: 1, Handlers: map[string]http.Handler{
		"POST /v1/files/{file}/transactions": own, "GET /readyz": own,
	}})
	for path, want := range map[string]string{
		"/v1/files/other/transactions": "other body <nil> true", "/readyz": "  <nil> false",
	} {
		method, body := "GET", ""
		if strings.HasSuffix(path, "s") {
			method, body = "POST", "body"
		}
		q, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
		must(t, err)
		answer, err := b.http.Do(q)
		must(t, err)
		got, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}
