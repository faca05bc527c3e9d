package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/server"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// shop is a database of four kinds of collections.
func shop(t *testing.T) string {
	t.Helper()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "shop.anndb")
	d, err := db.Open(ctx, path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	check(t, err)
	docs, err := d.Create(ctx, "docs", db.Schema{Text: &text.Schema{Analyzer: text.English}})
	check(t, err)
	_, err = d.Create(ctx, "both", db.Schema{
		Text: &text.Schema{}, Dim: 2, Metric: vector.Cosine, Meta: map[string]string{"model": "tiny"},
	})
	check(t, err)
	_, err = d.Create(ctx, "points", db.Schema{Dim: 2})
	check(t, err)
	_, err = d.Create(ctx, "named", db.Schema{Named: true})
	check(t, err)
	check(t, d.Update(ctx, func(tx *db.Tx) error {
		for i := range 60 {
			color, word := "red", "apples and cherries"
			if i%2 == 1 {
				color, word = "blue", "the sky and the sea"
			}
			row := db.Row{
				Key: fmt.Appendf(nil, "d%02d", i), Text: fmt.Sprintf("page %d about %s", i, word), Labels: []string{color},
				Attributes: map[string]any{
					"price": i, "brand": "acme", "big": i > 30, "added": time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC),
				},
				Payload: []byte("note"),
			}
			if err := tx.Collection("docs").Put(row); err != nil {
				return err
			}
		}
		long := strings.Repeat("filler words that nobody looks for. ", 1000) + "The needle is here. " +
			strings.Repeat("more of the same words. ", 400)
		return errors.Join(
			tx.Collection("docs").Put(db.Row{Key: []byte("long"), Text: long, Payload: []byte(strings.Repeat("p", 1000))}),
			tx.Collection("docs").Put(db.Row{Key: []byte("binary\xff"), Text: "zebra", Payload: []byte{0xff, 0}}),
			tx.Collection("both").Put(db.Row{Key: []byte("a"), Text: "one word", Vector: []float32{1, 0}}),
			tx.Collection("both").Put(db.Row{Key: []byte("b"), Text: "another word", Vector: []float32{0, 1}}),
			tx.Collection("points").Put(db.Row{Key: []byte("p"), Vector: []float32{3, 4}}),
			tx.Collection("points").Put(db.Row{Key: []byte("q"), Vector: []float32{0, 0}}),
			tx.Collection("named").Put(db.Row{Key: []byte("x"), Features: []vector.Feature{{Name: "goal", Value: 2}}}),
		)
	}))
	_, err = docs.Build(ctx, "labels", &index.LCIF{}, nil)
	check(t, err)
	check(t, d.Close())
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// agent is a client of a server in this process.
type agent struct {
	*testing.T
	session *mcp.ClientSession
}

func connect(t *testing.T, path string, write bool) agent {
	t.Helper()
	d, err := Open(context.Background(), path)
	check(t, err)
	return offer(t, d, write)
}

// offer connects an agent to a server of a database.
func offer(t *testing.T, d Database, write bool) agent {
	t.Helper()
	ctx := context.Background()
	t.Cleanup(func() { check(t, d.Close()) })
	here, there := mcp.NewInMemoryTransports()
	_, err := New(d, "test", write).Connect(ctx, there, nil)
	check(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(ctx, here, nil)
	check(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return agent{t, session}
}

type object = map[string]any

// call calls a tool and decodes its structured answer, which its text repeats.
func (a agent) call(tool string, arguments object, answer any) {
	a.Helper()
	reflect.ValueOf(answer).Elem().SetZero()
	res, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	check(a.T, err)
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		a.Fatalf("%s %v: %s", tool, arguments, text)
	}
	structured, err := json.Marshal(res.StructuredContent)
	check(a.T, err)
	check(a.T, json.Unmarshal(structured, answer))
	var x, y any
	check(a.T, errors.Join(json.Unmarshal(structured, &x), json.Unmarshal([]byte(text), &y)))
	if fmt.Sprint(x) != fmt.Sprint(y) {
		a.Errorf("%s: the text is not the structured answer: %s", tool, text)
	}
}

// refused calls a tool and returns its error.
func (a agent) refused(tool string, arguments object) string {
	a.Helper()
	res, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	check(a.T, err)
	if !res.IsError {
		a.Fatalf("%s %v is answered", tool, arguments)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func (a agent) want(got, want any) {
	a.Helper()
	if x, y := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); x != y {
		a.Errorf("got %s, want %s", x, y)
	}
}

func keysOf(hits []hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Key)
	}
	return out
}

