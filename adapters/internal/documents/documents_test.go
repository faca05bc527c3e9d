package documents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// embed counts the letters a and b.
func embed(_ context.Context, texts []string) (out [][]float32, err error) {
	for _, s := range texts {
		out = append(out, []float32{1 + float32(strings.Count(s, "a")), 1 + float32(strings.Count(s, "b"))})
	}
	return out, nil
}

func open(t *testing.T, schema db.Schema) Store {
	t.Helper()
	d, err := db.Open(context.Background(), filepath.Join(t.TempDir(), "x.anndb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c, err := d.Create(context.Background(), "docs", schema)
	if err != nil {
		t.Fatal(err)
	}
	s := Store{Collection: c}
	if schema.Dim > 0 {
		s.Embed = embed
	}
	return s
}

// TestRoundTrip compares documents that are found with those that were put, in each kind of collection.
func TestRoundTrip(t *testing.T) {
	ctx := context.Background()
	long := strings.Repeat("x", 600)
	docs := []Document{
		{ID: "a", Content: "aaa alpha", Metadata: map[string]any{
			"labels": []string{"first"}, "n": int64(3), "f": 2.5, "ok": true, "s": "short", "_score": 7.0,
			"at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "long": long, "list": []any{"p", 1.0},
		}},
		{ID: "b", Content: "bbb beta", Metadata: map[string]any{}},
	}
	for name, schema := range map[string]db.Schema{
		"texts": {Text: &text.Schema{}}, "vectors": {Dim: 2, Metric: vector.Cosine},
		"both": {Dim: 2, Text: &text.Schema{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, schema)
			ids, err := s.Put(ctx, docs)
			if err != nil || fmt.Sprint(ids) != "[a b]" {
				t.Fatal(ids, err)
			}
			for _, want := range docs {
				found, err := s.Find(ctx, want.Content, db.SearchOptions{K: 1})
				if err != nil || len(found) != 1 {
					t.Fatal(found, err)
				}
				if found[0].Score <= 0 {
					t.Errorf("score %v", found[0].Score)
				}
				want.Score = found[0].Score
				expected := map[string]any{}
				for k, v := range want.Metadata {
					if k != "_score" {
						expected[k] = v
					}
				}
				want.Metadata = expected
				if diff := cmp.Diff(want, found[0]); diff != "" {
					t.Error(diff)
				}
			}
			only, err := s.Find(ctx, "alpha beta", db.SearchOptions{Where: filter.And(filter.Eq("n", 3), filter.HasLabel("first"))})
			if err != nil || len(only) != 1 || only[0].ID != "a" {
				t.Error(only, err)
			}
		})
	}
}

// TestPut covers documents without IDs, more than one batch, and errors.
func TestPut(t *testing.T) {
	ctx, s := context.Background(), open(t, db.Schema{Dim: 2})
	many := make([]Document, 2*Batch+1)
	for i := range many {
		many[i].Content = fmt.Sprint("document ", i)
	}
	for range 2 { // the second time replaces
		ids, err := s.Put(ctx, many)
		if err != nil || len(ids) != len(many) || ids[0] == ids[1] {
			t.Fatal(len(ids), err)
		}
	}
	if n, err := s.Collection.Count(ctx, nil); n != len(many) || err != nil {
		t.Error(n, err)
	}
	fault := errors.New("no network")
	s.Embed = func(context.Context, []string) ([][]float32, error) { return nil, fault }
	if _, err := s.Put(ctx, many[:1]); !errors.Is(err, fault) {
		t.Error(err)
	}
	s.Embed = func(context.Context, []string) ([][]float32, error) { return nil, nil }
	if _, err := s.Put(ctx, many[:1]); err == nil || !strings.Contains(err.Error(), "0 vectors for 1 texts") {
		t.Error(err)
	}
	if _, err := open(t, db.Schema{Named: true}).Put(ctx, many[:1]); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	if _, err := open(t, db.Schema{Text: &text.Schema{}}).Put(ctx, []Document{
		{ID: "x", Content: "a", Metadata: map[string]any{"f": func() {}}},
	}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
}

// TestQuestions searches for what people type, which is no query with operators.
func TestQuestions(t *testing.T) {
	ctx, s := context.Background(), open(t, db.Schema{Text: &text.Schema{}})
	if _, err := s.Put(ctx, []Document{{ID: "x", Content: "a bird in the hand"}}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Find(ctx, `what is "hand bird" +unheard?`, db.SearchOptions{})
	if err != nil || len(found) != 1 {
		t.Error(found, err)
	}
}
