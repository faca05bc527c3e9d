package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/server"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

func TestUpdate(t *testing.T) {
	b := newBed(t, nil)
	c := b.create(db.Schema{Text: &text.Schema{}, Dim: 2})
	b.want(200, "", request{method: "PUT", path: "rows/a", body: `{"text":"old","vector":[1,2],"labels":["x"],"attributes":{"n":1},"payload_base64":"/w=="}`})
	before, err := c.Get([]byte("a"))
	must(t, err)
	for _, step := range []struct{ body, row string }{
		{`{}`, `{"key":"a","text":"old","vector":[1,2],"labels":["x"],"payload_base64":"/w==","attributes":{"n":1}}`},
		{`{"labels":["z","y"],"attributes":{"m":"s"}}`, `{"key":"a","text":"old","vector":[1,2],"labels":["y","z"],"payload_base64":"/w==","attributes":{"m":"s"}}`},
		{`{"payload":"p","labels":null,"expires":"2099-01-01T00:00:00Z"}`, `{"key":"a","text":"old","vector":[1,2],"payload":"p","attributes":{"m":"s"},"expires":"2099-01-01T00:00:00Z"}`},
		{`{"payload":null,"attributes":null,"expires":null}`, `{"key":"a","text":"old","vector":[1,2]}`},
		{`{"text":"new"}`, `{"key":"a","text":"new","vector":[1,2]}`},
		{`{"vector":null}`, `{"key":"a","text":"new","vector":null}`},
	} {
		tag := b.want(200, "", request{method: "PATCH", path: "rows/a", body: step.body}).Header.Get("ETag")
		if got := b.want(200, step.row, request{method: "GET", path: "rows/a"}); got.Header.Get("ETag") != tag {
			t.Errorf("after %s the row has tag %s, not %s", step.body, got.Header.Get("ETag"), tag)
		}
		if strings.Contains(step.body, "labels") {
			if row, _ := c.Get([]byte("a")); row.Row != before.Row {
				t.Errorf("after %s the row has another number", step.body)
			}
		}
	}
	b.want(404, "not_found", request{method: "PATCH", path: "rows/none", body: `{"labels":["x"]}`})
	for _, bad := range []string{`{"bogus":1}`, `{"key":"b"}`, `{"vector":[1]}`, `{"text":7}`, `[]`, `7`} {
		b.want(400, "", request{method: "PATCH", path: "rows/a", body: bad})
	}
}

func TestTransactions(t *testing.T) {
	b := newBed(t, nil)
	c := b.create(db.Schema{Dim: 1})
	const path = "/v1/files/x/transactions"
	send := func(status int, contains, body string) string {
		t.Helper()
		answer, text := b.send(request{method: "POST", path: path, body: body})
		if answer.StatusCode != status || !strings.Contains(text, contains) {
			t.Errorf("%s: %d %s, want %d %s", body, answer.StatusCode, text, status, contains)
		}
		return text
	}
	var done wire.Committed
	answer := send(200, `"versions"`, `{"if":[{"collection":"c","key":"a"}],"operations":[
		{"op":"put","collection":"c","row":{"key":"a","vector":[1]}},
		{"op":"insert","collection":"c","key":"b","row":{"vector":[2]}},
		{"op":"update","collection":"c","key":"b","row":{"labels":["x"]}},
		{"op":"delete","collection":"c","key":"z"}]}`)
	if err := json.Unmarshal([]byte(answer), &done); err != nil || len(done.Versions) != 4 || done.Versions[3] != "" {
		t.Fatalf("%s: %v", answer, err)
	}
	b.want(200, "", request{method: "GET", path: "rows/b"})
	if tag := b.want(200, "", request{method: "GET", path: "rows/b"}).Header.Get("ETag"); tag != `"`+done.Versions[2]+`"` {
		t.Errorf("row b has tag %s, not %s", tag, done.Versions[2])
	}
	// Nothing is changed if any condition or operation fails.
	for _, bad := range []struct {
		status         int
		contains, body string
	}{
		{412, "condition 0", `{"if":[{"collection":"c","key":"a"}],"operations":[{"op":"delete","collection":"c","key":"b"}]}`},
		{412, "condition 1", `{"if":[{"collection":"c","key":"a","version":"` + done.Versions[0] + `"},{"collection":"c","key":"b","version":"0"}],
			"operations":[{"op":"delete","collection":"c","key":"b"}]}`},
		{409, "exists", `{"operations":[{"op":"delete","collection":"c","key":"a"},{"op":"insert","collection":"c","row":{"key":"b","vector":[9]}}]}`},
		{404, "operation 1", `{"operations":[{"op":"delete","collection":"c","key":"a"},{"op":"delete","collection":"none","key":"b"}]}`},
		{404, "operation 1", `{"operations":[{"op":"delete","collection":"c","key":"a"},{"op":"update","collection":"c","key":"none","row":{"labels":[]}}]}`},
		{400, "operation 1", `{"operations":[{"op":"delete","collection":"c","key":"a"},{"op":"put","collection":"c","key":"b","row":{"vector":[1,2]}}]}`},
		{400, "operation 0", `{"operations":[{"op":"drop","collection":"c","key":"a"}]}`},
		{400, "operation 0", `{"operations":[{"op":"put","collection":"c","row":{"vector":[1]}}]}`},
		{400, "operation 0", `{"operations":[{"op":"delete","collection":"c"}]}`},
	} {
		send(bad.status, bad.contains, bad.body)
	}
	if n, err := c.Count(t.Context(), nil); n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestCounter has clients that count in a row, by its version: no step is lost.
func TestCounter(t *testing.T) {
	b := newBed(t, nil)
	c := b.create(db.Schema{Dim: 1}, db.Row{Key: []byte("n"), Vector: []float32{0}})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 10; {
				got, body := b.send(request{method: "GET", path: "rows/n"})
				var row struct{ Vector []float32 }
				if err := json.Unmarshal([]byte(body), &row); err != nil {
					t.Error(err)
					return
				}
				put, body := b.send(request{"PUT", "rows/n", fmt.Sprintf(`{"vector":[%v]}`, row.Vector[0]+1), map[string]string{"If-Match": got.Header.Get("ETag")}})
				switch put.StatusCode {
				case 200:
					done++
				case 412:
				default:
					t.Errorf("%d %s", put.StatusCode, body)
					return
				}
			}
		})
	}
	wg.Wait()
	if row, err := c.Get([]byte("n")); err != nil || row.Vector[0] != 40 {
		t.Errorf("counted to %v, %v", row.Vector, err)
	}
}

