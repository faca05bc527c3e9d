package anndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

// TestRetriever indexes and retrieves by Genkit's own calls, with an embedder that counts letters.
func TestRetriever(t *testing.T) {
	ctx := context.Background()
	d, err := db.Open(ctx, filepath.Join(t.TempDir(), "x.anndb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.Create(ctx, "docs", db.Schema{Dim: 2, Text: &text.Schema{}})
	if err != nil {
		t.Fatal(err)
	}
	g := genkit.Init(ctx)
	letters := genkit.DefineEmbedder(g, "test/letters", nil,
		func(_ context.Context, req *ai.EmbedRequest) (*ai.EmbedResponse, error) {
			res := &ai.EmbedResponse{}
			for _, d := range req.Input {
				s := d.Content[0].Text
				res.Embeddings = append(res.Embeddings, &ai.Embedding{
					Embedding: []float32{float32(strings.Count(s, "a")), float32(strings.Count(s, "b"))},
				})
			}
			return res, nil
		})
	store, defined := DefineRetriever(g, "docs", Config{Collection: c, Embedder: letters})
	if Retriever(g, "docs") == nil || Retriever(g, "others") != nil || defined.Name() != "anndb/docs" {
		t.Error("the retriever is not registered")
	}
	ids, err := store.Index(ctx, []*ai.Document{
		ai.DocumentFromText("banana and papaya", map[string]any{"id": "fruit", "price": 3, "labels": []string{"food"}}),
		ai.DocumentFromText("bubble", map[string]any{"id": "toy", "price": 5, "parts": []string{"a", "b"}}),
		ai.DocumentFromText("no metadata", nil),
	})
	if err != nil || len(ids) != 3 || ids[0] != "fruit" || len(ids[2]) != 32 {
		t.Fatal(ids, err)
	}
	for _, x := range []struct {
		question string
		options  any
		want     string
	}{
		{"papaya", &RetrieverOptions{K: 1}, "[fruit]"},
		{"bubble", RetrieverOptions{K: 1}, "[toy]"}, // a RetrieverRef's default
		{"bubble", map[string]any{"filter": "label = food", "k": 2}, "[fruit]"},
		{"bubble", map[string]any{"filter": "price > 4"}, "[toy]"},
	} {
		res, err := genkit.Retrieve(ctx, g, ai.WithRetriever(defined), ai.WithTextDocs(x.question), ai.WithConfig(x.options))
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, d := range res.Documents {
			got = append(got, d.Metadata[IDKey])
		}
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s %v: %v, want %s", x.question, x.options, got, x.want)
		}
	}
	res, err := genkit.Retrieve(ctx, g, ai.WithRetrieverName("anndb/docs"), ai.WithTextDocs("bubble"))
	if err != nil || len(res.Documents) != 3 {
		t.Fatal(res, err)
	}
	toy := res.Documents[0]
	if score, _ := toy.Metadata[ScoreKey].(float64); score <= 0.9 || toy.Content[0].Text != "bubble" {
		t.Errorf("%+v", toy)
	}
	if b, err := json.Marshal(toy.Metadata["parts"]); string(b) != `["a","b"]` || err != nil {
		t.Errorf("%s %v", b, err)
	}
	if _, err := store.Index(ctx, res.Documents); err != nil { // what was retrieved can be stored again
		t.Error(err)
	}
	for options, want := range map[any]string{
		&map[string]any{"limit": 3}:          "limit is not allowed",
		&RetrieverOptions{Filter: "price <"}: "column 8: expected a value",
	} {
		_, err := genkit.Retrieve(ctx, g, ai.WithRetriever(defined), ai.WithTextDocs("x"), ai.WithConfig(options))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", options, err)
		}
	}
	picture := &ai.Document{Content: []*ai.Part{ai.NewMediaPart("image/png", "data:")}}
	if _, err := store.Index(ctx, []*ai.Document{picture}); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}