func TestToolsAreDescribed(t *testing.T) {
	path := shop(t)
	for _, write := range []bool{false, true} {
		a := connect(t, path, write)
		if !strings.Contains(a.session.InitializeResult().Instructions, "Begin with list") {
			t.Error("no instructions")
		}
		list, err := a.session.ListTools(context.Background(), nil)
		check(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			reads := tool.Name != "put" && tool.Name != "delete"
			if tool.Description == "" || tool.OutputSchema == nil || tool.Annotations.ReadOnlyHint != reads {
				t.Errorf("%s: %+v", tool.Name, tool)
			}
			fieldsDescribed(t, tool.Name, tool.InputSchema)
			fieldsDescribed(t, tool.Name, tool.OutputSchema)
		}
		want := "[explain get list predict rows search]"
		if write {
			want = "[delete explain get list predict put rows search]"
		}
		a.want(names, want)
	}
}

// fieldsDescribed fails for a field without a description.
func fieldsDescribed(t *testing.T, tool string, schema any) {
	if items, ok := schema.(object)["items"]; ok {
		fieldsDescribed(t, tool, items)
	}
	properties, _ := schema.(object)["properties"].(object)
	for name, p := range properties {
		if p.(object)["description"] == nil {
			t.Errorf("%s: field %s has no description", tool, name)
		}
		fieldsDescribed(t, tool, p)
	}
}

func TestList(t *testing.T) {
	a := connect(t, shop(t), false)
	var out listOutput
	a.call("list", nil, &out)
	a.want(len(out.Collections), 4)
	docs := out.Collections[0]
	a.want([]any{docs.Name, docs.Rows, docs.SearchableBy, docs.LabelCount, docs.Labels["red"]},
		"[docs 62 [text like, the key of a row] 2 30]")
	a.want(docs.Attributes, "map[added:map[$time:2026-01-01T00:00:00Z] big:false brand:acme price:0]")
	a.want(docs.Indexes, "[{labels lcif true true}]")
	a.want(docs.Keys, "[d00 d01 d02]")
	a.want(out.Collections[1].SearchableBy, "[text vector of 2 numbers like, the key of a row]")
	a.want(out.Collections[1].Meta, "map[model:tiny]")
	a.call("list", object{"collection": "points"}, &out)
	a.want(out.Collections[0].Name, "points")
	a.want(a.refused("list", object{"collection": "pints"}),
		`there is no collection "pints"; collection is one of: docs, both, points, named`)
}

func TestSearch(t *testing.T) {
	a := connect(t, shop(t), false)
	var out searchOutput
	a.call("search", object{"collection": "docs", "text": "+cherry page unheard", "k": 2, "filter": "price >= 6"}, &out)
	if len(out.Hits) != 2 || *out.Hits[0].Score <= 0 || out.Hits[0].Distance != nil ||
		!strings.Contains(out.Meaning, "BM25") || out.Plan == "" {
		t.Errorf("%+v", out)
	}
	a.want(out.Hits[0].Labels, "[red]")
	a.want(out.Hits[0].Payload, "note")
	a.want(out.Notes, "[No row has: unheard]")

	a.call("search", object{"collection": "docs", "text": "needle"}, &out)
	h := out.Hits[0]
	if !strings.Contains(h.Text, "needle is here") || len(h.Text) > 600 || h.TextLength < 40_000 {
		t.Errorf("the passage is %d characters of %d: %q", len(h.Text), h.TextLength, h.Text)
	}
	a.want(h.Cut, "the end of the payload of 1000 bytes")
	a.want(out.Notes, "[Texts with text_length are passages: get shows the whole text of a row.]")

	a.call("search", object{"collection": "docs", "text": "giraffe"}, &out)
	a.want(len(out.Hits), 0)
	a.want(len(out.Notes), 2)
	a.call("search", object{"collection": "docs", "text": "zebra"}, &out)
	if !strings.Contains(out.Hits[0].Cut, `"binary\xff"`) || !strings.Contains(out.Hits[0].Cut, "2 bytes that are no text") {
		t.Errorf("cut: %q", out.Hits[0].Cut)
	}

	a.call("search", object{"collection": "both", "text": "one", "vector": []float32{0, 1}}, &out)
	a.want(keysOf(out.Hits), "[a b]")
	a.want([]int{out.Hits[0].TextRank, out.Hits[0].VectorRank}, "[1 2]")
	a.call("search", object{"collection": "both", "vector": []float32{0, 1}, "recall": 1}, &out)
	a.want(keysOf(out.Hits), "[b a]")
	a.want(*out.Hits[0].Distance, 0)
	a.call("search", object{"collection": "points", "vector": []float32{3, 0}}, &out)
	a.want(keysOf(out.Hits), "[q p]")
	a.want(*out.Hits[1].Distance, 4)
	a.call("search", object{"collection": "points", "like": "p"}, &out)
	a.want(keysOf(out.Hits), "[q]")
	a.call("search", object{"collection": "named", "features": object{"goal": 1}}, &out)
	a.want(keysOf(out.Hits), "[x]")
}