func TestStreams(t *testing.T) {
	b := newBed(t, nil)
	data := testRows(3000, 16)
	c := b.create(db.Schema{Dim: 16}, data...)
	for _, form := range []string{"array", "base64"} {
		got, body := b.send(request{method: "GET", path: "rows?vectors=" + form})
		if got.Header.Get("Content-Type") != wire.Lines || strings.Count(body, "\n") != len(data) || strings.Contains(body, `"vector":{"base64":`) != (form == "base64") {
			t.Fatalf("%s: %s, %d lines", form, got.Header.Get("Content-Type"), strings.Count(body, "\n"))
		}
		must(t, b.db.Drop(t.Context(), "c"))
		b.create(db.Schema{Dim: 16})
		lines := request{method: "POST", path: "rows", body: body, header: map[string]string{"Content-Type": wire.Lines}}
		b.want(200, `{"rows":3000}`, lines)
		lines.path = "rows?insert=true"
		b.want(409, `"exists"`, lines)
		i := 0
		for row, err := range c.Rows(t.Context(), nil) {
			if row.Row = 0; err != nil || !reflect.DeepEqual(row, data[i]) {
				t.Fatalf("row %d: %+v, %v\nwant %+v", i, row, err, data[i])
			}
			i++
		}
	}
	_, body := b.send(request{method: "GET", path: "rows?where=n+%3C+2"})
	if strings.Count(body, "\n") != 2 {
		t.Errorf("filtered rows: %s", body)
	}
	_, body = b.send(request{method: "GET", path: "rows?limit=2&where=n+%3E+2"})
	if strings.Count(body, "\n") != 2 {
		t.Errorf("limited rows: %s", body)
	}
	b.want(200, `{"rows":5}`, request{method: "POST", path: "count", body: `{"where":"n >= 10 and n < 15"}`})
	for _, bad := range []request{
		{method: "GET", path: "rows?where=n+%3C"}, {method: "GET", path: "rows?wher=n"}, {method: "GET", path: "rows?vectors=hex"},
		{method: "GET", path: "rows?limit=0"}, {method: "GET", path: "rows?limit=x"},
		{method: "GET", path: "rows?where=none+%3D+1"}, {method: "POST", path: "rows?insert=maybe", header: map[string]string{"Content-Type": wire.Lines}},
		{method: "GET", path: "rows?a;b"},
	} {
		b.want(400, `"invalid"`, bad)
	}
	must(t, b.db.Drop(t.Context(), "c"))
	b.create(db.Schema{Dim: 2})
	for body, want := range map[string]string{
		"":                                    `{"rows":0}`,
		"\n\n":                                ``,
		`{"key":"a","vector":[1,2]}`:          `{"rows":1}`,
		"{\"key\":\"b\",\"vector\":[1,2]}\n{": `an object of several lines`,
		`{"vector":[1,2]}`:                    `has no key`,
		"{\"key\":\"a\",\"vector\":[1,2,3]}":  `"invalid"`,
	} {
		answer, text := b.send(request{method: "POST", path: "rows", body: body, header: map[string]string{"Content-Type": wire.Lines}})
		if !strings.Contains(text, want) || answer.StatusCode != 200 && answer.StatusCode != 400 {
			t.Errorf("%q: %d %s, want %s", body, answer.StatusCode, text, want)
		}
	}
}

