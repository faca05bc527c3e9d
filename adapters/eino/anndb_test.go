package anndb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudwego/eino/components/embedding"
	"github.com/cloudwego/eino/components/indexer"
	"github.com/cloudwego/eino/components/retriever"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/text"
)

var (
	_ indexer.Indexer     = (*Indexer)(nil)
	_ retriever.Retriever = (*Retriever)(nil)
)

// letters is an embedder that counts letters.
type letters struct{}

func (letters) EmbedStrings(_ context.Context, texts []string, _ ...embedding.Option) (out [][]float64, err error) {
	for _, s := range texts {
		out = append(out, []float64{float64(strings.Count(s, "a")), float64(strings.Count(s, "b"))})
	}
	return out, nil
}

// TestChain indexes and retrieves in chains of eino.
func TestChain(t *testing.T) {
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
	in, err := compose.NewChain[[]*schema.Document, []string]().
		AppendIndexer(NewIndexer(&IndexerConfig{Collection: c, Embedding: letters{}})).Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := in.Invoke(ctx, []*schema.Document{
		{ID: "fruit", Content: "banana and papaya", MetaData: map[string]any{"price": 3, "labels": []string{"food"}}},
		{ID: "toy", Content: "bubble", MetaData: map[string]any{"price": 5, "parts": []string{"a", "b"}}},
		{Content: "no metadata"},
	})
	if err != nil || len(ids) != 3 || ids[0] != "fruit" || len(ids[2]) != 32 {
		t.Fatal(ids, err)
	}
	r := NewRetriever(&RetrieverConfig{Collection: c, Embedding: letters{}, TopK: 2})
	chain, err := compose.NewChain[string, []*schema.Document]().AppendRetriever(r).Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cheap, err := filter.Parse("price < 4 or label = toys")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		question string
		options  []retriever.Option
		want     string
	}{
		{"papaya", []retriever.Option{retriever.WithTopK(1)}, "[fruit]"},
		{"bubble", []retriever.Option{WithFilter(cheap)}, "[fruit]"},
		{"bubble", []retriever.Option{retriever.WithScoreThreshold(0.9)}, "[toy]"},
		{"bubble", []retriever.Option{retriever.WithTopK(1), retriever.WithIndex(db.Flat)}, "[toy]"},
	} {
		docs, err := chain.Invoke(ctx, x.question, compose.WithRetrieverOption(x.options...))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range docs {
			got = append(got, d.ID)
		}
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s: %v, want %s", x.question, got, x.want)
		}
	}
	docs, err := r.Retrieve(ctx, "bubble")
	if err != nil || len(docs) != 2 || docs[0].Content != "bubble" || docs[0].Score() <= 0.9 {
		t.Fatal(docs, err)
	}
	if got := fmt.Sprint(docs[0].MetaData["parts"], docs[0].MetaData["price"]); got != "[a b] 5" {
		t.Error(got)
	}
	if _, err := NewIndexer(&IndexerConfig{Collection: c, Embedding: letters{}}).Store(ctx, docs); err != nil {
		t.Error(err) // what was retrieved can be stored again
	}
	if _, err := r.Retrieve(ctx, "x", retriever.WithSubIndex("s")); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	_, err = NewIndexer(&IndexerConfig{Collection: c}).Store(ctx, docs, indexer.WithSubIndexes([]string{"s"}))
	if !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}
