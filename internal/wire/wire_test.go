package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// requests makes a value for each type of request.
var requests = []func() any{
	func() any { return new(wire.Search) }, func() any { return new(wire.Predict) },
	func() any { return new(wire.Transaction) }, func() any { return new(wire.NewCollection) },
	func() any { return new(wire.Build) }, func() any { return new(wire.Count) },
	func() any { return new(wire.Maintain) }, func() any { return new(wire.Compact) },
	func() any { return new(wire.CollectionChange) }, func() any { return new(wire.IndexChange) },
}

// FuzzRequests decodes bodies as requests of each type and as rows of each kind of collection. What is
// accepted, is accepted again once it is encoded, as the same value.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"vector":[1,2.5,-3e-7],"k":3,"where":"a < 3","include":["labels"],"radius":1,"after":[{"key":"a"}]}`,
		`{"vector":{"base64":"AACAPwAAAEA="},"rank":{"boosts":[{"attribute":"t","origin":"2026-01-02T03:04:05Z","half":3}]}}`,
		`{"queries":[{"features":{"a":1}},{"features":{"indices":[1,5],"values":[1,2]}},{"text":"x"}],"params":{"method":"beam","beam":3}}`,
		`{"key_base64":"/w==","top":3,"params":{"k":3,"lambda":0.5}}`,
		`{"if":[{"collection":"c","key":"a","version":"0"}],"operations":[{"op":"put","collection":"c","row":{"key":"a","vector":[1]}}]}`,
		`{"name":"c","dim":3,"metric":"ip","text":{"analyzer":"words"},"meta":{"a":"b"}}`,
		`{"kind":"at","options":{"Budget":3,"Objective":"micro-f1"}}`, `{"where":"x"}`, `{"share":0.5}`, `{"schema":{"dim":3}}`, `{"default":true}`, `{"reorder":true}`,
		`{"key":"a","text":"t","vector":null,"labels":["a"],"attributes":{"t":{"$time":"2026-01-02T03:04:05Z"}},"expires":"2026-01-02","payload":{"a":1}}`,
		`{"vector":{"base64":"AACAPwAAAEA="},"k":3}`, `{"vector":{"base64":"AACAPwAAAEA="}}`, `{"vector":{"base64":"AACAPwAAAEA="},}`,
		`{"vector":{"base64":"AACAPwAAAEA="},"vector":[7]}`, `{"vector":{"base64":"AACAPwAAAEA="}`, `{"vector":{"base64":"AACAf w=="},"k":3}`,
		`{"k":3,"vector":[1,2],"Vector":[3]}`, `{"vector":null}`, `{ "k" : 3 , "vector" : [ 1e0 , -2.50 ] }`,
		`{"key":"a","features":{"a":1},"vector":[1]}`, `[[[[`, `{"vector":{"base64":1}}`, ` `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, make := range requests {
			in := make()
			err := wire.Unmarshal(body, in)
			var where *filter.Error
			if err != nil && !errors.Is(err, wire.ErrJSON) && !errors.As(err, &where) && !errors.Is(err, vector.ErrMetric) {
				t.Fatalf("%T: %v is no ErrJSON", in, err)
			}
			if err == nil {
				decoded(t, in)
			}
		}
		var slow, fast wire.Search
		slowErr, fastErr := wire.Unmarshal(body, &slow), wire.UnmarshalQuery(body, &fast.Query, &fast)
		if (slowErr == nil) != (fastErr == nil) || slowErr == nil && !reflect.DeepEqual(slow, fast) {
			t.Fatalf("%+v, %v, and without encoding/json %+v, %v", slow, slowErr, fast, fastErr)
		}
		for _, schema := range []db.Schema{{Dim: 1}, {Named: true, Dim: 1}, {Text: &text.Schema{}, Dim: 1}} {
			if _, err := wire.ParseRow(body, &db.CollectionInfo{Schema: schema}); err != nil && !errors.Is(err, wire.ErrJSON) {
				t.Fatalf("row: %v is no ErrJSON", err)
			}
		}
	})
}

// decoded checks a request that was accepted.
func decoded(t *testing.T, in any) {
	switch in := in.(type) {
	case *wire.Search:
		_, _, _ = in.Get()
	case *wire.Predict:
		_, _, _ = in.Get()
	case *wire.Build:
		_, _ = in.Get()
	}
	once, err := json.Marshal(in)
	if err != nil {
		t.Fatalf("%T %+v: %v", in, in, err)
	}
	again := reflect.New(reflect.TypeOf(in).Elem()).Interface()
	if err := wire.Unmarshal(once, again); err != nil {
		t.Fatalf("%s: %v", once, err)
	}
	twice, err := json.Marshal(again)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s is encoded again as %s, %v", once, twice, err)
	}
}

// TestErrors carries every error of package db to the other end.
func TestErrors(t *testing.T) {
	for _, want := range []error{
		db.ErrInvalid, db.ErrNotFound, db.ErrExists, db.ErrUnsuitable, db.ErrClosed, db.ErrReadOnly, db.ErrCorrupt, db.ErrNotDatabase,
		db.ErrLocked, db.ErrReplaced, db.ErrLinked, db.ErrUnknownState, db.ErrNoSpace, wire.ErrBusy, wire.ErrChanged,
	} {
		sent := wire.NewError(want)
		text, err := json.Marshal(wire.Failure{Error: sent})
		if err != nil {
			t.Fatal(err)
		}
		var got wire.Failure
		if err := wire.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(got.Error, want) || got.Error.Error() != want.Error() || sent.Status < 400 {
			t.Errorf("%v arrives as %v with status %d", want, got.Error, sent.Status)
		}
	}
	if e := wire.NewError(errors.New("x")); e.Code != "internal" || e.Unwrap() != nil {
		t.Errorf("%+v", e)
	}
}

// searchBody is a request of a search by a vector of 784 coordinates.
func searchBody(t testing.TB) []byte {
	v := make([]float32, 784)
	for i := range v {
		v[i] = float32(i * 37 % 256)
	}
	body, err := json.Marshal(&wire.Search{Query: wire.Query{Vector: v}, SearchOptions: db.SearchOptions{Recall: 0.95}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func BenchmarkDecode(b *testing.B) {
	body := searchBody(b)
	for b.Loop() {
		var in wire.Search
		if err := wire.UnmarshalQuery(body, &in.Query, &in); err != nil {
			b.Fatal(err)
		}
		if _, _, err := in.Get(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	r := &db.Result{Index: "main"}
	for i := range 10 {
		r.Hits = append(r.Hits, db.Hit{Key: []byte("12345"), Row: uint32(i), Distance: 1234.567 * float32(i)})
	}
	for b.Loop() {
		if _, err := json.Marshal(wire.NewResult(r, false)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestReasonsKeepEverything: a reason that was sent is the same reason.
func TestReasonsKeepEverything(t *testing.T) {
	row := explain.Reason{
		Text: "a", Key: []byte{'a', 0xff}, Value: 0.5, Score: 0.25, Title: "A", Labels: []string{"x"},
		Parts: []explain.Reason{{Text: "w", Feature: "w", Value: 0.5, Score: 0.25}},
	}
	want := &explain.Reason{
		Text: "1 row", Score: 0.25, Parts: []explain.Reason{row}, Against: []explain.Reason{row},
		Threshold: &explain.Threshold{Text: "above", Value: 0.2, Distance: 0.05},
	}
	sent, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got *explain.Reason
	if err := json.Unmarshal(sent, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
}
