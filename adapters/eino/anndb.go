// Package anndb is a retriever and an indexer of eino over a collection of anndb: of texts, which are
// searched by BM25, of vectors, or of both, whose scores are combined. Metadata that are strings, numbers,
// bools and times are attributes of rows, the list of strings "labels" are their labels.
package anndb

import (
	"context"
	"fmt"

	"github.com/cloudwego/eino/components/embedding"
	"github.com/cloudwego/eino/components/indexer"
	"github.com/cloudwego/eino/components/retriever"
	"github.com/cloudwego/eino/schema"

	"github.com/anndb/anndb/adapters/internal/documents"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
)

// IndexerConfig selects the collection of an indexer.
type IndexerConfig struct {
	Collection db.Collection
	Embedding  embedding.Embedder // for collections with vectors
}

// Indexer is an indexer.Indexer.
type Indexer struct{ c IndexerConfig }

// NewIndexer returns an indexer.
func NewIndexer(c *IndexerConfig) *Indexer { return &Indexer{*c} }

// GetType returns the name of the implementation.
func (x *Indexer) GetType() string { return "Anndb" }

// Store writes documents, and replaces those with the same ID. One without an ID gets a hash of it. It
// returns the IDs of those that are durable.
func (x *Indexer) Store(
	ctx context.Context, docs []*schema.Document, opts ...indexer.Option,
) ([]string, error) {
	o := indexer.GetCommonOptions(&indexer.Options{Embedding: x.c.Embedding}, opts...)
	if len(o.SubIndexes) > 0 {
		return nil, fmt.Errorf("%w: there are no sub indexes; use metadata and filters", db.ErrInvalid)
	}
	out := make([]documents.Document, len(docs))
	for i, d := range docs {
		out[i] = documents.Document{ID: d.ID, Content: d.Content, Metadata: d.MetaData}
	}
	return documents.Store{Collection: x.c.Collection, Embed: embed(o.Embedding)}.Put(ctx, out)
}

// RetrieverConfig selects the collection of a retriever, and the defaults of its options.
type RetrieverConfig struct {
	Collection db.Collection
	Embedding  embedding.Embedder // for collections with vectors
	TopK       int                // 10 when zero
	Filter     *filter.Filter     // nil for all documents; filter.Parse makes it of a text
	Recall     float64            // the target of searches by vector, 0.95 when zero
}

// Retriever is a retriever.Retriever.
type Retriever struct{ c RetrieverConfig }

// NewRetriever returns a retriever.
func NewRetriever(c *RetrieverConfig) *Retriever { return &Retriever{*c} }

// options are those of this retriever.
type options struct{ where *filter.Filter }

// WithFilter restricts the documents of one call, in place of RetrieverConfig.Filter.
func WithFilter(f *filter.Filter) retriever.Option {
	return retriever.WrapImplSpecificOptFn(func(o *options) { o.where = f })
}

// GetType returns the name of the implementation.
func (r *Retriever) GetType() string { return "Anndb" }

// Retrieve returns the documents nearest to a question, with their scores. Options select the number, the
// least score, the embedder, the filter and the index of the collection.
func (r *Retriever) Retrieve(
	ctx context.Context, question string, opts ...retriever.Option,
) ([]*schema.Document, error) {
	o := retriever.GetCommonOptions(&retriever.Options{TopK: &r.c.TopK, Embedding: r.c.Embedding}, opts...)
	own := retriever.GetImplSpecificOptions(&options{r.c.Filter}, opts...)
	if o.SubIndex != nil || o.DSLInfo != nil {
		return nil, fmt.Errorf("%w: there are neither sub indexes nor DSLs; use WithFilter", db.ErrInvalid)
	}
	search := db.SearchOptions{K: *o.TopK, Where: own.where, Recall: r.c.Recall}
	if o.Index != nil {
		search.Index = *o.Index
	}
	store := documents.Store{Collection: r.c.Collection, Embed: embed(o.Embedding)}
	found, err := store.Find(ctx, question, search)
	if err != nil {
		return nil, err
	}
	var out []*schema.Document
	for _, d := range found {
		if o.ScoreThreshold == nil || d.Score >= *o.ScoreThreshold {
			doc := &schema.Document{ID: d.ID, Content: d.Content, MetaData: d.Metadata}
			out = append(out, doc.WithScore(d.Score))
		}
	}
	return out, nil
}

// embed returns the function of an embedder, nil for none.
func embed(e embedding.Embedder) func(context.Context, []string) ([][]float32, error) {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, texts []string) ([][]float32, error) {
		vectors, err := e.EmbedStrings(ctx, texts)
		if err != nil {
			return nil, err
		}
		out := make([][]float32, len(vectors))
		for i, x := range vectors {
			out[i] = make([]float32, len(x))
			for j, v := range x {
				out[i][j] = float32(v)
			}
		}
		return out, nil
	}
}