func TestAnswersAreBounded(t *testing.T) {
	a := connect(t, shop(t), true)
	var rows []object
	for i := range 40 {
		rows = append(rows, object{"key": fmt.Sprint("w", i), "text": strings.Repeat("wide words ", 500)})
	}
	a.call("put", object{"collection": "docs", "rows": rows}, &putOutput{})
	var out searchOutput
	a.call("search", object{"collection": "docs", "text": "wide", "k": 100, "max_text": 5000}, &out)
	if len(out.Hits) >= 20 || len(out.Hits) < 5 || !strings.Contains(out.Notes[0], "of 40 fit") {
		t.Errorf("%d hits, %v", len(out.Hits), out.Notes)
	}
	var list rowsOutput
	a.call("rows", object{"collection": "docs", "filter": "key prefix w", "n": 100, "max_text": 5000}, &list)
	a.want(list.Count, 40)
	a.want(list.Next, len(list.Rows))
}

func TestRowsAndGet(t *testing.T) {
	a := connect(t, shop(t), false)
	var out rowsOutput
	a.call("rows", object{"collection": "docs", "filter": "price < 25 and label = red", "skip": 10, "n": 2}, &out)
	a.want([]any{out.Count, len(out.Rows), out.Rows[0].Key, out.Next}, "[13 2 d20 12]")
	a.call("rows", object{"collection": "docs", "filter": "price < 25 and label = red", "skip": 12}, &out)
	a.want([]any{len(out.Rows), out.Next}, "[1 0]")
	a.call("rows", object{"collection": "docs", "skip": 1000}, &out)
	a.want([]any{out.Count, len(out.Rows), out.Next}, "[62 0 0]")

	var whole strings.Builder
	for from := 0; ; {
		var got getOutput
		a.call("get", object{"collection": "docs", "key": "long", "from": from}, &got)
		whole.WriteString(got.Row.Text)
		if len(got.Row.Payload) != 1000 {
			t.Errorf("payload of %d bytes", len(got.Row.Payload))
		}
		if from = got.Next; from == 0 {
			break
		}
	}
	if n := whole.Len(); n != 36_000+20+9_600 {
		t.Errorf("the text has %d characters", n)
	}
}

func TestPredictAndExplain(t *testing.T) {
	a := connect(t, shop(t), false)
	var out predictOutput
	a.call("predict", object{"collection": "docs", "text": "ripe cherries"}, &out)
	a.want([]any{len(out.Labels), out.Labels[0].Label, out.Labels[0].Predicted}, "[1 red true]")
	a.call("predict", object{"collection": "docs", "like": "d01", "top": 2}, &out)
	a.want([]any{len(out.Labels), out.Labels[0].Label}, "[2 blue]")
	a.call("predict", object{"collection": "docs", "text": "giraffe"}, &out)
	a.want(len(out.Labels), 0)
	if !strings.Contains(fmt.Sprint(out.Notes), "knows nothing") {
		t.Error(out.Notes)
	}

	var why explainOutput
	a.call("explain", object{"collection": "docs", "text": "ripe cherries"}, &why)
	if len(why.Answers) != 1 || why.Answers[0].Label != "red" || !strings.Contains(fmt.Sprint(why.Answers[0].Reasons), "cherri") {
		t.Errorf("%+v", why)
	}
	a.call("explain", object{"collection": "docs", "text": "needle words", "key": "long"}, &why)
	if len(why.Answers) != 1 || why.Answers[0].Rank != 1 || !strings.Contains(fmt.Sprint(why.Answers[0].Reasons), "needl") {
		t.Errorf("%+v", why)
	}
	a.call("explain", object{"collection": "docs", "text": "needle", "key": "d00"}, &why)
	a.want(why.Notes, "[The row is not among the first 100 hits.]")
	a.call("explain", object{"collection": "docs", "text": "cherries", "label": "green"}, &why)
	if !strings.Contains(fmt.Sprint(why.Notes), "evidence") {
		t.Error(why.Notes)
	}
}

