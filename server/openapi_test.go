package server

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/golden"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// described is a route in openapi.json.
type described struct {
	summary  string
	body     any // of the request: a type of wire, a kind of content, or nil
	answer   any // the same of the answer
	statuses []int
}

// content is a body that is not JSON of a type.
type content string

// row is JSON of the form of a jsonl file.
type row struct{}

var (
	write        = []int{400, 408, 413, 415, 404, 412, 409, 507, 403}
	descriptions = map[string]described{
		"GET /{$}":                                     {"A page to look at the files.", nil, content("text/html"), []int{404}},
		"GET /page/{name}":                             {"A file of the page.", nil, content("*/*"), []int{404}},
		"GET " + collection + "/map":                   {"Places of rows in the plane.", nil, wire.Map{}, []int{400, 404, 422}},
		"GET " + collection + "/recall.svg":            {"A picture of the recall and the time of tuned indexes.", nil, content("image/svg+xml"), []int{404}},
		"GET /healthz":                                 {"Reports that the process answers.", nil, status{}, nil},
		"GET /readyz":                                  {"Reports whether all files are open and the server accepts work.", nil, status{}, []int{503}},
		"GET /openapi.json":                            {"This description.", nil, content(wire.JSON), nil},
		"GET /metrics":                                 {"Counts in the text format of Prometheus.", nil, content("text/plain"), nil},
		"GET /v1/files":                                {"Lists the names of the files.", nil, wire.Files{}, nil},
		"GET /v1/files/{file}":                         {"Describes a file with its collections and indexes.", nil, wire.Stats{}, []int{404}},
		"POST /v1/files/{file}/check":                  {"Verifies the file. Damage is in the answer.", nil, wire.Checked{}, []int{404}},
		"POST /v1/files/{file}/maintain":               {"Makes indexes cover all rows.", wire.Maintain{}, wire.Maintained{}, []int{400, 404, 408, 413, 415}},
		"POST /v1/files/{file}/compact":                {"Rewrites the file without free pages, with reorder near rows together.", wire.Compact{}, nil, append([]int{500}, write...)},
		"PATCH " + collection:                          {"Changes the schema of a collection, or its name.", wire.CollectionChange{}, nil, append([]int{422}, write...)},
		"PATCH " + collection + "/indexes/{index}":     {"Makes an index the default one of its purpose.", wire.IndexChange{}, nil, write},
		"GET /v1/files/{file}/backup":                  {"Sends a copy of the file.", nil, content("application/octet-stream"), []int{404}},
		"POST /v1/files/{file}/transactions":           {"Makes all changes, or none, if all conditions hold.", wire.Transaction{}, wire.Committed{}, write},
		"GET /v1/files/{file}/collections":             {"Lists the collections.", nil, wire.Collections{}, []int{404}},
		"POST /v1/files/{file}/collections":            {"Creates a collection.", wire.NewCollection{}, db.CollectionInfo{}, write},
		"GET " + collection:                            {"Describes a collection.", nil, wire.Collection{}, []int{404}},
		"DELETE " + collection:                         {"Drops a collection.", nil, nil, []int{404}},
		"GET " + collection + "/rows":                  {"Sends the rows that a filter selects, one a line.", nil, content(wire.Lines), []int{400, 404}},
		"POST " + collection + "/rows":                 {"Stores rows, one a line, while they arrive.", content(wire.Lines), wire.Loaded{}, write},
		"GET " + collection + "/rows/{key}":            {"Gets a row. Its ETag is its version.", nil, row{}, []int{304, 400, 404}},
		"PUT " + collection + "/rows/{key}":            {"Stores a row, with If-Match over that version only, with If-None-Match: * a new one only.", row{}, wire.Stored{}, write},
		"PATCH " + collection + "/rows/{key}":          {"Replaces parts of a row; null removes one.", row{}, wire.Stored{}, write},
		"DELETE " + collection + "/rows/{key}":         {"Deletes a row.", nil, nil, []int{400, 404, 412, 507, 403}},
		"POST " + collection + "/search":               {"Finds the rows nearest to a query, or to each of queries (Results).", wire.Search{}, wire.Result{}, []int{400, 404, 408, 413, 415}},
		"POST " + collection + "/predict":              {"Predicts the labels of a query, or of each of queries (PredictionsList).", wire.Predict{}, db.Predictions{}, []int{400, 404, 408, 413, 415}},
		"POST " + collection + "/count":                {"Counts the rows that a filter selects.", wire.Count{}, wire.Counted{}, []int{400, 404, 408, 413, 415}},
		"GET " + collection + "/indexes":               {"Describes the indexes.", nil, wire.Indexes{}, []int{404}},
		"POST " + collection + "/indexes/{index}":      {"Builds an index.", wire.Build{}, index.Info{}, append([]int{422}, write...)},
		"DELETE " + collection + "/indexes/{index}":    {"Drops an index.", nil, nil, []int{404}},
		"POST /v1/vector_stores/{store}/search":        {"OpenAI's search of a vector store, FILE.COLLECTION.", storeSearch{}, storeResults{}, []int{400, 404, 408, 413, 415}},
		"POST /v1/vector_stores/{store}/files":         {"Stores a text, or gives attributes to a row.", storeUpdate{}, storeFile{}, write},
		"GET /v1/vector_stores/{store}/files/{key}":    {"Describes a row as a file.", nil, storeFile{}, []int{404}},
		"POST /v1/vector_stores/{store}/files/{key}":   {"Changes attributes, or the text.", storeUpdate{}, storeFile{}, write},
		"DELETE /v1/vector_stores/{store}/files/{key}": {"Deletes a row.", nil, storeDeleted{}, []int{404}},
	}
)