func TestPredict(t *testing.T) {
	b := newBed(t, nil)
	var data []db.Row
	for i := range 400 {
		data = append(data, db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%4)}, Features: []vector.Feature{
			{Name: fmt.Sprint("f", i%4), Value: 2}, {Name: fmt.Sprint("g", i%7), Value: 1},
		}})
	}
	c := b.create(db.Schema{Named: true}, data...)
	b.want(200, `"kind":"lcif"`, request{method: "POST", path: "indexes/m", body: `{"kind":"lcif","options":{"Params":{"k":5,"lambda":0.5},"seed":1}}`})
	for _, o := range []*db.PredictOptions{{}, {Top: 3, Explain: true}, {Top: 2, Set: true}, {Params: &lcif.Params{K: 3, Alpha: 1, Beta: 1, Lambda: 1}, Where: nil}} {
		queries := []db.Query{{Features: data[1].Features}, {Key: []byte("7")}, {Features: []vector.Feature{{Name: "unknown", Value: 1}}}}
		want, err := c.PredictBatch(t.Context(), queries, o)
		must(t, err)
		in := wire.NewPredict(o)
		for _, q := range queries {
			in.Queries = append(in.Queries, wire.NewQuery(q))
		}
		body, _ := json.Marshal(in)
		_, text := b.send(request{method: "POST", path: "predict", body: string(body)})
		var out wire.PredictionsList
		if err := wire.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for i := range want {
			if want := wire.NewPredictions(&want[i], true); !reflect.DeepEqual(out.Results[i], *want) {
				t.Errorf("query %d: %+v\nwant %+v", i, out.Results[i], *want)
			}
		}
	}
	b.want(200, `{"labels":[{"label":"l1","score":`, request{method: "POST", path: "predict", body: `{"features":{"f1":1},"top":1}`})
}