func TestPutAndDelete(t *testing.T) {
	a := connect(t, shop(t), true)
	var put putOutput
	a.call("put", object{"collection": "docs", "rows": []object{
		{
			"key": "new", "text": "a yellow lemon", "labels": []string{"yellow"}, "payload": "p",
			"attributes": object{"price": 2.5, "brand": "x", "added": object{"$time": "2026-03-01T00:00:00Z"}},
		},
		{"key": "d00", "labels": []string{"green"}},
	}}, &put)
	a.want(put, "{1 1}")
	var got getOutput
	a.call("get", object{"collection": "docs", "key": "new"}, &got)
	a.want(got.Row.Attributes, "map[added:map[$time:2026-03-01T00:00:00Z] brand:x price:2.5]")
	a.call("get", object{"collection": "docs", "key": "d00"}, &got)
	a.want([]any{got.Row.Text, got.Row.Labels, got.Row.Attributes["brand"], got.Row.Payload},
		"[page 0 about apples and cherries [green] acme note]")
	a.call("put", object{"collection": "docs", "replace": true, "rows": []object{{"key": "d00", "text": "bare"}}}, &put)
	a.call("get", object{"collection": "docs", "key": "d00"}, &got)
	a.want(got.Row, "{d00 [] map[]  bare 0  }")
	a.call("put", object{"collection": "both", "rows": []object{{"key": "a", "text": "changed"}}}, &put)
	var out searchOutput
	a.call("search", object{"collection": "both", "vector": []float32{1, 0}}, &out)
	a.want(out.Hits[0].Text, "changed")

	a.want(a.refused("put", object{"collection": "docs", "rows": []object{
		{"key": "e1", "text": "fine"}, {"key": "e2", "text": "x", "attributes": object{"price": "dear"}},
	}}) != "", true)
	if msg := a.refused("get", object{"collection": "docs", "key": "e1"}); !strings.Contains(msg, "e1") {
		t.Error(msg)
	}
	var deleted deleteOutput
	a.call("delete", object{"collection": "docs", "keys": []string{"d01", "nosuch"}}, &deleted)
	a.want(deleted, "{1 [nosuch]}")
	a.refused("get", object{"collection": "docs", "key": "d01"})
}

// TestErrorsNameTheRemedy compares what a model reads when its call is refused.
func TestErrorsNameTheRemedy(t *testing.T) {
	a := connect(t, shop(t), true)
	for _, c := range []struct {
		tool      string
		arguments object
		want      []string
	}{
		{"search", object{"text": "x"}, []string{"one of: docs, both, points, named"}},
		{"search", object{"collection": "points", "text": "x"}, []string{"searched by: vector of 2 numbers, like"}},
		{"search", object{"collection": "points", "vector": []int{1}}, []string{"2"}},
		{"search", object{"collection": "docs"}, []string{"searched by: text, like"}},
		{"search", object{"collection": "docs", "text": "x", "like": "d00"}, []string{"like goes without"}},
		{"search", object{"collection": "docs", "like": "d99"}, []string{`"d99"`}},
		{"search", object{"collection": "docs", "text": "x", "k": 101}, []string{"k is 101: want 1 to 100"}},
		{"search", object{"collection": "docs", "text": "x", "filter": "price <"}, []string{"^", "label in (boot, bag)"}},
		{"search", object{"collection": "docs", "text": "x", "filter": "prize < 3"}, []string{"prize", "^"}},
		{"search", object{"collection": "docs", "text": "x", "limit": 3}, []string{"limit"}},
		{"rows", object{"collection": "docs", "filter": "brand = 3"}, []string{"brand"}},
		{"predict", object{"collection": "points", "vector": []int{1, 2}}, []string{"anndb build", "points"}},
		{"predict", object{"collection": "docs", "text": "x", "index": "main"}, []string{"main"}},
		{"explain", object{"collection": "docs", "text": "x", "key": "a", "label": "b"}, []string{"give one of them"}},
		{"explain", object{"collection": "docs", "text": "x", "key": "nosuch"}, []string{"nosuch"}},
		{"get", object{"collection": "docs", "key": "d00", "from": 99}, []string{"the text has 32 characters"}},
		{"put", object{"collection": "docs", "rows": []object{}}, []string{"1 to 100"}},
		{"put", object{"collection": "docs", "rows": []object{{"key": "x", "labels": []string{"y"}}}}, []string{`row "x"`, "text"}},
		{"put", object{"collection": "docs", "rows": []object{{"key": "x", "text": "y", "expires": "soon"}}}, []string{`row "x"`, "expires", "soon"}},
		{"put", object{"collection": "docs", "rows": []object{{"key": "x", "text": "y", "attributes": object{"n": 1e17}}}}, []string{"2^53"}},
		{"delete", object{"collection": "docs", "keys": []string{}}, []string{"1 to 100"}},
	} {
		got := a.refused(c.tool, c.arguments)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s %v: %q lacks %q", c.tool, c.arguments, got, want)
			}
		}
		if strings.Contains(got, "db: ") || strings.Contains(got, "bad option") || strings.Contains(got, "JSON") {
			t.Errorf("%s %v: %q is for Go programs", c.tool, c.arguments, got)
		}
		t.Logf("%s %v: %s", c.tool, c.arguments, strings.Split(got, "\n\nFilters")[0])
	}
}