// status is the answer of the routes for probes.
type status struct {
	Status string `json:"status"`
}

type object = map[string]any

// schemas makes JSON schemas of types.
type schemas object

// of returns the schema of a type, a reference for a struct.
func (s schemas) of(t reflect.Type) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem())
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case t == reflect.TypeFor[row]():
		return object{"$ref": "#/components/schemas/Row"}
	case t == reflect.TypeFor[wire.Vector]():
		return object{"oneOf": []any{
			object{"type": "array", "items": object{"type": "number"}},
			object{"type": "object", "description": "float32 in little-endian order", "properties": object{"base64": object{"type": "string"}}},
		}}
	case t == reflect.TypeFor[explain.Key]():
		return object{"oneOf": []any{
			object{"type": "string"},
			object{"type": "object", "properties": object{"base64": object{"type": "string", "contentEncoding": "base64"}}},
		}}
	case t == reflect.TypeFor[wire.Features]():
		return object{"type": "object", "description": `{"name": value} or {"indices": [], "values": []}`}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Struct:
		name := t.Name()
		if name == "" {
			return s.structOf(t)
		}
		if p := path.Base(t.PkgPath()); p != "wire" && p != "server" {
			name = p + "." + name
		}
		if _, ok := s[name]; !ok {
			s[name] = nil // it may have itself as a part
			s[name] = s.structOf(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{"type": "integer"}
}

func (s schemas) structOf(t reflect.Type) object {
	properties := object{}
	s.fields(t, properties)
	return object{"type": "object", "properties": properties}
}

func (s schemas) fields(t reflect.Type, into object) {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			embedded = append(embedded, f.Type)
		default:
			name = cmp.Or(name, f.Name)
			if into[name] == nil { // otherwise the struct that embeds this one has the field
				into[name] = s.of(f.Type)
			}
		}
	}
	for _, t := range embedded {
		s.fields(t, into)
	}
}

var parts = regexp.MustCompile(`\{(\w+)\}`)

// TestOpenAPI compares openapi.json with the routes and the types of requests and answers.
func TestOpenAPI(t *testing.T) {
	s := schemas{}
	s.of(reflect.TypeFor[wire.Results]())
	s.of(reflect.TypeFor[wire.PredictionsList]())
	s["Row"] = object{
		"type": "object", "description": "A row as in jsonl files: one of vector, features and text, or a vector with one of these.",
		"properties": object{
			"key": object{"type": "string"}, "key_base64": object{"type": "string", "contentEncoding": "base64"},
			"vector": s.of(reflect.TypeFor[wire.Vector]()), "features": s.of(reflect.TypeFor[wire.Features]()), "text": object{"type": "string"},
			"labels": object{"type": "array", "items": object{"type": "string"}}, "expires": object{"type": "string"}, "payload": object{},
			"payload_base64": object{"type": "string", "contentEncoding": "base64"}, "attributes": s.of(reflect.TypeFor[wire.Attributes]()),
		},
	}
	paths := object{}
	for _, r := range routes {
		d, ok := descriptions[r.pattern]
		if !ok {
			t.Errorf("%s is not described", r.pattern)
			continue
		}
		method, route, _ := strings.Cut(r.pattern, " ")
		if paths[route] == nil {
			paths[route] = object{}
		}
		paths[route].(object)[strings.ToLower(method)] = s.operation(&r, d)
	}
	if len(descriptions) != len(routes) {
		t.Errorf("%d routes are described, there are %d", len(descriptions), len(routes))
	}
	errors := object{"Error": object{
		"description": "error", "content": object{wire.JSON: object{"schema": s.of(reflect.TypeFor[wire.Failure]())}},
	}}
	golden.Compare(t, "../openapi.json", oneALine(t, object{
		"openapi": "3.1.0", "info": object{"title": "anndb", "version": "1"}, "paths": paths,
		"components": object{
			"schemas": object(s), "responses": errors,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}))
}

// oneALine returns the JSON of a description with a line for each method of a path and for each component.
func oneALine(t *testing.T, doc object) string {
	var b strings.Builder
	var add func(v any, depth int)
	add = func(v any, depth int) {
		o, ok := v.(object)
		if !ok || depth == 3 {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
			return
		}
		b.WriteString("{")
		for i, name := range slices.Sorted(maps.Keys(o)) {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "\n%s%q: ", strings.Repeat("  ", depth+1), name)
			add(o[name], depth+1)
		}
		b.WriteString("\n" + strings.Repeat("  ", depth) + "}")
	}
	add(doc, 0)
	return b.String() + "\n"
}