// TestDescriptions compares what clients make of descriptions with those of the library.
func TestDescriptions(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, `"name":"c","dim":4,"metric":"cosine"`, request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"c","dim":4,"metric":"cosine","meta":{"model":"m"}}`})
	b.want(409, `"exists"`, request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"c","dim":4}`})
	b.want(400, `"invalid"`, request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"d","dim":4,"metric":"l3"}`})
	b.want(201, `"text":{`, request{method: "POST", path: "/v1/files/x/collections", body: `{"name":"d/e","text":{"analyzer":"words","k1":1.5}}`})
	c := b.db.Collection("c")
	if _, err := c.Load(t.Context(), func(yield func(db.Row, error) bool) {
		for _, r := range testRows(500, 4) {
			yield(r, nil)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	b.want(200, `"kind":"kd"`, request{method: "POST", path: "indexes/main", body: `{}`})
	b.want(200, `"Trees":3`, request{method: "POST", path: "indexes/second", body: `{"kind":"rp","options":{"Trees":3,"NoTune":true}}`})
	b.want(400, `"invalid"`, request{method: "POST", path: "indexes/bad", body: `{"kind":"nonsense"}`})
	b.want(400, `"invalid_json"`, request{method: "POST", path: "indexes/bad", body: `{"kind":"rp","options":{"Bogus":3}}`})
	b.want(200, `"labels":{"l0":167`, request{method: "GET", path: strings.TrimSuffix(coll, "/")})
	b.want(200, `{"files":["x"]}`, request{method: "GET", path: "/v1/files"})
	_, body := b.send(request{method: "GET", path: "/v1/files/x"})
	var out wire.Stats
	must(t, wire.Unmarshal([]byte(body), &out))
	want, err := b.db.Stats()
	must(t, err)
	// Of a zero time and a nil map JSON keeps the meaning only, so the texts are compared.
	gotText, _ := json.Marshal(out.Stats)
	wantText, _ := json.Marshal(want)
	if !bytes.Equal(gotText, wantText) {
		t.Errorf("statistics\n%s\nwant\n%s", gotText, wantText)
	}
	if o, ok := out.Stats.Indexes[1].Given.(*index.Forest); !ok || o.Trees != 3 {
		t.Errorf("given options %+v", out.Stats.Indexes[1].Given)
	}
	_, body = b.send(request{method: "GET", path: "indexes"})
	if !strings.Contains(body, `"curve":{"k":`) {
		t.Errorf("indexes: %s", body)
	}
	b.want(200, `{"steps":[`, request{method: "POST", path: "/v1/files/x/maintain", body: `{}`})
	b.want(200, `{"ok":true,"problems":[]}`, request{method: "POST", path: "/v1/files/x/check"})
	b.want(204, "", request{method: "PATCH", path: "indexes/second", body: `{"default":true}`})
	b.want(200, `"name":"second",`, request{method: "GET", path: "indexes"})
	b.want(400, "", request{method: "PATCH", path: "indexes/second", body: `{"default":false}`})
	b.want(404, "", request{method: "PATCH", path: "indexes/none", body: `{"default":true}`})
	b.want(204, "", request{method: "POST", path: "/v1/files/x/compact", body: `{}`})
	b.want(204, "", request{method: "PATCH", path: "/v1/files/x/collections/d%2Fe", body: `{"name":"f"}`})
	b.want(409, "", request{method: "PATCH", path: "/v1/files/x/collections/f", body: `{"name":"c"}`})
	b.want(400, "", request{method: "PATCH", path: "/v1/files/x/collections/f", body: `{}`})
	b.want(204, "", request{method: "PATCH", path: "/v1/files/x/collections/f", body: `{"name":"d/e"}`})
	b.want(204, "", request{method: "DELETE", path: "indexes/second"})
	b.want(404, "", request{method: "DELETE", path: "indexes/second"})
	b.want(204, "", request{method: "DELETE", path: "/v1/files/x/collections/d%2Fe"})
	b.want(404, `no file \"y\" is served`, request{method: "GET", path: "/v1/files/y"})
	b.want(404, `"not_found"`, request{method: "POST", path: "/v1/files/x/collections/none/search", body: `{"vector":[1]}`})
}

func TestBackup(t *testing.T) {
	b := newBed(t, nil)
	b.create(db.Schema{Dim: 4}, testRows(1000, 4)...)
	answer, body := b.send(request{method: "GET", path: "/v1/files/x/backup"})
	path := filepath.Join(t.TempDir(), "copy.anndb")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil || answer.StatusCode != 200 {
		t.Fatal(err, answer.StatusCode)
	}
	d, err := db.Open(t.Context(), path, &db.Options{ReadOnly: true})
	must(t, err)
	defer d.Close()
	if n, err := d.Collection("c").Count(t.Context(), nil); n != 1000 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestVectorStores(t *testing.T) {
	b := newBed(t, nil)
	b.create(db.Schema{Text: &text.Schema{}})
	for _, store := range []string{"c", "x.c"} {
		path := "/v1/vector_stores/" + store
		b.want(200, `"object":"vector_store.file"`, request{method: "POST", path: path + "/files", body: `{"file_id":"a","text":"red boots","attributes":{"price":30,"filename":"a.txt","new":true}}`})
		b.want(200, ``, request{method: "POST", path: path + "/files", body: `{"file_id":"b","text":"blue boots and red hats","attributes":{"price":10}}`})
		b.want(200, `"price":11`, request{method: "POST", path: path + "/files/b", body: `{"attributes":{"price":11}}`})
		b.want(404, ``, request{method: "POST", path: path + "/files", body: `{"file_id":"none","attributes":{"price":11}}`})
		b.want(400, ``, request{method: "POST", path: path + "/files/b", body: `{"file_id":"b"}`})
		for body, want := range map[string]string{
			`{"query":"boots","max_num_results":1}`:                              `"search_query":["boots"],"data":[{"file_id":"a","filename":"a.txt","score":0.`,
			`{"query":["hats","boots"],"rewrite_query":true}`:                    `"data":[{"file_id":"b"`,
			`{"query":"boots","filters":{"type":"lt","key":"price","value":20}}`: `"data":[{"file_id":"b"`,
			`{"query":"boots","filters":{"type":"and","filters":[{"type":"gte","key":"price","value":11},{"type":"ne","key":"price","value":30}]}}`: `"data":[{"file_id":"b"`,
			`{"query":"boots","filters":{"type":"gt","key":"price","value":11}}`:                                                                    `"data":[{"file_id":"a"`,
			`{"query":"boots","filters":{"type":"lte","key":"price","value":11}}`:                                                                   `"data":[{"file_id":"b"`,
			`{"query":"boots","filters":{"type":"in","key":"price","value":[30,31]}}`:                                                               `"data":[{"file_id":"a"`,
			`{"query":"boots","filters":{"type":"nin","key":"price","value":[30]}}`:                                                                 `"data":[{"file_id":"b"`,
			`{"query":"boots","filters":{"type":"or","filters":[{"type":"eq","key":"new","value":true}]}}`:                                          `"data":[{"file_id":"a"`,
			`{"query":"boots","ranking_options":{"ranker":"auto","score_threshold":0.99}}`:                                                          `"data":[]`,
			`{"query":"nothing"}`: `"data":[],"has_more":false,"next_page":null}`,
		} {
			b.want(200, want, request{method: "POST", path: path + "/search", body: body})
		}
		for _, bad := range []string{
			`{}`, `{"query":7}`, `{"query":[]}`, `{"query":"a","max_num_results":51}`, `{"query":"a","filters":{"type":"like"}}`,
			`{"query":"a","filters":{"type":"in","key":"price","value":3}}`, `{"query":"a","filters":{"type":"eq","key":"price","value":{}}}`,
			`{"query":"a","filters":` + strings.Repeat(`{"type":"and","filters":[`, 20) + strings.Repeat(`]}`, 20) + `}`,
			`{"query":"a","filters":{"type":"and","filters":[null]}}`,
		} {
			answer, text := b.send(request{method: "POST", path: path + "/search", body: bad})
			if answer.StatusCode != 400 && !strings.Contains(bad, "null") {
				t.Errorf("%s: %d %s", bad, answer.StatusCode, text)
			}
		}
		b.want(200, `"usage_bytes":9`, request{method: "GET", path: path + "/files/a"})
		b.want(200, `"deleted":true`, request{method: "DELETE", path: path + "/files/a"})
		b.want(404, ``, request{method: "GET", path: path + "/files/a"})
		b.want(200, ``, request{method: "DELETE", path: path + "/files/b"})
	}
	b.want(404, "", request{method: "POST", path: "/v1/vector_stores/none/search", body: `{"query":"a"}`})
}

// TestAmbiguousStores: of two stores of one name, that of the longer name of a file is meant, every time.
func TestAmbiguousStores(t *testing.T) {
	files := map[string]*db.DB{}
	for name, coll := range map[string]string{"a": "b.c", "a.b": "c", "a.b.c": "d"} {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "x.anndb"), nil)
		must(t, err)
		defer d.Close()
		c, err := d.Create(t.Context(), coll, db.Schema{Text: &text.Schema{}})
		must(t, err)
		must(t, d.Update(t.Context(), func(tx *db.Tx) error {
			return tx.Collection(c.Name()).Put(db.Row{Key: []byte(name), Text: "boots"})
		}))
		files[name] = d
	}
	h := server.New(files, quiet())
	for range 20 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/vector_stores/a.b.c/search", strings.NewReader(`{"query":"boots"}`))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"file_id":"a.b"`) {
			t.Fatal(w.Body.String())
		}
	}
}

func TestMetrics(t *testing.T) {
	b := newBed(t, nil)
	b.create(db.Schema{Dim: 4}, testRows(50, 4)...)
	for range 3 {
		b.want(200, "", request{method: "POST", path: "search", body: `{"key":"k1"}`})
	}
	b.want(404, "", request{method: "GET", path: "/bogus"})
	b.want(200, `{"status":"ok"}`, request{method: "GET", path: "/healthz"})
	b.want(200, `{"status":"ok"}`, request{method: "GET", path: "/readyz"})
	answer, body := b.send(request{method: "GET", path: "/metrics"})
	for _, want := range []string{
		`anndb_requests_total{route="POST /v1/files/{file}/collections/{collection}/search",status="200"} 3`,
		`anndb_requests_total{route="",status="404"} 1`, `anndb_searches_total{file="x"} 3`, `anndb_rows{file="x",collection="c"} 50`,
		`anndb_request_seconds_bucket{route="POST /v1/files/{file}/collections/{collection}/search",le="+Inf"} 3`, "anndb_requests 1\n", "\ngo_goroutines ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s:\n%s", want, body)
		}
	}
	if answer.StatusCode != 200 {
		t.Error(answer.StatusCode)
	}
	// Every line is a comment or a sample with a number.
	for line := range strings.Lines(body) {
		if line[0] != '#' && len(strings.Fields(line)) < 2 {
			t.Errorf("line %q", line)
		}
	}
}