// TestServed compares the answers of a file with those of a server that has it open, at an address and by the
// socket next to the file.
func TestServed(t *testing.T) {
	ctx, path := context.Background(), shop(t)
	calls := []struct {
		tool      string
		arguments object
	}{
		{"list", object{}},
		{"list", object{"collection": "docs"}},
		{"search", object{"collection": "docs", "text": "cherries sky", "filter": "price > 3 and big = false", "k": 5}},
		{"search", object{"collection": "both", "text": "one", "vector": []float32{0, 1}}},
		{"search", object{"collection": "points", "like": "p"}},
		{"rows", object{"collection": "docs", "filter": "label = red", "skip": 3, "n": 4}},
		{"get", object{"collection": "docs", "key": "d07"}},
		{"predict", object{"collection": "docs", "text": "ripe cherries"}},
		{"explain", object{"collection": "docs", "text": "ripe cherries"}},
		{"explain", object{"collection": "docs", "text": "needle", "key": "long"}},
	}
	local := connect(t, path, false)
	want := make([]object, len(calls))
	for i, c := range calls {
		local.call(c.tool, c.arguments, &want[i])
	}
	d, err := db.Open(ctx, path, &db.Options{Timeout: 5 * time.Second, Maintenance: &maintenance.Policy{Manual: true}})
	check(t, err)
	defer d.Close()
	other, err := db.Open(ctx, filepath.Join(t.TempDir(), "other.anndb"), nil)
	check(t, err)
	defer other.Close()
	// A file can have another name than its path, and the server has others.
	handler := server.New(map[string]*db.DB{"zoo": d, "other": other}, &server.Options{Token: "secret", Logger: slog.New(slog.DiscardHandler)})
	web := httptest.NewServer(handler)
	defer web.Close()
	socket, err := net.Listen("unix", path+".sock")
	check(t, err)
	served := make(chan error, 1)
	go func() { served <- handler.Serve(socket) }()
	defer func() {
		check(t, handler.Shutdown(ctx))
		<-served
	}()
	remote, err := Dial(ctx, web.URL, "secret", "zoo")
	check(t, err)
	agents := map[string]agent{"address": offer(t, remote, true), "socket": connect(t, path, true)}
	for name, a := range agents {
		for i, c := range calls {
			var got object
			a.call(c.tool, c.arguments, &got)
			if got["database"] != nil {
				got["database"] = path
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("%s: %s %v: %s", name, c.tool, c.arguments, diff)
			}
		}
	}
	for name, a := range agents {
		var put putOutput
		a.call("put", object{"collection": "docs", "rows": []object{
			{"key": name, "text": "new"}, {"key": "d00", "labels": []string{name}},
		}}, &put)
		a.want(put, "{1 1}")
		row, err := d.Collection("docs").Get([]byte("d00"))
		a.want([]any{row.Labels, row.Attributes["brand"], err}, fmt.Sprintf("[[%s] acme <nil>]", name))
		var deleted deleteOutput
		a.call("delete", object{"collection": "docs", "keys": []string{name, "none"}}, &deleted)
		a.want(deleted, "{1 [none]}")
		a.refused("search", object{"collection": "docs", "text": "x", "filter": "price <"})
	}
	for _, c := range [][2]string{{"wrong", "zoo"}, {"secret", "none"}, {"secret", ""}} {
		if _, err := Dial(ctx, web.URL, c[0], c[1]); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
}

// TestAnyArguments calls all tools with arguments that suit their schemas or not, several at a time. Each is
// answered or refused, and the database is intact.
func TestAnyArguments(t *testing.T) {
	path := shop(t)
	a := connect(t, path, true)
	tools := map[string]string{
		"list": "", "search": "text vector features like filter k recall max_text", "rows": "filter skip n max_text",
		"get": "key from", "predict": "text vector features like index top min_probability",
		"explain": "text vector features like key label index", "put": "rows replace", "delete": "keys",
	}
	names := slices.Sorted(maps.Keys(tools))
	numbers := []any{0, 1, -1, 7, 100, 101, 1 << 40}
	values := map[string][]any{
		"text": {"sky", `+"the sky" -sea`, "\x00", "\xff", "-"}, "vector": {[]float32{1, 2}, []any{}, []float64{1e300, 0}},
		"features": {object{"goal": 1}, object{"": -1}, object{}}, "like": {"d01", "a", "binary\xff", "none"},
		"filter": {"price < 9", "label = red", "exists none", "(((", "key prefix d"}, "k": numbers, "max_text": numbers,
		"recall": {0, 0.5, 1, -1, 2}, "skip": numbers, "n": numbers, "from": numbers, "top": numbers,
		"min_probability": {0, 0.5, 1, 2}, "key": {"d01", "long", "", "none"}, "label": {"red", "none"},
		"index": {"labels", db.Flat, "none"}, "replace": {true, false}, "keys": {[]string{"d02", "d02"}, []string{""}, []any{}},
		"rows": {
			[]any{object{"key": "z", "text": "t"}, object{"key": "z", "labels": []string{"red"}}},
			[]any{object{"key": ""}}, []any{object{"key": "z", "vector": []int{1, 2}, "attributes": object{"n": nil}}},
		},
	}
	random := rand.New(rand.NewPCG(1, 2))
	var done sync.WaitGroup
	answered := atomic.Int32{}
	for range 600 {
		tool := names[random.IntN(len(names))]
		arguments := object{"collection": []any{"docs", "docs", "both", "points", "named", 3}[random.IntN(6)]}
		for _, name := range strings.Fields(tools[tool]) {
			if random.IntN(2) == 0 || name == "rows" || name == "keys" {
				arguments[name] = values[name][random.IntN(len(values[name]))]
			}
		}
		done.Go(func() {
			res, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Errorf("%s %v: %v", tool, arguments, err)
			} else if !res.IsError {
				answered.Add(1)
			}
		})
		if random.IntN(4) == 0 {
			done.Wait()
		}
	}
	done.Wait()
	if n := answered.Load(); n < 100 {
		t.Errorf("only %d calls are answered", n)
	}
	d, err := db.Open(context.Background(), path, &db.Options{ReadOnly: true, MustExist: true, Timeout: 10 * time.Second})
	check(t, err)
	check(t, d.Check(context.Background(), nil, nil))
	check(t, d.Close())
}

// TestFileIsFreeBetweenCalls opens the file for writing while a server has it.
func TestFileIsFreeBetweenCalls(t *testing.T) {
	ctx, path := context.Background(), shop(t)
	d0, err := Open(ctx, path)
	check(t, err)
	f := d0.(*file)
	defer f.Close()
	f.release() // as when the time is over
	d, err := db.Open(ctx, path, &db.Options{Timeout: time.Millisecond})
	check(t, err)
	check(t, d.Drop(ctx, "docs"))
	f.wait = time.Millisecond
	err = f.read(ctx, func(state) error { return nil })
	if !errors.Is(err, db.ErrLocked) || !strings.Contains(err.Error(), "try again") {
		t.Error(err)
	}
	check(t, d.Close())
	check(t, f.read(ctx, func(s state) error {
		if infos, err := s.Collections(ctx); len(infos) != 3 || err != nil {
			t.Errorf("%d collections, %v", len(infos), err)
		}
		f.release() // does nothing during a call
		return nil
	}))
}

func TestOpen(t *testing.T) {
	ctx := context.Background()
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "none.anndb")); err == nil || !strings.Contains(err.Error(), "anndb import") {
		t.Error(err)
	}
}