// operation describes a route.
func (s schemas) operation(r *route, d described) object {
	body := func(v any) object {
		if kind, ok := v.(content); ok {
			return object{string(kind): object{}}
		}
		return object{wire.JSON: object{"schema": s.of(reflect.TypeOf(v))}}
	}
	parameters := []any{}
	for _, m := range parts.FindAllStringSubmatch(r.pattern, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, name := range r.names {
		parameters = append(parameters, object{"name": name, "in": "query", "schema": object{"type": "string"}})
	}
	answers := object{}
	failure := object{"$ref": "#/components/responses/Error"}
	statuses := d.statuses
	if !r.public {
		statuses = append([]int{401, 403, 429, 500, 503, 504}, statuses...)
	}
	for _, status := range statuses {
		answers[fmt.Sprint(status)] = failure
		if status == 304 {
			answers["304"] = object{"description": "unchanged"}
		}
	}
	switch {
	case d.answer == nil:
		answers["204"] = object{"description": "done"}
	case r.pattern == "POST /v1/files/{file}/collections":
		answers["201"] = object{"description": "created", "content": body(d.answer)}
	default:
		answers["200"] = object{"description": "answer", "content": body(d.answer)}
	}
	op := object{"summary": d.summary, "parameters": parameters, "responses": answers}
	if d.body != nil {
		op["requestBody"] = object{"required": true, "content": body(d.body)}
	}
	if !r.public {
		op["security"] = []any{object{"token": []any{}}}
	}
	return op
}

// Documented reports whether openapi.json has a status for a request.
func (s *Server) Documented(r *http.Request, status int) bool {
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(openapi, &doc); err != nil {
		return false
	}
	_, pattern := s.mux.Handler(r)
	_, route, found := strings.Cut(pattern, " ")
	_, ok := doc.Paths[route][strings.ToLower(r.Method)].Responses[fmt.Sprint(status)]
	return ok || !found || status == http.StatusNotFound // of a path that is not clean
}

// TestRunning: the statistics of a file have the progress of its long calls, until they end.
func TestRunning(t *testing.T) {
	s := New(nil, nil)
	c := &call{s: s, r: httptest.NewRequest(http.MethodPost, "/v1/files/x/compact", nil), file: &db.DB{}}
	err := c.run(func(run *db.Run) error {
		run.Progress("copy", 1, 2)
		got := s.running.of(c.file)
		if len(got) != 1 || got[0].Call != "POST /v1/files/x/compact" || got[0].Stage != "copy" || got[0].Done != 1 ||
			got[0].Total != 2 || len(s.running.of(&db.DB{})) > 0 {
			t.Errorf("%+v", got)
		}
		return db.ErrLinked
	})
	if err != db.ErrLinked || len(s.running.of(c.file)) > 0 {
		t.Error(err, s.running.of(c.file))
	}
}

// TestRowForm compares the description of a row with what is written.
func TestRowForm(t *testing.T) {
	full := db.Row{
		Key: []byte{0xff}, Vector: []float32{1}, Features: []vector.Feature{{Name: "f", Value: 1}}, Text: "t", Labels: []string{"l"},
		Attributes: map[string]any{"n": 1.0}, ExpiresAt: time.Unix(1, 0), Payload: []byte{0xff},
	}
	plain := full
	plain.Key, plain.Payload = []byte("k"), []byte("p")
	have := map[string]bool{}
	for _, r := range []db.Row{full, plain} {
		for _, schema := range []db.Schema{{Dim: 1, Named: true}, {Text: &text.Schema{}}} {
			line, err := rows.AppendJSON(nil, &r, rows.Schema(&db.CollectionInfo{Schema: schema}))
			if err != nil {
				t.Fatal(err)
			}
			fields := map[string]any{}
			if err := json.Unmarshal(line, &fields); err != nil {
				t.Fatal(err)
			}
			for name := range fields {
				have[name] = true
			}
		}
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for name := range doc.Components.Schemas["Row"].Properties {
		described[name] = true
	}
	if !reflect.DeepEqual(have, described) {
		t.Errorf("rows have %v, described are %v", have, described)
	}
}
